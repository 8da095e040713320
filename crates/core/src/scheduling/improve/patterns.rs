//! Packing by patterns, which is column generation without the linear program of integers.
//!
//! A pattern is what one node holds. The pattern with the most worth per price is created, several at once, where worth is what
//! the duals of the linear program over the remaining pods say. See Gilmore and Gomory (1961).

use crate::scheduling::{
    bound::duals,
    ids::{IdVec, ItemId, SubproblemId},
    improve::{
        NODE_OVERHEAD,
        bins::Bin,
        exact,
        fill::{Pattern, STYLES, Scratch, Style, Target, Weights},
        float,
        problem::Problem,
        random::Random,
    },
};

/// How many sizes are filled to find the best pattern of the first packing, and of an improvement.
const SIZES_FIRST: usize = 12;
const SIZES_LATER: usize = 6;
/// More patterns than this are not searched for: each serves at least one pod, most serve hundreds.
const MAX_PATTERNS: usize = 100_000;

/// The overhead of a node, in nano-dollars per hour, where patterns are compared: more than [`NODE_OVERHEAD`], since small nodes
/// are filled by perfect fits that leave what is hard to place, and since the improvement splits nodes more easily than
/// it joins them.
const PATTERN_OVERHEAD: i64 = 4 * NODE_OVERHEAD;

/// Creates patterns for a problem.
#[derive(Debug)]
pub(super) struct Patterns<'p> {
    problem: &'p Problem,
    weights: Weights,
    /// By dimension: the highest dual of any subproblem.
    highest: Vec<f64>,
    /// By subproblem and size: how much of it could be filled when everything was still there, per mille of its worth. Pods are
    /// whole, so that a size may be the cheapest per CPU and yet a bad buy.
    filled: IdVec<SubproblemId, Vec<i64>>,
    scratch: Scratch,
    /// Sizes by what they could be worth per price; kept between calls.
    order: Vec<(f64, usize)>,
    /// Whether the first packing is known to be the cheapest.
    exact: bool,
}

/// How thorough a packing is.
#[derive(Clone, Copy, Debug)]
struct Care<'a> {
    styles: &'a [Style],
    sizes: usize,
    /// Whether duals follow what remains, and patterns are created several at once.
    first: bool,
}

impl<'p> Patterns<'p> {
    pub(super) fn new(problem: &'p Problem) -> Self {
        let counts = problem.counts();
        let no_duals = problem.subproblems.iter().map(|_| vec![0.0; problem.dims]).collect();
        let mut this = Self {
            problem,
            weights: Weights::new(problem, &no_duals),
            highest: Vec::new(),
            filled: problem.subproblems.iter().map(|subproblem| vec![1000; subproblem.sizes.len()]).collect(),
            scratch: Scratch::default(),
            order: Vec::new(),
            exact: false,
        };
        this.weigh(&counts);
        this.probe(&counts);
        this.weigh(&counts);
        this
    }

    /// Fills every size once, to see how much of it can be filled.
    fn probe(&mut self, counts: &IdVec<ItemId, u32>) {
        let present = present(counts);
        let demand = self.problem.demand(counts, None);
        for subproblem in self.problem.subproblems.ids() {
            for size in 0..self.problem.subproblems[subproblem].sizes.len() {
                let room = &self.problem.subproblems[subproblem].sizes[size].1.room;
                let most = self.most(room, &demand);
                let filled = self.fill(subproblem, size, &present, counts, Style::Dot);
                let value = filled.map_or(0.0, |pattern| pattern.value);
                let (value, most) = (whole(value), whole(most).max(1));
                self.filled[subproblem][size] = (value.saturating_mul(1000) / most).clamp(10, 1000);
            }
        }
    }

    /// What can be put into some room at most, by the highest duals.
    fn most(&self, room: &[i64], demand: &[i64]) -> f64 {
        let terms = self.highest.iter().zip(room.iter().zip(demand));
        terms.map(|(dual, (room, demand))| dual * float(*room.min(demand))).sum()
    }

    /// Sets the weights by the duals of what remains.
    fn weigh(&mut self, remaining: &IdVec<ItemId, u32>) {
        let subproblems = self.problem.subproblems.ids();
        let duals: IdVec<SubproblemId, Vec<f64>> = subproblems
            .map(|subproblem| {
                let demand = self.problem.demand(remaining, Some(subproblem));
                duals(&demand, &self.problem.columns(subproblem, &self.filled[subproblem]))
            })
            .collect();
        let highest = |dim: usize| duals.iter().map(|duals| duals[dim]).fold(0.0, f64::max);
        self.highest = (0..self.problem.dims).map(highest).collect();
        self.weights = Weights::new(self.problem, &duals);
    }

    /// The first packing of some pods, of which those that no pattern holds remain.
    pub(super) fn first(&mut self, remaining: &mut IdVec<ItemId, u32>) -> Vec<Bin> {
        if let Some(cheapest) = exact::cheapest(self.problem, remaining.iter().sum()) {
            remaining.fill(0);
            self.exact = true;
            return cheapest;
        }
        let counts = remaining.clone();
        let mut bins = Vec::new();
        let care = Care { styles: &STYLES[..2], sizes: SIZES_FIRST, first: true };
        self.pack(remaining, &mut bins, care, i64::MAX);
        self.weigh(&counts);
        bins
    }

    /// Another packing of some pods, with some chance in the choices, as long as it costs less than `limit`.
    pub(super) fn again(
        &mut self,
        random: &mut Random,
        remaining: &mut IdVec<ItemId, u32>,
        limit: i64,
    ) -> Vec<Bin> {
        for noise in &mut self.weights.noise {
            *noise = random.around_one(0.25);
        }
        let styles = [STYLES[random.below(STYLES.len())]];
        let mut bins = Vec::new();
        let care = Care { styles: &styles, sizes: SIZES_LATER, first: false };
        self.pack(remaining, &mut bins, care, limit);
        bins
    }

    /// Whether there is nothing to improve.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// What a pod of each item is worth by the duals.
    pub(super) fn worth(&self) -> &IdVec<ItemId, f64> {
        &self.weights.worth
    }

    /// Creates nodes for what remains, as long as they cost less than `limit` together, with [`NODE_OVERHEAD`] for each.
    fn pack(&mut self, remaining: &mut IdVec<ItemId, u32>, bins: &mut Vec<Bin>, care: Care<'_>, limit: i64) {
        let mut cost = 0_i64;
        let mut budget = MAX_PATTERNS;
        for subproblem in self.problem.subproblems.ids() {
            while budget > 0 && cost < limit {
                budget -= 1;
                let present = present(remaining);
                if !present.iter().any(|item| self.problem.items[*item].subproblem == subproblem) {
                    break;
                }
                let Some(pattern) = self.best(subproblem, &present, remaining, care) else { break };
                let times = pattern.content.iter().map(|(item, count)| remaining[*item] / count).min();
                let times = if care.first { (times.unwrap_or(1) * 2 / 3).max(1) } else { 1 };
                for (item, count) in &pattern.content {
                    remaining[*item] -= count * times;
                }
                let bin = self.problem.filled(pattern.template, &pattern.content, pattern.price);
                cost = cost.saturating_add(bin.cost().saturating_mul(i64::from(times)));
                bins.extend(std::iter::repeat_n(bin, usize::try_from(times).unwrap_or(1)));
                if care.first {
                    self.weigh(remaining);
                }
            }
        }
    }

    /// The pattern with the most worth per price that serves a subproblem.
    fn best(
        &mut self,
        subproblem: SubproblemId,
        present: &[ItemId],
        remaining: &IdVec<ItemId, u32>,
        care: Care<'_>,
    ) -> Option<Pattern> {
        let problem = self.problem;
        let demand = problem.demand(remaining, None);
        self.order.clear();
        for (size_index, (_, size)) in problem.subproblems[subproblem].sizes.iter().enumerate() {
            let rate = self.most(&size.room, &demand) / float(size.price + PATTERN_OVERHEAD);
            self.order.push((rate * float(self.filled[subproblem][size_index]) / 1000.0, size_index));
        }
        self.order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut best: Option<(f64, Pattern)> = None;
        let mut tried = 0;
        for position in 0..self.order.len() {
            let size_index = self.order[position].1;
            let size = &problem.subproblems[subproblem].sizes[size_index].1;
            let most = self.most(&size.room, &demand) / float(size.price + PATTERN_OVERHEAD);
            if best.is_some() && tried >= care.sizes {
                break;
            }
            if best.as_ref().is_some_and(|(rate, _)| most <= *rate) {
                continue;
            }
            for style in care.styles {
                let Some(pattern) = self.fill(subproblem, size_index, present, remaining, *style) else {
                    continue;
                };
                tried += 1;
                let rate = pattern.value / float(pattern.price + PATTERN_OVERHEAD);
                if best.as_ref().is_none_or(|(highest, _)| rate > *highest) {
                    best = Some((rate, pattern));
                }
            }
        }
        best.map(|(_, pattern)| pattern)
    }

    /// Fills one size for a subproblem; where other items make that impossible, with the subproblem's own alone.
    fn fill(
        &mut self,
        subproblem: SubproblemId,
        size_index: usize,
        present: &[ItemId],
        remaining: &IdVec<ItemId, u32>,
        style: Style,
    ) -> Option<Pattern> {
        let problem = self.problem;
        let own = &problem.subproblems[subproblem];
        let (template, size) = &own.sizes[size_index];
        let single = problem.subproblems.len() == 1;
        for only in [None, Some(own.eligibility)] {
            let target = Target { template: *template, room: &size.room, only };
            let pattern = self.scratch.fill(problem, &self.weights, target, present, remaining, style);
            if let Some(mut pattern) = pattern {
                let serves =
                    pattern.content.iter().any(|(item, _)| problem.items[*item].subproblem == subproblem);
                let types = problem.types(pattern.template, &pattern.content);
                let price = problem.price(pattern.template, &pattern.used, types);
                if let (true, Some(price)) = (serves, price) {
                    pattern.price = price;
                    return Some(pattern);
                }
            }
            if single {
                break;
            }
        }
        None
    }
}

/// A worth in whole nano-dollars.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and the figure guides a search")]
fn whole(worth: f64) -> i64 {
    worth as i64
}

/// Items of which something remains.
fn present(remaining: &IdVec<ItemId, u32>) -> Vec<ItemId> {
    remaining.ids().filter(|item| remaining[*item] > 0).collect()
}
