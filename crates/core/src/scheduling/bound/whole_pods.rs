//! The bound that knows that pods are whole: the dual of the pattern program, by column generation.
//!
//! A pattern is what one node holds. The program is min Σ cₚxₚ subject to Σ nᵢₚxₚ ≥ dᵢ, x ≥ 0, with a row per kind of pod; its duals πᵢ
//! are what a pod is worth (Gilmore and Gomory, 1961). For whatever π ≥ 0, no plan costs less than Σ πᵢdᵢ · min over types of cₜ/Kₜ, where
//! Kₜ is the most worth that a node of type t can hold (Farley, 1990). Kₜ is bounded from above by the linear relaxation of the
//! knapsack in which no more pods of a kind count than a node holds or than there are, and on nodes of few pods by a knapsack of one
//! dimension on a grid. Floats look for good π; the bound is computed from them in integers, so that it is weaker if they are bad,
//! never wrong.

use super::{Columns, duals, float};
use crate::model::Price;

/// More kinds of pods than this are left to the resource bound: the program has a row for each.
pub(crate) const KINDS_MAX: usize = 160;
/// Times that patterns are added.
const ROUNDS_MAX: usize = 40;
/// Work at most, in kinds squared times patterns of each solution of the program: a tenth of a second.
const WORK_MAX: usize = 6_000_000;
/// Patterns that a round adds, those that are worth the most over their price first.
const ADDED_MAX: usize = 24;
/// The search ends when the bound is this close to the optimum of the program.
const CLOSE: f64 = 1e-3;
/// Steps of the search for the multiplier of the first dimension.
const STEPS: usize = 24;
/// Kinds that a fill begins with, one after the other.
const FIRSTS: usize = 6;
/// Cells of the grid of the knapsack of one dimension, and on nodes of how many pods it is worth its time.
const GRID: usize = 1024;
const GRID_PODS_MAX: i64 = 24;
/// Bits after the point of integer multipliers.
const FRACTION: u32 = 30;

/// Pods that are equal to the bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodKind {
    /// What one takes of every dimension.
    pub(crate) amounts: Vec<i64>,
    /// By column: whether one may be there.
    pub(crate) allowed: Vec<bool>,
    /// How many there are.
    pub(crate) count: i64,
}

/// A column that is worth looking at.
#[derive(Debug)]
struct NodeType {
    price: i64,
    room: Vec<i64>,
    /// By kind: the most that a node holds.
    most: Vec<i64>,
    /// Multipliers of the last look, in worth per node filled by the dimension alone.
    multipliers: Vec<f64>,
}

/// The program.
struct Program<'a> {
    kinds: &'a [PodKind],
    types: Vec<NodeType>,
    demand: Vec<i64>,
}

/// No set of nodes that holds all pods can cost less.
pub(crate) fn whole_pods_bound(kinds: &[PodKind], columns: &Columns) -> Price {
    if kinds.is_empty() || kinds.len() > KINDS_MAX {
        return Price::ZERO;
    }
    let demand: Vec<i64> = kinds.iter().map(|kind| kind.count).collect();
    let mut program = Program { kinds, types: types(kinds, columns), demand };
    program.search().map_or(Price::ZERO, |worth| program.exact(&worth))
}

/// The columns that hold some pod, without those that another makes superfluous.
fn types(kinds: &[PodKind], columns: &Columns) -> Vec<NodeType> {
    let mut found: Vec<NodeType> = Vec::new();
    for (at, (price, room)) in columns.iter().enumerate() {
        let most = |kind: &PodKind| {
            if !kind.allowed.get(at).copied().unwrap_or(false) {
                return 0;
            }
            let needed = kind.amounts.iter().zip(room).filter(|(amount, _)| **amount > 0);
            needed.map(|(amount, room)| room / amount).min().unwrap_or(i64::MAX).min(kind.count)
        };
        let most: Vec<i64> = kinds.iter().map(most).collect();
        if most.iter().any(|most| *most > 0) {
            let multipliers = vec![0.0; room.len()];
            found.push(NodeType { price, room: room.to_vec(), most, multipliers });
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

impl Program<'_> {
    /// What a pod of each kind is worth, so that no node holds more worth than it costs, about; `None` where some pod fits nowhere.
    fn search(&mut self) -> Option<Vec<f64>> {
        let mut patterns = Columns::new(self.kinds.len());
        for kind in 0..self.kinds.len() {
            let rate = |one: &NodeType| one.price.checked_div(one.most[kind]).unwrap_or(i64::MAX);
            let fitting = self.types.iter().filter(|one| one.most[kind] > 0);
            let cheapest = fitting.min_by_key(|one| rate(one))?;
            let only = (0..self.kinds.len()).map(|at| if at == kind { cheapest.most[kind] } else { 0 });
            patterns.push(Price::from_nanos(cheapest.price), only);
        }
        let mut best = self.by_resources();
        let mut work = 0_usize;
        for round in 0..ROUNDS_MAX {
            work += self.kinds.len() * self.kinds.len() * patterns.len();
            if work > WORK_MAX {
                break;
            }
            let optimal = duals(&self.demand, &patterns);
            let optimum = self.total(&optimal);
            // Between the best and the optimal worths, patterns are found that serve for longer (Wentges, 1997).
            let share = if round > 0 && round % 3 < 2 { 0.5 } else { 1.0 };
            let worth: Vec<f64> =
                optimal.iter().zip(&best.1).map(|(new, old)| share * new + (1.0 - share) * old).collect();
            let (factor, mut found) = self.price(&worth);
            let bound = self.total(&worth) * factor;
            if bound > best.0 {
                best = (bound, worth.iter().map(|worth| worth * factor).collect());
            }
            if best.0 >= optimum * (1.0 - CLOSE) || (found.is_empty() && share == 1.0) {
                break;
            }
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (_, price, counts) in found.into_iter().take(ADDED_MAX) {
                patterns.push(Price::from_nanos(price), counts);
            }
        }
        // The multipliers of the best worths: the exact bound is computed from them.
        self.price(&best.1);
        Some(best.1)
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
        let (factor, _) = self.price(&worth);
        (self.total(&worth) * factor, worth.iter().map(|worth| worth * factor).collect())
    }

    fn total(&self, worth: &[f64]) -> f64 {
        worth.iter().zip(&self.demand).map(|(worth, count)| worth * float(i128::from(*count))).sum()
    }

    /// The factor that makes worths feasible, and patterns that are worth more than they cost, each with by how much, its price and
    /// its pods.
    fn price(&mut self, worth: &[f64]) -> (f64, Vec<(f64, i64, Vec<i64>)>) {
        let (mut factor, mut found) = (1.0_f64, Vec::new());
        for one in &mut self.types {
            let price = float(i128::from(one.price));
            let shares = shares(self.kinds, &one.room);
            let mut most = relaxed(worth, one, &shares, &one.multipliers);
            if most > price {
                one.multipliers = multipliers(worth, one, &shares);
                most = relaxed(worth, one, &shares, &one.multipliers);
            }
            if most <= price {
                continue;
            }
            let (value, counts) = fill(self.kinds, worth, one, &shares);
            if value > price * (1.0 + 1e-9) {
                found.push((value / price.max(1.0), one.price, counts));
            }
            // What a fill reaches, a knapsack on a grid cannot rule out.
            if value < most * (1.0 - CLOSE) {
                let whole: Vec<i64> = worth.iter().map(|worth| rounded(worth.max(0.0))).collect();
                let integers = integer_multipliers(one);
                if let Some(less) = on_grid(self.kinds, &whole, one, &integers) {
                    most = most.min(float(less) + float(i128::try_from(whole.len()).unwrap_or(0)));
                }
            }
            factor = factor.min(price / most.max(price).max(f64::MIN_POSITIVE));
        }
        (factor, found)
    }

    /// The bound that some worths give, in integers.
    fn exact(&self, worth: &[f64]) -> Price {
        let worth: Vec<i64> = worth.iter().map(|worth| rounded(worth.max(0.0))).collect();
        let terms = worth.iter().zip(&self.demand);
        let total = terms
            .fold(0_i128, |sum, (worth, count)| sum.saturating_add(i128::from(*worth) * i128::from(*count)));
        // The least ratio of price and worth, as a fraction.
        let mut least = (1_i128, 1_i128);
        for one in &self.types {
            let price = i128::from(one.price);
            let integers = integer_multipliers(one);
            let mut most = exact_relaxed(self.kinds, &worth, one, &integers);
            if most > price
                && let Some(less) = on_grid(self.kinds, &worth, one, &integers)
            {
                most = most.min(less);
            }
            if most > price && price.saturating_mul(least.1) < least.0.saturating_mul(most) {
                least = (price, most);
            }
        }
        let bound = total.checked_mul(least.0).map_or(0, |product| product / least.1.max(1));
        Price::from_nanos(i64::try_from(bound).unwrap_or(0))
    }
}

/// By kind and dimension: the share of a node that a pod takes.
fn shares(kinds: &[PodKind], room: &[i64]) -> Vec<f64> {
    let of = |amount: &i64, room: &i64| {
        if *amount <= 0 { 0.0 } else { float(i128::from(*amount)) / float(i128::from((*room).max(1))) }
    };
    kinds.iter().flat_map(|kind| kind.amounts.iter().zip(room).map(move |(a, r)| of(a, r))).collect()
}

/// The most worth of a node by the relaxation with these multipliers: Σ u + Σ mᵢ max(0, πᵢ - Σ u·sᵢ).
fn relaxed(worth: &[f64], one: &NodeType, shares: &[f64], multipliers: &[f64]) -> f64 {
    let dims = multipliers.len();
    let excess = |kind: usize| {
        let paid = dot(&shares[kind * dims..(kind + 1) * dims], multipliers);
        float(i128::from(one.most[kind])) * (worth[kind] - paid).max(0.0)
    };
    let kinds = (0..worth.len()).filter(|kind| one.most[*kind] > 0);
    multipliers.iter().sum::<f64>() + kinds.map(excess).sum::<f64>()
}

/// Multipliers that make the relaxation small. It is convex: the first multiplier is found by ternary search, the others one by one.
fn multipliers(worth: &[f64], one: &NodeType, shares: &[f64]) -> Vec<f64> {
    let dims = one.room.len();
    let with = |first: f64| {
        let mut found = vec![0.0; dims];
        found[0] = first;
        for _ in 0..2 {
            (1..dims).for_each(|dim| found[dim] = best_of(worth, one, shares, &found, dim));
        }
        (relaxed(worth, one, shares, &found), found)
    };
    let (mut low, mut high) = (0.0, best_of(worth, one, shares, &vec![0.0; dims], 0));
    let (mut best, mut end) = (with(low), with(high));
    if end.0 < best.0 {
        std::mem::swap(&mut best, &mut end);
    }
    for _ in 0..STEPS {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        let (a, b) = (with(left), with(right));
        if a.0 <= b.0 {
            high = right;
        } else {
            low = left;
        }
        let better = if a.0 <= b.0 { a } else { b };
        if better.0 < best.0 {
            best = better;
        }
    }
    best.1
}

/// The best multiplier of one dimension, the others given: where the pods that are worth more than it fill the node.
fn best_of(worth: &[f64], one: &NodeType, shares: &[f64], given: &[f64], dim: usize) -> f64 {
    let dims = given.len();
    let mut rates: Vec<(f64, f64)> = Vec::new();
    for (kind, worth) in worth.iter().enumerate().filter(|(kind, _)| one.most[*kind] > 0) {
        let own = &shares[kind * dims..(kind + 1) * dims];
        let rest = worth - dot(own, given) + own[dim] * given[dim];
        if rest > 0.0 && own[dim] > 0.0 {
            rates.push((rest / own[dim], own[dim] * float(i128::from(one.most[kind]))));
        }
    }
    rates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut filled = 0.0;
    for (rate, share) in rates {
        filled += share;
        if filled >= 1.0 {
            return rate;
        }
    }
    0.0
}

/// A pattern with much worth, with what it is worth: pods by worth per what they take, after as many as possible of one kind.
fn fill(kinds: &[PodKind], worth: &[f64], one: &NodeType, shares: &[f64]) -> (f64, Vec<i64>) {
    let dims = one.room.len();
    let taken = |kind: usize| dot(&shares[kind * dims..(kind + 1) * dims], &one.multipliers);
    let rate = |kind: usize| worth[kind] / taken(kind).max(1e-9);
    let mut order: Vec<usize> =
        (0..kinds.len()).filter(|kind| one.most[*kind] > 0 && worth[*kind] > 0.0).collect();
    order.sort_by(|a, b| rate(*b).total_cmp(&rate(*a)).then_with(|| a.cmp(b)));
    let mut best = (0.0, vec![0; kinds.len()]);
    for first in order.iter().copied().take(FIRSTS) {
        let mut left = one.room.clone();
        let mut counts = vec![0; kinds.len()];
        let mut value = 0.0;
        for kind in std::iter::once(first).chain(order.iter().copied()) {
            let needed = kinds[kind].amounts.iter().zip(&left).filter(|(amount, _)| **amount > 0);
            let fits = needed.map(|(amount, left)| left / amount).min().unwrap_or(i64::MAX);
            let more = fits.min(one.most[kind] - counts[kind]).max(0);
            counts[kind] += more;
            value += worth[kind] * float(i128::from(more));
            for (left, amount) in left.iter_mut().zip(&kinds[kind].amounts) {
                *left -= amount.max(&0) * more;
            }
        }
        if value > best.0 {
            best = (value, counts);
        }
    }
    best
}

/// The multipliers of a type as integers per unit of each dimension, with [`FRACTION`] bits after the point.
fn integer_multipliers(one: &NodeType) -> Vec<i128> {
    let scale = f64::from(1_u32 << FRACTION);
    let of = |(multiplier, room): (&f64, &i64)| {
        i128::from(rounded(multiplier.max(0.0) * scale / float(i128::from((*room).max(1)))))
    };
    one.multipliers.iter().zip(&one.room).map(of).collect()
}

fn weight(amounts: &[i64], multipliers: &[i128]) -> i128 {
    let terms = amounts.iter().zip(multipliers);
    terms.fold(0, |sum: i128, (amount, by)| {
        sum.saturating_add(by.saturating_mul(i128::from((*amount).max(0))))
    })
}

/// [`relaxed`] in integers, rounded up.
fn exact_relaxed(kinds: &[PodKind], worth: &[i64], one: &NodeType, multipliers: &[i128]) -> i128 {
    let mut most = (weight(&one.room, multipliers) >> FRACTION) + 1;
    for ((kind, worth), held) in kinds.iter().zip(worth).zip(&one.most) {
        let paid = weight(&kind.amounts, multipliers) >> FRACTION;
        most = most.saturating_add(i128::from(*held).saturating_mul((i128::from(*worth) - paid).max(0)));
    }
    most
}

/// The most worth of a node by a knapsack of one dimension, which is what the multipliers make of all, on a grid; weights are rounded
/// down. `None` where a node holds too many pods for that.
fn on_grid(kinds: &[PodKind], worth: &[i64], one: &NodeType, multipliers: &[i128]) -> Option<i128> {
    let room = weight(&one.room, multipliers).max(1);
    let mut best = vec![0_i128; GRID + 1];
    for ((kind, worth), held) in kinds.iter().zip(worth).zip(&one.most) {
        if *held <= 0 || *worth <= 0 {
            continue;
        }
        let cells = weight(&kind.amounts, multipliers).saturating_mul(i128::try_from(GRID).ok()?) / room;
        let cells = usize::try_from(cells).ok()?.min(GRID);
        if *held > GRID_PODS_MAX {
            return None;
        }
        if cells == 0 {
            let all = i128::from(*held) * i128::from(*worth);
            best.iter_mut().for_each(|best| *best += all);
            continue;
        }
        // Ones, twos, fours and the rest make every count.
        let (mut left, mut size) = (*held, 1);
        while left > 0 {
            let pods = size.min(left);
            let (width, value) = (cells * usize::try_from(pods).ok()?, i128::from(pods) * i128::from(*worth));
            for cell in (width..=GRID).rev() {
                best[cell] = best[cell].max(best[cell - width] + value);
            }
            (left, size) = (left - pods, size * 2);
        }
    }
    best.last().copied()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and whatever comes of it is checked in integers"
)]
fn rounded(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests;
