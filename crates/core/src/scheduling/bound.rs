//! The resource bound on the price of a plan: min Σ cₜxₜ subject to Σ aₜxₜ ≥ D, x ≥ 0, with a row per resource.
//!
//! Every plan satisfies these rows, so that the optimum of this linear program is below the price of all. A
//! revised simplex finds the duals λ in floating point; they are then made feasible (λ·aₜ ≤ cₜ for every type) as
//! checked in integer arithmetic, and the bound is λ·D. Inexact duals make the bound weaker, never wrong.
//!
//! `patterns` has the same for whole pods: a program whose columns are what nodes hold.

mod covering;
mod knapsack;
mod patterns;

pub(crate) use knapsack::PodKind;
pub(crate) use patterns::{KINDS_MAX, Pattern, Program, whole_pods};

use self::covering::Covering;
use crate::model::Price;

/// Bits after the point of an integer dual.
const FRACTION: u32 = 30;
/// How often duals are shrunk until they are feasible.
const MAX_SHRINKS: usize = 4;

/// Nodes as columns: the price of each, and its amount of every row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    rows: usize,
    prices: Vec<i64>,
    /// Column after column.
    amounts: Vec<i64>,
}

impl Columns {
    /// No columns yet, with this number of rows.
    pub(crate) fn new(rows: usize) -> Self {
        Self { rows, prices: Vec::new(), amounts: Vec::new() }
    }

    /// Adds a node; missing and negative amounts are zero.
    pub(crate) fn push(&mut self, price: Price, amounts: impl IntoIterator<Item = i64>) {
        let given = amounts.into_iter().map(|amount| amount.max(0));
        self.amounts.extend(given.chain(std::iter::repeat(0)).take(self.rows));
        self.prices.push(price.nanos());
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.prices.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (i64, &[i64])> {
        self.prices.iter().copied().zip(self.amounts.chunks_exact(self.rows.max(1)))
    }

    /// These columns with some of their rows.
    fn keep(&self, rows: &[usize]) -> Self {
        let amounts = self.iter().flat_map(|(_, column)| rows.iter().map(move |row| column[*row])).collect();
        Self { rows: rows.len(), prices: self.prices.clone(), amounts }
    }
}

/// No set of nodes that has `demand` can cost less.
pub(crate) fn lower_bound(demand: &[i64], columns: &Columns) -> Price {
    let rows: Vec<usize> = (0..demand.len()).filter(|row| demand[*row] > 0).collect();
    if rows.is_empty() || columns.is_empty() {
        return Price::ZERO;
    }
    let columns = columns.keep(&rows);
    let demand: Vec<i64> = rows.iter().map(|row| demand[*row]).collect();
    let mut duals = duals(&demand, &columns);
    for _ in 0..MAX_SHRINKS {
        let whole: Vec<i128> = duals.iter().map(|dual| fixed(*dual)).collect();
        let worth = |amounts: &[i64]| {
            whole.iter().zip(amounts).fold(0_i128, |sum, (dual, amount)| {
                sum.saturating_add(dual.saturating_mul(i128::from(*amount)))
            })
        };
        let excess = |(price, amounts): (i64, &[i64])| {
            let limit = i128::from(price) << FRACTION;
            let worth = worth(amounts);
            if worth > limit { float(limit) / float(worth) } else { 1.0 }
        };
        let factor = columns.iter().map(excess).fold(1.0, f64::min);
        if factor >= 1.0 {
            return Price::from_nanos(i64::try_from(worth(&demand) >> FRACTION).unwrap_or(0));
        }
        for dual in &mut duals {
            *dual *= factor * (1.0 - 1e-9);
        }
    }
    Price::ZERO
}

/// The duals of the covering program by row, as good as floating point makes them: nano-dollars per unit. Rows without
/// demand are worth nothing.
pub(super) fn duals(demand: &[i64], columns: &Columns) -> Vec<f64> {
    let is_needed = |row: usize| demand[row] > 0;
    let mut program = Covering::new(demand);
    for (price, amounts) in columns.iter() {
        let needed = amounts.iter().copied().enumerate().filter(|(row, _)| is_needed(*row));
        program.push(price, needed);
    }
    let duals = program.solve().into_iter().enumerate();
    duals.map(|(row, dual)| if is_needed(row) { dual } else { 0.0 }).collect()
}

#[expect(clippy::cast_precision_loss, reason = "duals are guidance; feasibility is checked in integers")]
fn float(value: i128) -> f64 {
    value as f64
}

/// A dual as an integer with [`FRACTION`] bits after the point, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and feasibility is checked afterwards"
)]
fn fixed(dual: f64) -> i128 {
    (dual.max(0.0) * f64::from(1_u32 << FRACTION)).floor() as i128
}

/// A figure as an integer, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and whatever comes of it is checked in integers"
)]
fn rounded(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests {
    //! The bound is valid, and tight where it can be.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::one_type(&[1000], &[(100, &[1000][..])], 100)]
    #[case::the_cheaper_per_unit(&[1000, 1000], &[(100, &[1000, 500][..]), (150, &[1000, 1000])], 150)]
    #[case::a_mixture(&[3, 3], &[(100, &[2, 1][..]), (100, &[1, 2])], 200)]
    #[case::nothing(&[0], &[(100, &[1][..])], 0)]
    #[case::free_nodes(&[5], &[(0, &[1][..])], 0)]
    #[case::a_row_without_demand(&[5, 0], &[(10, &[1, 0][..])], 50)]
    #[case::node_count(&[6, 3], &[(10, &[1, 1][..]), (12, &[4, 1])], 32)]
    fn bounds(#[case] demand: &[i64], #[case] types: &[(i64, &[i64])], #[case] expected: i64) {
        let mut columns = Columns::new(demand.len());
        for (price, amounts) in types {
            columns.push(Price::from_nanos(price * 1_000_000), amounts.iter().copied());
        }
        let bound = lower_bound(demand, &columns).nanos();
        let expected = expected * 1_000_000;
        assert!(bound <= expected, "{bound} > {expected}");
        assert!(bound >= expected - expected / 100_000 - 10, "{bound} is far below {expected}");
    }
}
