//! The search: a greedy packing by patterns, then ruin and recreate.
//!
//! A pattern is what one node holds. The greedy packing opens the pattern with the most worth per price, several at
//! once, where worth is what the duals of the linear program over the remaining pods say. The improvement takes a few
//! nodes that are dear for what they hold, packs their pods again with some chance in the choices, and keeps the
//! result where it costs less. See Gilmore and Gomory (1961) for patterns, Schrimpf et al. (2000) for ruin and recreate.

use crate::scheduling::{
    bound::duals,
    improve::{
        NODE_OVERHEAD, float,
        patterns::{
            exact,
            fill::{Pattern, STYLES, Scratch, Style, Vessel, Weights},
            problem::{Bin, Problem},
        },
    },
};

/// So many sizes are filled to find the best pattern of the first packing, and of an improvement.
const SIZES_FIRST: usize = 12;
const SIZES_LATER: usize = 6;
/// Nodes that one improvement takes; every fourth takes many, which may become few large ones.
const RUIN: std::ops::Range<usize> = 2..8;
const RUIN_MANY: std::ops::Range<usize> = 8..25;
/// More patterns than this are not searched for: each serves at least one pod, most serve hundreds.
const MAX_PATTERNS: usize = 100_000;

/// What a node weighs, in nano-dollars per hour, where patterns are compared: more than [`NODE_OVERHEAD`], since small nodes
/// are filled by perfect fits that leave what is hard to place, and since the improvement splits nodes more easily than
/// it joins them.
const LURE: i64 = 4 * NODE_OVERHEAD;

/// Numbers for choices, the same for the same seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// Between `1 - spread` and `1 + spread`.
    fn around_one(&mut self, spread: f64) -> f64 {
        let unit = f64::from(u32::try_from(self.next() >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        1.0 + spread * (2.0 * unit - 1.0)
    }
}

/// A search for the cheapest packing of a problem.
#[derive(Debug)]
pub(super) struct Search<'p> {
    problem: &'p Problem,
    weights: Weights,
    /// By dimension: the highest dual of any lane.
    highest: Vec<f64>,
    /// By lane and size: how much of it could be filled when everything was still there, per mille of its worth. Pods are
    /// whole, so that a size may be the cheapest per CPU and yet a bad buy.
    filled: Vec<Vec<i64>>,
    scratch: Scratch,
    dice: Dice,
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
    /// Whether duals follow what remains, and patterns are opened several at once.
    first: bool,
}

impl<'p> Search<'p> {
    pub(super) fn new(problem: &'p Problem) -> Self {
        let counts: Vec<u32> = problem.kinds.iter().map(|kind| kind.count).collect();
        let mut this = Self {
            problem,
            weights: Weights::new(problem, &vec![vec![0.0; problem.dims]; problem.lanes.len()]),
            highest: Vec::new(),
            filled: problem.lanes.iter().map(|lane| vec![1000; lane.sizes.len()]).collect(),
            scratch: Scratch::default(),
            dice: Dice::new(1),
            order: Vec::new(),
            exact: false,
        };
        this.weigh(&counts);
        this.probe(&counts);
        this.weigh(&counts);
        this
    }

    /// Fills every size once, to see how much of it can be filled.
    fn probe(&mut self, counts: &[u32]) {
        let present = present(counts);
        let demand = self.problem.demand(counts, None);
        for lane in 0..self.problem.lanes.len() {
            for at in 0..self.problem.lanes[lane].sizes.len() {
                let room = &self.problem.lanes[lane].sizes[at].1.room;
                let most = self.most(room, &demand);
                let filled = self.fill(lane, at, &present, counts, Style::Dot);
                let value = filled.map_or(0.0, |pattern| pattern.value);
                let (value, most) = (whole(value), whole(most).max(1));
                self.filled[lane][at] = (value.saturating_mul(1000) / most).clamp(10, 1000);
            }
        }
    }

    /// What can be put into some room at most, by the highest duals.
    fn most(&self, room: &[i64], demand: &[i64]) -> f64 {
        let terms = self.highest.iter().zip(room.iter().zip(demand));
        terms.map(|(dual, (room, demand))| dual * float(*room.min(demand))).sum()
    }

    /// Sets the weights by the duals of what remains.
    fn weigh(&mut self, remaining: &[u32]) {
        let lanes = 0..self.problem.lanes.len();
        let duals: Vec<Vec<f64>> = lanes
            .map(|lane| {
                let demand = self.problem.demand(remaining, Some(lane));
                duals(&demand, &self.problem.columns(lane, &self.filled[lane]))
            })
            .collect();
        let highest = |dim: usize| duals.iter().map(|lane| lane[dim]).fold(0.0, f64::max);
        self.highest = (0..self.problem.dims).map(highest).collect();
        self.weights = Weights::new(self.problem, &duals);
    }

    /// The first packing, and how many pods of each kind found no place.
    pub(super) fn first(&mut self) -> (Vec<Bin>, Vec<u32>) {
        let mut remaining: Vec<u32> = self.problem.kinds.iter().map(|kind| kind.count).collect();
        let counts = remaining.clone();
        let mut bins = Vec::new();
        self.fill_bases(&mut remaining, &mut bins);
        if let Some(cheapest) = exact::cheapest(self.problem, remaining.iter().sum()) {
            self.exact = true;
            bins.extend(cheapest);
            remaining.fill(0);
            return (bins, remaining);
        }
        let care = Care { styles: &STYLES[..2], sizes: SIZES_FIRST, first: true };
        self.pack(&mut remaining, &mut bins, care, i64::MAX);
        self.weigh(&counts);
        (bins, remaining)
    }

    /// Whether there is nothing to improve.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Uses the room of new NodeClaims that are there anyway, as far as they get no dearer.
    fn fill_bases(&mut self, remaining: &mut [u32], bins: &mut Vec<Bin>) {
        let mut present = present(remaining);
        for (at, base) in self.problem.bases.iter().enumerate() {
            present.retain(|kind| remaining[*kind] > 0);
            if present.is_empty() {
                return;
            }
            let table = &self.problem.tables[base.state];
            let Some(room) = table.room_at_price(&base.used, base.types) else { continue };
            let vessel = Vessel { state: base.state, room: &room, used: &base.used, only: None };
            let filled =
                self.scratch.fill(self.problem, &self.weights, vessel, &present, remaining, Style::Dot);
            let Some(pattern) = filled else { continue };
            let price = |state: usize, used: &[i64]| self.problem.tables[state].price(used, base.types);
            let before = price(base.state, &base.used);
            if before.is_none() || price(pattern.state, &pattern.used) != before {
                continue;
            }
            take(remaining, &pattern.content, 1);
            let Pattern { state, content, used, .. } = pattern;
            bins.push(Bin { state, content, used, price: 0, base: Some(at) });
        }
    }

    /// Opens nodes for what remains, as long as they cost less than `limit` together; returns what they cost, with
    /// [`NODE_OVERHEAD`] for each.
    fn pack(&mut self, remaining: &mut [u32], bins: &mut Vec<Bin>, care: Care<'_>, limit: i64) -> i64 {
        let mut price = 0_i64;
        let mut budget = MAX_PATTERNS;
        for lane in 0..self.problem.lanes.len() {
            while budget > 0 && price < limit {
                budget -= 1;
                let present = present(remaining);
                if !present.iter().any(|kind| self.problem.kinds[*kind].lane == lane) {
                    break;
                }
                let Some(pattern) = self.best(lane, &present, remaining, care) else { break };
                let times = pattern.content.iter().map(|(kind, count)| remaining[*kind] / count).min();
                let times = if care.first { (times.unwrap_or(1) * 2 / 3).max(1) } else { 1 };
                take(remaining, &pattern.content, times);
                price = price.saturating_add(
                    pattern.price.saturating_add(NODE_OVERHEAD).saturating_mul(i64::from(times)),
                );
                let Pattern { state, content, used, price, .. } = pattern;
                let bin = Bin { state, content, used, price, base: None };
                bins.extend(std::iter::repeat_n(bin, usize::try_from(times).unwrap_or(1)));
                if care.first {
                    self.weigh(remaining);
                }
            }
        }
        price
    }

    /// The pattern with the most worth per price that serves a lane.
    fn best(&mut self, lane: usize, present: &[usize], remaining: &[u32], care: Care<'_>) -> Option<Pattern> {
        let problem = self.problem;
        let demand = problem.demand(remaining, None);
        self.order.clear();
        for (at, (_, size)) in problem.lanes[lane].sizes.iter().enumerate() {
            let rate = self.most(&size.room, &demand) / float(size.price + LURE);
            self.order.push((rate * float(self.filled[lane][at]) / 1000.0, at));
        }
        self.order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut best: Option<(f64, Pattern)> = None;
        let mut tried = 0;
        for position in 0..self.order.len() {
            let at = self.order[position].1;
            let size = &problem.lanes[lane].sizes[at].1;
            let most = self.most(&size.room, &demand) / float(size.price + LURE);
            if best.is_some() && tried >= care.sizes {
                break;
            }
            if best.as_ref().is_some_and(|(rate, _)| most <= *rate) {
                continue;
            }
            for style in care.styles {
                let Some(pattern) = self.fill(lane, at, present, remaining, *style) else { continue };
                tried += 1;
                let rate = pattern.value / float(pattern.price + LURE);
                if best.as_ref().is_none_or(|(highest, _)| rate > *highest) {
                    best = Some((rate, pattern));
                }
            }
        }
        best.map(|(_, pattern)| pattern)
    }

    /// Fills one size for a lane; where the company makes that impossible, with the lane's own kinds alone.
    fn fill(
        &mut self,
        lane: usize,
        at: usize,
        present: &[usize],
        remaining: &[u32],
        style: Style,
    ) -> Option<Pattern> {
        let problem = self.problem;
        let (state, size) = &problem.lanes[lane].sizes[at];
        let nothing = vec![0; problem.dims];
        let alone = problem.lanes.len() == 1;
        for only in [None, Some(problem.lanes[lane].eligibility)] {
            let vessel = Vessel { state: *state, room: &size.room, used: &nothing, only };
            let pattern = self.scratch.fill(problem, &self.weights, vessel, present, remaining, style);
            if let Some(mut pattern) = pattern {
                let serves = pattern.content.iter().any(|(kind, _)| problem.kinds[*kind].lane == lane);
                let types = problem.types(pattern.state, pattern.content.iter().map(|(kind, _)| *kind));
                let price = problem.tables[pattern.state].price(&pattern.used, types);
                if let (true, Some(price)) = (serves, price) {
                    pattern.price = price;
                    return Some(pattern);
                }
            }
            if alone {
                break;
            }
        }
        None
    }

    /// Takes some nodes apart and packs their pods again; keeps what costs no more, with and without the weight of
    /// nodes. Returns whether it costs less.
    pub(super) fn improve(&mut self, bins: &mut Vec<Bin>) -> bool {
        let first = bins.iter().position(|bin| bin.base.is_none()).unwrap_or(bins.len());
        let movable = bins.len() - first;
        if movable < 2 {
            return false;
        }
        let range = if self.dice.below(4) == 0 { RUIN_MANY } else { RUIN };
        let wanted = (range.start + self.dice.below(range.len())).min(movable);
        let mut ruined: Vec<usize> = Vec::with_capacity(wanted);
        for _ in 0..wanted {
            let pick = self.pick(bins, first);
            if !ruined.contains(&pick) {
                ruined.push(pick);
            }
        }
        let mut remaining = vec![0; self.problem.kinds.len()];
        let mut before = 0_i64;
        for at in &ruined {
            before = before.saturating_add(bins[*at].price).saturating_add(NODE_OVERHEAD);
            for (kind, count) in &bins[*at].content {
                remaining[*kind] += count;
            }
        }
        for noise in &mut self.weights.noise {
            *noise = self.dice.around_one(0.25);
        }
        let styles = [STYLES[self.dice.below(STYLES.len())]];
        let mut fresh: Vec<Bin> = Vec::with_capacity(wanted);
        let care = Care { styles: &styles, sizes: SIZES_LATER, first: false };
        let price = self.pack(&mut remaining, &mut fresh, care, before.saturating_add(1));
        let whole = remaining.iter().all(|count| *count == 0);
        let nodes = |count: usize| NODE_OVERHEAD.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
        let saved = (before - nodes(ruined.len())) - (price - nodes(fresh.len()));
        if !whole || price > before || saved < 0 {
            return false;
        }
        ruined.sort_unstable();
        for at in ruined.into_iter().rev() {
            bins.swap_remove(at);
        }
        bins.extend(fresh);
        saved > 0
    }

    /// One of the nodes that are paid too much for: the worst of three, or any.
    fn pick(&mut self, bins: &[Bin], first: usize) -> usize {
        let any = |dice: &mut Dice| first + dice.below(bins.len() - first);
        if self.dice.below(3) == 0 {
            return any(&mut self.dice);
        }
        let overpaid = |bin: &Bin| {
            let worth = bin.content.iter().map(|(kind, count)| self.weights.worth[*kind] * f64::from(*count));
            float(bin.price) - worth.sum::<f64>()
        };
        let mut picks = [any(&mut self.dice), any(&mut self.dice), any(&mut self.dice)];
        picks.sort_by(|a, b| overpaid(&bins[*b]).total_cmp(&overpaid(&bins[*a])).then_with(|| a.cmp(b)));
        picks[0]
    }
}

/// A worth in whole nano-dollars.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and the figure guides a search")]
fn whole(worth: f64) -> i64 {
    worth as i64
}

/// Kinds of which something remains.
fn present(remaining: &[u32]) -> Vec<usize> {
    (0..remaining.len()).filter(|kind| remaining[*kind] > 0).collect()
}

fn take(remaining: &mut [u32], content: &[(usize, u32)], times: u32) {
    for (kind, count) in content {
        remaining[*kind] -= count * times;
    }
}
