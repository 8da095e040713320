//! The search: pods are put where they cost least, and a few nodes at a time are taken apart and packed again.
//!
//! See Schrimpf et al. (2000) for ruin and recreate, Christiaens and Vanden Berghe (2020) for recreating by insertion where
//! some of the best places are passed over by chance.

use crate::scheduling::{
    bound::{Columns, duals},
    improve::{
        NODE_OVERHEAD, float,
        patterns::Dice,
        rearrange::hosts::{Host, Kind, Offer, Problem},
    },
};

/// So many nodes are looked at for a pod: of all, and of those beside the ones that were taken apart.
const LOOKED_AT: usize = 48;
const LOOKED_AT_LATER: usize = 12;
/// Nodes that one round takes apart.
const RUIN: std::ops::Range<usize> = 2..7;
/// More pods than this are not moved in one round.
const MAX_MOVED: usize = 160;
/// Pods that are laid again and again in other orders, all turns together, and how many turns there are.
const TURN_PODS: usize = 400;
const ORDERS: usize = 3;
const MAX_TURNS: usize = 12;
/// How far apart pods are that change places in the order.
const REACH: usize = 4;
/// One place in so many is passed over.
const BLINK: usize = 24;

/// A search for cheaper nodes.
#[derive(Debug)]
pub(super) struct Search<'p> {
    problem: &'p Problem,
    hosts: Vec<Host>,
    /// By dimension: what a unit costs by the duals of the linear program.
    weights: Vec<f64>,
    /// By kind: what a pod is worth by them.
    worth: Vec<f64>,
    /// By kind: whether no two share a node.
    exclusive: Vec<bool>,
    dice: Dice,
}

/// Where a pod goes.
#[derive(Clone, Copy, Debug)]
enum Place {
    On(usize),
    New,
}

impl<'p> Search<'p> {
    pub(super) fn new(problem: &'p Problem, hosts: Vec<Host>) -> Self {
        let mut demand = vec![0_i64; problem.dims];
        for host in &hosts {
            for (sum, used) in demand.iter_mut().zip(&host.used) {
                *sum = sum.saturating_add(*used);
            }
        }
        let mut columns = Columns::new(problem.dims);
        for table in &problem.tables {
            table.columns().for_each(|(price, free)| columns.push(price, free));
        }
        let weights = duals(&demand, &columns);
        let worth = |requests: &[i64]| requests.iter().zip(&weights).map(|(a, w)| float(*a) * w).sum();
        let worth = problem.kinds.iter().map(|kind| worth(&kind.requests)).collect();
        let exclusive = problem.kinds.iter().map(Kind::is_exclusive).collect();
        Self { problem, hosts, weights, worth, exclusive, dice: Dice::new(7) }
    }

    pub(super) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    pub(super) fn into_hosts(self) -> Vec<Host> {
        self.hosts
    }

    /// Takes all pods off and puts them where they cost least, one by one; keeps what was there if that was cheaper.
    pub(super) fn afresh(&mut self) {
        let mut pods: Vec<usize> = Vec::new();
        for host in &self.hosts {
            unpack(host, &mut pods);
        }
        self.arrange(&mut pods, true);
        self.lay(&pods);
    }

    /// [`Self::afresh`] in several orders: where one pod joins after the other, the first ones decide what those after them
    /// cost, and with few nodes there is little to improve afterwards.
    pub(super) fn afresh_in_turns(&mut self) {
        let mut pods: Vec<usize> = Vec::new();
        for host in &self.hosts {
            unpack(host, &mut pods);
        }
        self.arrange(&mut pods, true);
        let turns = (TURN_PODS / pods.len().max(1)).clamp(ORDERS, MAX_TURNS);
        for turn in 0..turns {
            let mut pods = pods.clone();
            self.reorder(&mut pods, turn);
            self.lay(&pods);
        }
    }

    /// Another order than by worth, from which pods come: by what they ask of the first two dimensions, or by chance.
    fn reorder(&mut self, pods: &mut [usize], turn: usize) {
        let kinds = &self.problem.kinds;
        let ratio = |a: usize, b: usize| {
            let of = |kind: usize, dim: usize| {
                i128::from(kinds[kind].requests.get(dim).copied().unwrap_or(0).max(0)) + 1
            };
            (of(a, 0) * of(b, 1)).cmp(&(of(b, 0) * of(a, 1)))
        };
        match turn {
            0 => {}
            1 => pods.sort_by(|a, b| ratio(*a, *b)),
            2 => pods.sort_by(|a, b| ratio(*b, *a)),
            _ => {
                // Neighbours change places.
                for _ in 0..pods.len() {
                    let at = self.dice.below(pods.len());
                    let other = (at + 1 + self.dice.below(REACH)).min(pods.len() - 1);
                    pods.swap(at, other);
                }
            }
        }
    }

    /// Puts pods where they cost least, in this order, in place of the nodes that there are; keeps those if they are
    /// cheaper.
    fn lay(&mut self, pods: &[usize]) {
        let before = std::mem::take(&mut self.hosts);
        let price: i64 = before.iter().map(cost).sum();
        let mut after = 0_i64;
        for kind in pods {
            match self.cheapest(*kind, 0, &[], LOOKED_AT, false) {
                Some((place, offer)) => after += self.put(place, *kind, offer),
                None => after = i64::MAX / 2,
            }
            if after >= price {
                self.hosts = before;
                return;
            }
        }
    }

    /// Takes some nodes apart and puts their pods where they cost least; keeps the result where it costs no more.
    /// Returns whether it costs less.
    pub(super) fn improve(&mut self) -> bool {
        if self.hosts.len() < 2 {
            return false;
        }
        let ruined = self.ruin();
        let (mut pods, mut before) = (Vec::new(), 0_i64);
        for at in &ruined {
            before = before.saturating_add(cost(&self.hosts[*at]));
            unpack(&self.hosts[*at], &mut pods);
        }
        let exclusive_first = self.dice.below(4) > 0;
        self.arrange(&mut pods, exclusive_first);
        let first = self.hosts.len();
        let mut changed: Vec<(usize, Host)> = Vec::new();
        let mut after = 0_i64;
        let mut whole = true;
        for kind in pods {
            let Some((place, offer)) = self.cheapest(kind, first, &ruined, LOOKED_AT_LATER, true) else {
                whole = false;
                break;
            };
            if let Place::On(at) = place
                && at < first
                && !changed.iter().any(|(known, _)| *known == at)
            {
                changed.push((at, self.hosts[at].clone()));
            }
            after = after.saturating_add(self.put(place, kind, offer));
            if after > before {
                whole = false;
                break;
            }
        }
        if !whole || after > before {
            self.hosts.truncate(first);
            for (at, host) in changed {
                self.hosts[at] = host;
            }
            return false;
        }
        let mut ruined = ruined;
        ruined.sort_unstable();
        for at in ruined.into_iter().rev() {
            self.hosts.swap_remove(at);
        }
        after < before
    }

    /// Nodes to take apart: one that is paid too much for, and some that its pods could share.
    fn ruin(&mut self) -> Vec<usize> {
        let mut seed = self.dice.below(self.hosts.len());
        for _ in 0..2 {
            let other = self.dice.below(self.hosts.len());
            if self.overpaid(other) > self.overpaid(seed) {
                seed = other;
            }
        }
        let wanted = RUIN.start + self.dice.below(RUIN.len());
        let mut ruined = vec![seed];
        let mut moved = self.hosts[seed].len();
        for _ in 0..wanted * 3 {
            if ruined.len() >= wanted {
                break;
            }
            let at = self.dice.below(self.hosts.len());
            let more = self.hosts[at].len();
            let shares = self.hosts[at]
                .content
                .iter()
                .any(|(kind, _)| self.problem.joins(self.hosts[seed].state, *kind));
            if shares && moved + more <= MAX_MOVED && !ruined.contains(&at) {
                ruined.push(at);
                moved += more;
            }
        }
        ruined
    }

    /// By how much a node costs more than its pods are worth.
    fn overpaid(&self, at: usize) -> f64 {
        let host = &self.hosts[at];
        let worth = host.content.iter().map(|(kind, count)| self.worth[*kind] * f64::from(*count));
        float(host.price) - worth.sum::<f64>()
    }

    /// Sorts pods for insertion: those that keep apart from their like open nodes first, then the large ones, with some
    /// chance once there is something to improve.
    fn arrange(&mut self, pods: &mut [usize], exclusive_first: bool) {
        pods.sort_unstable_by(|a, b| {
            let rank = |kind: usize| exclusive_first && self.exclusive[kind];
            rank(*b)
                .cmp(&rank(*a))
                .then_with(|| self.worth[*b].total_cmp(&self.worth[*a]))
                .then_with(|| a.cmp(b))
        });
    }

    /// The place where a pod costs least: a node that was opened since `first`, some others that were not `ruined`, or a
    /// new one.
    fn cheapest(
        &mut self,
        kind: usize,
        first: usize,
        ruined: &[usize],
        looked_at: usize,
        blinks: bool,
    ) -> Option<(Place, Offer)> {
        let mut best: Option<(i64, f64, Place, Offer)> = None;
        let all = self.hosts.len();
        let fresh = if ruined.is_empty() { all..all } else { first..all };
        let sampled = if ruined.is_empty() { all } else { first };
        for step in 0..fresh.len() + looked_at.min(sampled) {
            let at = match fresh.clone().nth(step) {
                Some(at) => at,
                None => self.dice.below(sampled),
            };
            if ruined.contains(&at) || (blinks && self.dice.below(BLINK) == 0) {
                continue;
            }
            let Some(offer) = self.problem.offer(&self.hosts[at], kind) else { continue };
            let more = offer.price - self.hosts[at].price;
            if best.as_ref().is_some_and(|(least, ..)| more > *least) {
                continue;
            }
            let slack = self.hosts[at].slack(&self.weights);
            if best.as_ref().is_none_or(|(least, tight, ..)| more < *least || slack < *tight) {
                best = Some((more, slack, Place::On(at), offer));
            }
        }
        let new_claim = self.problem.new_claim(kind);
        match (best, new_claim) {
            (Some((more, _, place, offer)), Some(new)) if more <= new.price.saturating_add(NODE_OVERHEAD) => {
                Some((place, offer))
            }
            (_, Some(new)) => Some((Place::New, new)),
            (Some((_, _, place, offer)), None) => Some((place, offer)),
            (None, None) => None,
        }
    }

    /// Puts a pod somewhere; returns what that costs.
    fn put(&mut self, place: Place, kind: usize, offer: Offer) -> i64 {
        let (at, before) = match place {
            Place::On(at) => (at, cost(&self.hosts[at])),
            Place::New => {
                self.hosts.push(self.problem.empty());
                (self.hosts.len() - 1, 0)
            }
        };
        self.problem.put(&mut self.hosts[at], kind, offer);
        cost(&self.hosts[at]) - before
    }
}

/// What a node costs, with the weight of nodes.
fn cost(host: &Host) -> i64 {
    host.price.saturating_add(NODE_OVERHEAD)
}

/// The kinds of a node's pods, each as often as it has it.
fn unpack(host: &Host, pods: &mut Vec<usize>) {
    for (kind, count) in &host.content {
        pods.extend((0..*count).map(|_| *kind));
    }
}
