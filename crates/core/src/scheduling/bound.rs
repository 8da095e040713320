//! The resource bound on the price of a plan: min Σ cₜxₜ subject to Σ aₜxₜ ≥ D, x ≥ 0, with a row per resource.
//!
//! Every plan satisfies these rows, so that the optimum of this linear program is below the price of all. A small
//! revised simplex finds the duals λ in floating point; they are then made feasible (λ·aₜ ≤ cₜ for every type) as
//! checked in integer arithmetic, and the bound is λ·D. Inexact duals make the bound weaker, never wrong.

mod whole_pods;

pub(crate) use whole_pods::{KINDS_MAX, PodKind, whole_pods_bound};

use crate::model::Price;

/// Pivots at most: a handful suffices for a handful of rows.
const MAX_PIVOTS: usize = 500;
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

    /// How many there are.
    fn len(&self) -> usize {
        self.prices.len()
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
    let rows = demand.len();
    let size = columns.prices.len();
    // Each row in units of its demand, so that the right-hand side is one everywhere.
    let scale: Vec<f64> = demand.iter().map(|amount| float(i128::from((*amount).max(1)))).collect();
    let mut prices: Vec<f64> = columns.prices.iter().map(|price| float(i128::from(*price))).collect();
    let mut amounts: Vec<f64> = Vec::with_capacity((size + 2 * rows) * rows);
    let mut dearest: f64 = 1.0;
    for (price, column) in columns.iter() {
        for (amount, scale) in column.iter().zip(&scale) {
            let scaled = float(i128::from(*amount)) / scale;
            if scaled > 0.0 {
                dearest = dearest.max(float(i128::from(price)) / scaled);
            }
            amounts.push(scaled);
        }
    }
    // Surplus, then artificial columns that are dearer than anything: they make the first basis.
    for (price, value) in [(0.0, -1.0), (dearest * 1e3, 1.0)] {
        for row in 0..rows {
            prices.push(price);
            amounts.extend((0..rows).map(|index| if index == row { value } else { 0.0 }));
        }
    }
    let right: Vec<f64> = demand.iter().map(|amount| if *amount > 0 { 1.0 } else { 0.0 }).collect();
    let duals = Simplex::new(rows, &prices, &amounts, right).solve();
    duals.iter().zip(&scale).map(|(dual, scale)| (dual / scale).max(0.0)).collect()
}

/// A revised simplex on a handful of rows, whose last columns are the first basis.
struct Simplex<'a> {
    rows: usize,
    prices: &'a [f64],
    /// Column after column.
    amounts: &'a [f64],
    basis: Vec<usize>,
    /// The inverse of the basis, row after row.
    inverse: Vec<f64>,
    values: Vec<f64>,
}

impl<'a> Simplex<'a> {
    fn new(rows: usize, prices: &'a [f64], amounts: &'a [f64], values: Vec<f64>) -> Self {
        let basis = (prices.len() - rows..prices.len()).collect();
        let inverse =
            (0..rows * rows).map(|index| if index / rows == index % rows { 1.0 } else { 0.0 }).collect();
        Self { rows, prices, amounts, basis, inverse, values }
    }

    fn column(&self, index: usize) -> &'a [f64] {
        &self.amounts[index * self.rows..(index + 1) * self.rows]
    }

    fn inverse_row(&self, row: usize) -> &[f64] {
        &self.inverse[row * self.rows..(row + 1) * self.rows]
    }

    /// The duals of the best basis that was found.
    fn solve(mut self) -> Vec<f64> {
        let mut duals = vec![0.0; self.rows];
        for _ in 0..MAX_PIVOTS {
            for (index, dual) in duals.iter_mut().enumerate() {
                let terms = self.basis.iter().enumerate();
                *dual = terms.map(|(row, basic)| self.prices[*basic] * self.inverse_row(row)[index]).sum();
            }
            let reduced = self.prices.iter().enumerate().map(|(index, price)| {
                (index, price - dot(&duals, self.column(index)), 1e-9 * (1.0 + price.abs()))
            });
            let entering = reduced
                .filter(|(_, reduced, tolerance)| *reduced < -tolerance)
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((entering, ..)) = entering else { break };
            if !self.pivot(entering) {
                break;
            }
        }
        duals
    }

    /// Brings a column into the basis; `false` where nothing would leave.
    fn pivot(&mut self, entering: usize) -> bool {
        let column = self.column(entering);
        let direction: Vec<f64> = (0..self.rows).map(|row| dot(self.inverse_row(row), column)).collect();
        let ratios = (0..self.rows).filter(|row| direction[*row] > 1e-12);
        let ratios = ratios.map(|row| (row, self.values[row] / direction[row]));
        let Some((leaving, ratio)) = ratios.min_by(|a, b| a.1.total_cmp(&b.1)) else { return false };
        let pivot_row: Vec<f64> =
            self.inverse_row(leaving).iter().map(|value| value / direction[leaving]).collect();
        for row in (0..self.rows).filter(|row| *row != leaving) {
            for (index, base) in pivot_row.iter().enumerate() {
                self.inverse[row * self.rows + index] -= direction[row] * base;
            }
            self.values[row] = (self.values[row] - direction[row] * ratio).max(0.0);
        }
        self.inverse[leaving * self.rows..(leaving + 1) * self.rows].copy_from_slice(&pivot_row);
        self.values[leaving] = ratio;
        self.basis[leaving] = entering;
        true
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
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
