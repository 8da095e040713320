//! Pods one by one onto the nodes where they cost least: how those are packed whose hostname matters.

use crate::scheduling::{
    bound::{Columns, duals},
    ids::{IdVec, ItemId},
    improve::{
        NODE_OVERHEAD,
        bins::{Bin, Offer, cost},
        float,
        problem::Problem,
        random::Random,
    },
};

/// How many nodes are looked at for a pod: of all, and of those beside the ones that were taken apart.
const LOOKED_AT: usize = 48;
const LOOKED_AT_LATER: usize = 12;
/// Pods that are inserted again in other orders, over all turns, and the most turns.
pub(super) const TURN_PODS: usize = 800;
const MAX_TURNS: usize = 12;
/// How far apart pods are that change places in the order.
const REACH: usize = 4;
/// One place of this many is passed over by chance.
const PASSED_OVER: usize = 24;

/// Inserts pods.
#[derive(Debug)]
pub(super) struct Insertion<'p> {
    problem: &'p Problem,
    /// By dimension: what a unit costs by the duals of the linear program.
    weights: Vec<f64>,
    /// By item: what a pod is worth by them.
    worth: IdVec<ItemId, f64>,
    /// By item: whether no two share a node.
    exclusive: IdVec<ItemId, bool>,
}

/// Nodes that were taken apart, those that changed since, as they were, and the most that may be spent.
type Ruins<'a> = (&'a [usize], &'a mut Vec<(usize, Bin)>, i64);

impl<'p> Insertion<'p> {
    /// Weights by the duals over what some nodes hold.
    pub(super) fn new(problem: &'p Problem, bins: &[Bin]) -> Self {
        let mut demand = vec![0_i64; problem.dims];
        for bin in bins {
            for (sum, used) in demand.iter_mut().zip(&bin.used) {
                *sum = sum.saturating_add(*used);
            }
        }
        let mut columns = Columns::new(problem.dims);
        for template in &problem.templates {
            template.table.columns().for_each(|(price, free)| columns.push(price, free));
        }
        let weights = duals(&demand, &columns);
        let worth = |requests: &[i64]| requests.iter().zip(&weights).map(|(a, w)| float(*a) * w).sum();
        let worth = problem.items.iter().map(|item| worth(&item.requests)).collect();
        let exclusive = problem.items.iter().map(|item| item.hostname.is_exclusive()).collect();
        Self { problem, weights, worth, exclusive }
    }

    /// What a pod of each item is worth by the duals.
    pub(super) fn worth(&self) -> &IdVec<ItemId, f64> {
        &self.worth
    }

    /// Puts all pods where they cost least, in place of the nodes that there are, and keeps those if they are cheaper. Few pods are
    /// inserted in several orders: the first ones decide what those after them cost, and with few nodes there is little to improve
    /// afterwards.
    pub(super) fn restart(&self, random: &mut Random, bins: &mut Vec<Bin>, mut pods: Vec<ItemId>) {
        self.arrange(&mut pods, true);
        let turns = (TURN_PODS / pods.len().max(1)).clamp(1, MAX_TURNS);
        for turn in 0..turns {
            let mut pods = pods.clone();
            self.reorder(random, &mut pods, turn);
            let mut fresh = Vec::new();
            let mut spent = 0;
            let limit = cost(bins);
            let whole = pods.into_iter().all(|item| {
                let place = self.cheapest(random, &fresh, item, None);
                place.is_some_and(|place| {
                    spent += self.put(&mut fresh, place, item);
                    spent < limit
                })
            });
            if whole {
                *bins = fresh;
            }
        }
    }

    /// Inserts the pods of ruined nodes; returns what that costs, or `None` where it is more than the limit.
    pub(super) fn insert(
        &self,
        random: &mut Random,
        bins: &mut Vec<Bin>,
        mut pods: Vec<ItemId>,
        (ruined, undo, limit): Ruins<'_>,
    ) -> Option<i64> {
        let exclusive_first = random.below(4) > 0;
        self.arrange(&mut pods, exclusive_first);
        let first = bins.len();
        let mut spent = 0_i64;
        for item in pods {
            let place = self.cheapest(random, bins, item, Some((first, ruined)))?;
            if let (Some(bin), _) = place
                && bin < first
                && !undo.iter().any(|(known, _)| *known == bin)
            {
                undo.push((bin, bins[bin].clone()));
            }
            spent = spent.saturating_add(self.put(bins, place, item));
            if spent > limit {
                return None;
            }
        }
        Some(spent)
    }

    /// Sorts pods for insertion: those that share no node with their equals first, then by worth.
    fn arrange(&self, pods: &mut [ItemId], exclusive_first: bool) {
        pods.sort_unstable_by(|a, b| {
            let rank = |item: ItemId| exclusive_first && self.exclusive[item];
            rank(*b)
                .cmp(&rank(*a))
                .then_with(|| self.worth[*b].total_cmp(&self.worth[*a]))
                .then_with(|| a.cmp(b))
        });
    }

    /// Another order than by worth, in which pods are given: by the ratio of the first two dimensions, or by chance.
    fn reorder(&self, random: &mut Random, pods: &mut [ItemId], turn: usize) {
        let ratio = |a: ItemId, b: ItemId| {
            let amount = |item: ItemId, dim: usize| {
                i128::from(self.problem.items[item].requests.get(dim).copied().unwrap_or(0).max(0)) + 1
            };
            (amount(a, 0) * amount(b, 1)).cmp(&(amount(b, 0) * amount(a, 1)))
        };
        match turn {
            0 => {}
            1 => pods.sort_by(|a, b| ratio(*a, *b)),
            2 => pods.sort_by(|a, b| ratio(*b, *a)),
            _ => {
                // Neighbors change places.
                for _ in 0..pods.len() {
                    let index = random.below(pods.len());
                    let other = (index + 1 + random.below(REACH)).min(pods.len() - 1);
                    pods.swap(index, other);
                }
            }
        }
    }

    /// The node where a pod costs least, `None` for a new one. Of nodes that were there before others were ruined, only some are
    /// looked at, and some are passed over by chance.
    fn cheapest(
        &self,
        random: &mut Random,
        bins: &[Bin],
        item: ItemId,
        ruins: Option<(usize, &[usize])>,
    ) -> Option<(Option<usize>, Offer)> {
        let all = bins.len();
        let (fresh, sampled, looked_at, ruined) = match ruins {
            None => (all..all, all, LOOKED_AT, &[][..]),
            Some((first, ruined)) => (first..all, first, LOOKED_AT_LATER, ruined),
        };
        let mut best: Option<(i64, f64, usize, Offer)> = None;
        for step in 0..fresh.len() + looked_at.min(sampled) {
            let at = match fresh.clone().nth(step) {
                Some(at) => at,
                None => random.below(sampled),
            };
            if ruined.contains(&at) || (ruins.is_some() && random.below(PASSED_OVER) == 0) {
                continue;
            }
            let Some(offer) = self.problem.offer(&bins[at], item) else { continue };
            let more = offer.price - bins[at].price;
            if best.as_ref().is_some_and(|(least, ..)| more > *least) {
                continue;
            }
            let slack = bins[at].slack(&self.weights);
            if best.as_ref().is_none_or(|(least, tight, ..)| more < *least || slack < *tight) {
                best = Some((more, slack, at, offer));
            }
        }
        match (best, self.problem.new_bin(item)) {
            (Some((more, _, at, offer)), Some(new)) if more <= new.price.saturating_add(NODE_OVERHEAD) => {
                Some((Some(at), offer))
            }
            (_, Some(new)) => Some((None, new)),
            (Some((_, _, at, offer)), None) => Some((Some(at), offer)),
            (None, None) => None,
        }
    }

    /// Puts a pod on a node; returns what that costs.
    fn put(&self, bins: &mut Vec<Bin>, (at, offer): (Option<usize>, Offer), item: ItemId) -> i64 {
        let (at, before) = match at {
            Some(at) => (at, bins[at].cost()),
            None => {
                bins.push(self.problem.empty());
                (bins.len() - 1, 0)
            }
        };
        self.problem.put(&mut bins[at], item, offer);
        bins[at].cost() - before
    }
}
