//! Ruin and recreate: a few nodes are taken apart and their pods packed again, which is kept where it costs less.
//!
//! Pods are recreated by patterns (see [`patterns`](super::patterns)), unless topology groups by hostname are about several items: then
//! all are inserted one by one where they cost least. See Schrimpf et al. (2000) for ruin and recreate, Christiaens and Vanden Berghe
//! (2020) for recreating by insertion where some of the best places are passed over by chance.

use crate::scheduling::{
    ids::{IdVec, ItemId},
    improve::{
        NODE_OVERHEAD,
        bins::{Bin, cost, unpack},
        float,
        insertion::{Insertion, TURN_PODS},
        patterns::Patterns,
        problem::Problem,
        random::Random,
        whole,
    },
    request::Effort,
};

/// Nodes that one round takes apart; every fourth takes many, which may become few large ones.
const RUIN: std::ops::Range<usize> = 2..8;
const RUIN_MANY: std::ops::Range<usize> = 8..25;
/// More pods than this are not inserted in one round.
const MAX_MOVED: usize = 160;

/// Rounds without a saving after which the search ends: this many per node, and at most.
const IDLE_PER_NODE: usize = 500;
const MAX_IDLE: usize = 20_000;

/// Pods are large where a node holds no more than this, on average.
const LARGE_PODS: usize = 8;

/// How pods are packed again.
#[derive(Debug)]
enum Recreate<'p> {
    Patterns(Patterns<'p>),
    Insertion(Insertion<'p>),
}

/// A search for cheaper nodes.
#[derive(Debug)]
pub(super) struct Search<'p> {
    problem: &'p Problem,
    bins: Vec<Bin>,
    recreate: Recreate<'p>,
    random: Random,
}

impl<'p> Search<'p> {
    /// A search that begins with some nodes.
    pub(super) fn new(problem: &'p Problem, bins: Vec<Bin>) -> Self {
        let recreate = if problem.suits_patterns() {
            Recreate::Patterns(Patterns::new(problem))
        } else {
            Recreate::Insertion(Insertion::new(problem, &bins))
        };
        Self { problem, bins, recreate, random: Random::new(1) }
    }

    pub(super) fn into_bins(self) -> Vec<Bin> {
        self.bins
    }

    /// Takes all nodes apart and packs their pods again; keeps what is cheapest.
    pub(super) fn restart(&mut self) {
        let pods = unpack(self.bins.iter());
        let mut random = Random::new(2);
        match &mut self.recreate {
            Recreate::Insertion(insertion) => {
                insertion.restart(&mut random, &mut self.bins, pods);
            }
            Recreate::Patterns(patterns) => {
                let mut remaining = self.problem.counts();
                let bins = patterns.first(&mut remaining);
                if remaining.iter().all(|count| *count == 0) && cost(&bins) < cost(&self.bins) {
                    self.bins = bins;
                }
                // With few pods, patterns are not sure to be better, nor where a node may hold few pods of an item.
                if !patterns.is_exact() && (pods.len() <= TURN_PODS || !self.problem.is_plain()) {
                    let insertion = Insertion::new(self.problem, &self.bins);
                    insertion.restart(&mut random, &mut self.bins, pods);
                }
            }
        }
    }

    /// Packs all pods by the pattern program, and inserts those that its nodes do not hold; keeps what is cheapest. Its solution has at most
    /// as many patterns as there are items, and only whole ones are worth rounding; and where a node holds many pods, how they fit together
    /// decides little.
    pub(super) fn round_patterns(&mut self, effort: Effort<'_>) {
        let pods: usize = self.bins.iter().map(Bin::len).sum();
        let large = pods <= LARGE_PODS * self.bins.len()
            && self.bins.len() > self.problem.items.len()
            && self.problem.items.len() > 1;
        if !large || matches!(effort, Effort::First) {
            return;
        }
        let Some(mut bins) = whole::round(self.problem, effort) else { return };
        let mut left = self.problem.counts();
        for (item, count) in bins.iter().flat_map(|bin| &bin.content) {
            left[*item] = left[*item].saturating_sub(*count);
        }
        let many = |count: &u32| usize::try_from(*count).unwrap_or(0);
        let rest: Vec<ItemId> =
            left.entries().flat_map(|(item, count)| std::iter::repeat_n(item, many(count))).collect();
        let insertion = Insertion::new(self.problem, &self.bins);
        let none = (&[][..], &mut Vec::new(), i64::MAX);
        let whole = insertion.insert(&mut Random::new(3), &mut bins, rest, none).is_some();
        if whole && cost(&bins) < cost(&self.bins) {
            self.bins = bins;
        }
    }

    /// Runs rounds until the effort is spent or too many in a row saved nothing.
    pub(super) fn improve(&mut self, effort: Effort<'_>) {
        let exact = matches!(&self.recreate, Recreate::Patterns(patterns) if patterns.is_exact());
        let idle_max = if exact { 0 } else { MAX_IDLE.min(IDLE_PER_NODE.saturating_mul(self.bins.len())) };
        let (mut rounds, mut idle) = (0_u32, 0);
        while idle < idle_max
            && match effort {
                Effort::First => false,
                Effort::Iterations(rounds_max) => rounds < rounds_max,
                // Asking costs more than it is worth before every round.
                Effort::While(go_on) => !u32::is_multiple_of(rounds, 8) || go_on(),
            }
        {
            idle = if self.round() { 0 } else { idle + 1 };
            rounds += 1;
        }
    }

    /// One round. Keeps what costs no more, with and without the overhead of nodes; returns whether it costs less.
    fn round(&mut self) -> bool {
        if self.bins.len() < 2 {
            return false;
        }
        let mut ruined = self.ruin();
        let before: i64 = ruined.iter().map(|bin| self.bins[*bin].cost()).sum();
        let first = self.bins.len();
        let mut undo: Vec<(usize, Bin)> = Vec::new();
        let after = self.recreate(&ruined, &mut undo, before);
        let nodes = |count: usize| NODE_OVERHEAD.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
        let saved =
            after.map(|after| (before - nodes(ruined.len())) - (after - nodes(self.bins.len() - first)));
        let Some(saved) = saved.filter(|saved| *saved >= 0 && after <= Some(before)) else {
            self.bins.truncate(first);
            for (index, bin) in undo {
                self.bins[index] = bin;
            }
            return false;
        };
        let fresh = self.bins.split_off(first);
        ruined.sort_unstable();
        for bin in ruined.into_iter().rev() {
            self.bins.swap_remove(bin);
        }
        self.bins.extend(fresh);
        saved > 0
    }

    /// Packs the pods of some nodes again; returns what that costs, or `None` where it is more than `limit`. `undo` gets the other
    /// nodes that take some of the pods, as they were.
    fn recreate(&mut self, ruined: &[usize], undo: &mut Vec<(usize, Bin)>, limit: i64) -> Option<i64> {
        let patterns = match &mut self.recreate {
            Recreate::Patterns(patterns) => patterns,
            Recreate::Insertion(insertion) => {
                let pods = unpack(ruined.iter().map(|bin| &self.bins[*bin]));
                return insertion.insert(&mut self.random, &mut self.bins, pods, (ruined, undo, limit));
            }
        };
        let mut remaining: IdVec<ItemId, u32> = vec![0; self.problem.items.len()].into();
        for (item, count) in ruined.iter().flat_map(|bin| &self.bins[*bin].content) {
            remaining[*item] += count;
        }
        let bins = patterns.again(&mut self.random, &mut remaining, limit.saturating_add(1));
        let spent = cost(&bins);
        self.bins.extend(bins);
        remaining.iter().all(|count| *count == 0).then_some(spent)
    }

    /// Nodes to take apart: some that cost more than their pods are worth, which could share nodes.
    fn ruin(&mut self) -> Vec<usize> {
        let range = if self.random.below(4) == 0 { RUIN_MANY } else { RUIN };
        let wanted = (range.start + self.random.below(range.len())).min(self.bins.len());
        let mut ruined: Vec<usize> = Vec::with_capacity(wanted);
        let mut moved = 0;
        let by_insertion = matches!(self.recreate, Recreate::Insertion(_));
        let tries = if by_insertion { 3 * wanted } else { wanted };
        for _ in 0..tries {
            let pick = self.pick();
            if ruined.len() == wanted {
                break;
            }
            let bin = &self.bins[pick];
            let shares = |first: &usize| {
                let template = self.bins[*first].template;
                bin.content.iter().any(|(item, _)| self.problem.join(template, *item).is_some())
            };
            let belongs = !by_insertion
                || ruined.first().is_none_or(|first| shares(first) && moved + bin.len() <= MAX_MOVED);
            if belongs && !ruined.contains(&pick) {
                moved += bin.len();
                ruined.push(pick);
            }
        }
        ruined
    }

    /// The node that costs most for what it holds of three, or any.
    fn pick(&mut self) -> usize {
        let all = self.bins.len();
        if self.random.below(3) == 0 {
            return self.random.below(all);
        }
        let mut picks = [self.random.below(all), self.random.below(all), self.random.below(all)];
        let worth = match &self.recreate {
            Recreate::Patterns(patterns) => patterns.worth(),
            Recreate::Insertion(insertion) => insertion.worth(),
        };
        let overpaid = |bin: usize| {
            let bin = &self.bins[bin];
            let worth = bin.content.iter().map(|(item, count)| worth[*item] * f64::from(*count));
            float(bin.price) - worth.sum::<f64>()
        };
        picks.sort_by(|a, b| overpaid(*b).total_cmp(&overpaid(*a)).then_with(|| a.cmp(b)));
        picks[0]
    }
}
