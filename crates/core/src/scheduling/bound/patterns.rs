//! The pattern program and its solution by column generation.
//!
//! A pattern is what one node holds. The program is min Σ cₚxₚ subject to Σ nᵢₚxₚ ≥ dᵢ, x ≥ 0, with a row per kind of pod; its duals πᵢ
//! are what a pod is worth (Gilmore and Gomory, 1961). Patterns that are worth more than they cost are added until there are none. For
//! whatever π ≥ 0, no plan costs less than Σ πᵢdᵢ · min over types of cₜ/Kₜ, where Kₜ is the most worth that a node of type t can
//! hold (Farley, 1990).

use super::{
    Columns,
    covering::Covering,
    duals, float,
    knapsack::{COUNTED_PODS_MAX, Care, NodeType, PodKind},
    rounded,
};
use crate::model::Price;

/// More kinds of pods than this are not looked at: the program has a row for each.
pub(crate) const KINDS_MAX: usize = 160;
/// Rounds of column generation.
const ROUNDS_MAX: usize = 200;
/// The search for the content of one node, in a round and for the bound.
const CARE: Care = Care { looks: 1, steps: 300 };
const CARE_EXACT: Care = Care { looks: 8, steps: 10_000 };
/// What the search for the bound may cost, in cells of tables, of a few nanoseconds each.
const WORK_BOUND: usize = 160_000_000;
/// What the bound of some worths may cost before it becomes rougher.
const WORK_EXACT: usize = 40_000_000;
/// Where nodes hold many pods, how they fit together decides little: the search may cost only this part.
const SMALL_PODS_DIVISOR: usize = 8;
/// How often worths are reduced for the bound on behalf of one node.
const REPAIRS_MAX: usize = 40;
/// Patterns that a round adds, those that are worth the most over their price first.
const ADDED_MAX: usize = 96;
/// Patterns that one node gives in a round, the best first.
const FOUND_MAX: usize = 12;
/// The search ends when the bound is this close to the optimum of the program.
const CLOSE: f64 = 1e-3;
/// It ends, too, after this many rounds in which the optimum did not move by a tenth of that.
const IDLE_MAX: usize = 8;

/// What one node holds.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// The column that it fills.
    pub(crate) column: usize,
    pub(crate) price: i64,
    /// Kinds, ascending, and the number of pods of each.
    pub(crate) content: Vec<(usize, i64)>,
}

/// Returns what a node of a column costs that holds some content; `None` where it cannot be had.
pub(crate) type PriceOf<'a> = &'a dyn Fn(usize, &[(usize, i64)]) -> Option<i64>;

/// The program.
pub(crate) struct Program<'a> {
    kinds: &'a [PodKind],
    types: Vec<NodeType>,
    demand: Vec<i64>,
    price_of: PriceOf<'a>,
    patterns: Vec<Pattern>,
    /// What the search may still cost, in steps.
    work: usize,
}

/// What column generation found.
pub(crate) struct Solution {
    /// What a pod of each kind is worth, so that no node holds more worth than it costs, about, and the bound that follows.
    best: (f64, Vec<f64>),
    /// The duals of the last program: what a pod of each kind costs.
    duals: Vec<f64>,
    /// Patterns, and how often each is taken.
    taken: Vec<(usize, f64)>,
}

impl<'a> Program<'a> {
    /// The program of some kinds; `None` where there are too many. `work` limits what it costs.
    pub(crate) fn new(
        kinds: &'a [PodKind],
        columns: &Columns,
        price_of: PriceOf<'a>,
        work: usize,
    ) -> Option<Self> {
        if kinds.is_empty() || kinds.len() > KINDS_MAX {
            return None;
        }
        let demand: Vec<i64> = kinds.iter().map(|kind| kind.count).collect();
        let types = types(kinds, columns, &demand);
        let is_countable = |one: &NodeType| one.most.iter().all(|most| *most <= COUNTED_PODS_MAX);
        let work = if types.iter().all(is_countable) { work } else { work / SMALL_PODS_DIVISOR };
        Some(Self { kinds, types, demand, price_of, patterns: Vec::new(), work })
    }

    /// Generates patterns while `go_on` returns `true`; `None` where some pod fits nowhere.
    pub(crate) fn generate(&mut self, go_on: &dyn Fn() -> bool) -> Option<Solution> {
        self.singles()?;
        let best = self.by_resources();
        Some(self.search(best, ROUNDS_MAX, go_on))
    }

    /// Adds a pattern of each kind alone, on the type that is cheapest per pod: the first basis.
    fn singles(&mut self) -> Option<()> {
        for kind in 0..self.kinds.len() {
            let mut fitting: Vec<&NodeType> = self.types.iter().filter(|one| one.most[kind] > 0).collect();
            fitting.sort_by_key(|one| one.price / one.most[kind]);
            let single = |one: &NodeType| {
                let content = vec![(kind, one.most[kind])];
                let price = (self.price_of)(one.column, &content)?;
                Some(Pattern { column: one.column, price, content })
            };
            let cheapest = fitting.into_iter().find_map(single)?;
            self.patterns.push(cheapest);
        }
        Some(())
    }

    fn search(&mut self, mut best: (f64, Vec<f64>), rounds: usize, go_on: &dyn Fn() -> bool) -> Solution {
        let mut program = Covering::new(&self.demand);
        let mut pushed = 0;
        let mut optimal = Vec::new();
        let (mut worth, mut care, mut share) = (best.1.clone(), CARE, 0.5);
        // The optimum when it moved last, and the round.
        let mut last = (f64::INFINITY, 0);
        for round in 0..rounds {
            for pattern in &self.patterns[pushed..] {
                program.push(pattern.price, pattern.content.iter().copied());
            }
            pushed = self.patterns.len();
            let before = program.pivots();
            optimal = program.solve();
            let pivots = program.pivots() - before;
            self.work = self.work.saturating_sub(pivots * self.kinds.len() * self.kinds.len());
            let optimum = self.total(&optimal);
            if self.work == 0 || !go_on() || best.0 >= optimum * (1.0 - CLOSE) {
                break;
            }
            if optimum < last.0 * (1.0 - CLOSE / 10.0) {
                last = (optimum, round);
            } else if round > last.1 + IDLE_MAX {
                break;
            }
            // Worths that follow the duals slowly find patterns that serve for longer (Wentges, 1997).
            worth.iter_mut().zip(&optimal).for_each(|(worth, new)| *worth += share * (new - *worth));
            let (factor, mut found) = self.price(&worth, care);
            let bound = self.total(&worth) * factor;
            if bound > best.0 {
                best = (bound, worth.iter().map(|worth| worth * factor).collect());
            }
            match (found.is_empty(), share < 1.0) {
                (false, _) => share = if pivots > 0 { 0.5 } else { 1.0 },
                (true, true) => share = 1.0,
                (true, false) if care.steps >= CARE_EXACT.steps => break,
                (true, false) => care.steps *= 4,
            }
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            self.patterns.extend(found.into_iter().take(ADDED_MAX).map(|(_, pattern)| pattern));
        }
        let taken = program.amounts().collect();
        Solution { best, duals: optimal, taken }
    }

    /// The bound by what resources are worth where pods can be split, and those worths: where nodes hold many pods it is close.
    fn by_resources(&mut self) -> (f64, Vec<f64>) {
        let dims = self.types.first().map_or(0, |one| one.room.len());
        let mut columns = Columns::new(dims);
        self.types
            .iter()
            .for_each(|one| columns.push(Price::from_nanos(one.price), one.room.iter().copied()));
        let amount = |kind: &PodKind, dim: usize| kind.amounts[dim].saturating_mul(kind.count);
        let sum = |dim| self.kinds.iter().fold(0_i64, |sum, kind| sum.saturating_add(amount(kind, dim)));
        let demand: Vec<i64> = (0..dims).map(sum).collect();
        let prices = duals(&demand, &columns);
        let worth = |kind: &PodKind| {
            let terms = kind.amounts.iter().zip(&prices);
            terms.map(|(amount, price)| float(i128::from(*amount)) * price).sum()
        };
        let worth: Vec<f64> = self.kinds.iter().map(worth).collect();
        for one in &mut self.types {
            let filled = one.room.iter().zip(&prices).map(|(room, price)| float(i128::from(*room)) * price);
            one.multipliers = filled.collect();
        }
        let (factor, _) = self.price(&worth, CARE);
        (self.total(&worth) * factor, worth.iter().map(|worth| worth * factor).collect())
    }

    fn total(&self, worth: &[f64]) -> f64 {
        worth.iter().zip(&self.demand).map(|(worth, count)| worth * float(i128::from(*count))).sum()
    }

    /// The factor that makes worths feasible, and patterns that are worth more than they cost, each with by how much.
    fn price(&mut self, worth: &[f64], care: Care) -> (f64, Vec<(f64, Pattern)>) {
        let (mut factor, mut found) = (1.0_f64, Vec::new());
        let worth: Vec<i64> = worth.iter().map(|worth| rounded(worth.max(0.0))).collect();
        for one in &mut self.types {
            let filled = one.fill(self.kinds, &worth, one.price, care);
            self.work = self.work.saturating_sub(filled.work);
            let (price, most) = (float(i128::from(one.price)), float(i128::from(filled.most)));
            factor = factor.min(price / most.max(price).max(f64::MIN_POSITIVE));
            for (worth, mut content) in filled.contents.into_iter().rev().take(FOUND_MAX) {
                content.sort_unstable();
                let Some(price) = (self.price_of)(one.column, &content) else { continue };
                if worth > price {
                    let over = float(i128::from(worth)) / float(i128::from(price.max(1)));
                    found.push((over, Pattern { column: one.column, price, content }));
                }
            }
        }
        (factor, found)
    }

    /// The bound that a solution gives: by its best worths, and by its duals.
    pub(crate) fn bound(&mut self, solution: &Solution) -> Price {
        self.exact(&solution.best.1).max(self.exact(&solution.duals))
    }

    /// The bound that some worths give, in integers: weaker if they are bad, never wrong. Pods that are worth more together than a node costs
    /// become worth less.
    fn exact(&mut self, worth: &[f64]) -> Price {
        let mut worth: Vec<i64> = worth.iter().map(|worth| rounded(worth.max(0.0))).collect();
        let mut work = WORK_EXACT;
        // The least ratio of price and worth, as a fraction.
        let mut least = (1_i128, 1_i128);
        for one in &mut self.types {
            let mut most = i128::MAX;
            for _ in 0..REPAIRS_MAX {
                let care = if work > 0 { CARE_EXACT } else { CARE };
                let filled = one.fill(self.kinds, &worth, one.price, care);
                work = work.saturating_sub(filled.work);
                most = i128::from(filled.most);
                let Some((held, content)) = filled.contents.last().filter(|_| work > 0) else { break };
                let factor = float(i128::from(one.price)) / float(i128::from(*held));
                for (kind, _) in content {
                    worth[*kind] = rounded(float(i128::from(worth[*kind])) * factor);
                }
            }
            let price = i128::from(one.price);
            if most > price && price.saturating_mul(least.1) < least.0.saturating_mul(most) {
                least = (price, most);
            }
        }
        let terms = worth.iter().zip(&self.demand);
        let total = terms
            .fold(0_i128, |sum, (worth, count)| sum.saturating_add(i128::from(*worth) * i128::from(*count)));
        let bound = total.checked_mul(least.0).map_or(0, |product| product / least.1.max(1));
        Price::from_nanos(i64::try_from(bound).unwrap_or(0))
    }

    /// Whole nodes: patterns as often as the solution has them, rounded down, then those for what remains whose pods are worth the most over their
    /// price, with as many as remain.
    pub(crate) fn whole(&self, solution: &Solution) -> Vec<(Pattern, i64)> {
        let mut left = self.demand.clone();
        let mut nodes: Vec<(Pattern, i64)> = Vec::new();
        let mut take = |pattern: &Pattern, times: i64, left: &mut [i64]| {
            pattern.content.iter().for_each(|(kind, count)| left[*kind] -= count * times);
            nodes.extend((times > 0).then(|| (pattern.clone(), times)));
        };
        let times = |pattern: &Pattern, left: &[i64]| {
            pattern.content.iter().map(|(kind, count)| left[*kind] / count).min().unwrap_or(0)
        };
        for (pattern, amount) in &solution.taken {
            let pattern = &self.patterns[*pattern];
            take(pattern, times(pattern, &left).min(rounded(*amount + 1e-6)), &mut left);
        }
        while left.iter().any(|count| *count > 0) {
            let rate = |pattern: &Pattern| {
                let worth = |(kind, count): &(usize, i64)| {
                    solution.duals[*kind].max(1.0) * float(i128::from(*count.min(&left[*kind])))
                };
                pattern.content.iter().map(worth).sum::<f64>() / float(i128::from(pattern.price.max(1)))
            };
            let rates = self.patterns.iter().map(|pattern| (rate(pattern), pattern));
            let Some((_, best)) = rates.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            let held = |(kind, count): &(usize, i64)| (*kind, *count.min(&left[*kind]));
            let content = best.content.iter().map(held).filter(|(_, count)| *count > 0).collect();
            let best = Pattern { content, ..best.clone() };
            if best.content.is_empty() {
                break;
            }
            take(&best, times(&best, &left), &mut left);
        }
        nodes
    }
}

/// No set of nodes that holds all pods can cost less.
pub(crate) fn whole_pods(kinds: &[PodKind], columns: &Columns) -> Price {
    let prices: Vec<i64> = columns.iter().map(|(price, _)| price).collect();
    let price_of = |column: usize, _: &[(usize, i64)]| prices.get(column).copied();
    let Some(mut program) = Program::new(kinds, columns, &price_of, WORK_BOUND) else { return Price::ZERO };
    let solution = program.generate(&|| true);
    solution.map_or(Price::ZERO, |solution| program.bound(&solution))
}

/// The columns that hold some pod, without those that another makes superfluous.
fn types(kinds: &[PodKind], columns: &Columns, demand: &[i64]) -> Vec<NodeType> {
    let mut found: Vec<NodeType> = Vec::new();
    for (column, (price, room)) in columns.iter().enumerate() {
        let (room, multipliers) = (room.to_vec(), vec![0.0; room.len()]);
        let mut one =
            NodeType { column, price, room, most: Vec::new(), multipliers, stride: 0.5, counted: None };
        if one.holds(kinds, demand) {
            found.push(one);
        }
    }
    found.sort_by(|a, b| a.price.cmp(&b.price).then_with(|| b.room.cmp(&a.room)));
    let mut kept: Vec<NodeType> = Vec::new();
    for one in found {
        let covers = |a: &[i64], b: &[i64]| a.iter().zip(b).all(|(a, b)| a >= b);
        if !kept.iter().any(|other| covers(&other.most, &one.most) && covers(&other.room, &one.room)) {
            kept.push(one);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
