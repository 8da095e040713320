//! The resource bound on the price of a plan: min Σ cₜxₜ subject to Σ aₜxₜ ≥ D, x ≥ 0, with a row per resource.
//!
//! Every plan satisfies these rows, so that the optimum of this linear program is below the price of all. A small
//! revised simplex finds the duals λ in floating point; they are then made feasible (λ·aₜ ≤ cₜ for every type) as
//! checked in integer arithmetic, and the bound is λ·D. Inexact duals make the bound weaker, never wrong.

use crate::model::Price;

/// Pivots at most: a handful suffices for a handful of rows.
const MAX_PIVOTS: usize = 500;
/// Bits after the point of an integer dual.
const FRACTION: u32 = 30;
/// How often duals are shrunk until they are feasible.
const MAX_SHRINKS: usize = 4;

/// No set of machines that has `demand` can cost less. Each column is a machine's price and what it has.
pub(super) fn lower_bound(demand: &[i64], columns: &[(Price, &[i64])]) -> Price {
    let rows: Vec<usize> = (0..demand.len()).filter(|row| demand[*row] > 0).collect();
    if rows.is_empty() || columns.is_empty() {
        return Price::ZERO;
    }
    let of = |column: &[i64]| -> Vec<i64> {
        rows.iter().map(|row| column.get(*row).copied().unwrap_or(0).max(0)).collect()
    };
    let types: Vec<(i64, Vec<i64>)> =
        columns.iter().map(|(price, column)| (price.nanos(), of(column))).collect();
    let demand: Vec<i64> = rows.iter().map(|row| demand[*row]).collect();
    let mut duals = duals(&demand, &types);
    for _ in 0..MAX_SHRINKS {
        let whole: Vec<i128> = duals.iter().map(|dual| fixed(*dual)).collect();
        let worth = |amounts: &[i64]| {
            whole.iter().zip(amounts).fold(0_i128, |sum, (dual, amount)| {
                sum.saturating_add(dual.saturating_mul(i128::from(*amount)))
            })
        };
        let excess = |(price, amounts): &(i64, Vec<i64>)| {
            let limit = i128::from(*price) << FRACTION;
            let worth = worth(amounts);
            if worth > limit { float(limit) / float(worth) } else { 1.0 }
        };
        let factor = types.iter().map(excess).fold(1.0, f64::min);
        if factor >= 1.0 {
            return Price::from_nanos(i64::try_from(worth(&demand) >> FRACTION).unwrap_or(0));
        }
        for dual in &mut duals {
            *dual *= factor * (1.0 - 1e-9);
        }
    }
    Price::ZERO
}

/// The duals of the covering program, as good as floating point makes them.
fn duals(demand: &[i64], types: &[(i64, Vec<i64>)]) -> Vec<f64> {
    let rows = demand.len();
    // Each row in units of its demand, so that the right-hand side is one everywhere.
    let scale: Vec<f64> = demand.iter().map(|amount| float(i128::from(*amount))).collect();
    let mut columns: Vec<(f64, Vec<f64>)> = types
        .iter()
        .map(|(price, amounts)| {
            let scaled = amounts.iter().zip(&scale).map(|(amount, scale)| float(i128::from(*amount)) / scale);
            (float(i128::from(*price)), scaled.collect())
        })
        .collect();
    let unit = |row: usize, value: f64| (0..rows).map(|at| if at == row { value } else { 0.0 }).collect();
    // Surplus, then artificial columns that are dearer than anything: they make the first basis.
    let dearest = columns.iter().flat_map(|(price, amounts)| {
        amounts.iter().filter(|amount| **amount > 0.0).map(move |amount| price / amount)
    });
    let big = dearest.fold(1.0, f64::max) * 1e3;
    columns.extend((0..rows).map(|row| (0.0, unit(row, -1.0))));
    let mut basis: Vec<usize> = (columns.len()..columns.len() + rows).collect();
    columns.extend((0..rows).map(|row| (big, unit(row, 1.0))));
    let mut inverse: Vec<Vec<f64>> = (0..rows).map(|row| unit(row, 1.0)).collect();
    let mut values = vec![1.0; rows];
    let mut prices = vec![big; rows];
    for _ in 0..MAX_PIVOTS {
        prices = (0..rows)
            .map(|at| basis.iter().zip(&inverse).map(|(column, row)| columns[*column].0 * row[at]).sum())
            .collect();
        let reduced = |(cost, amounts): &(f64, Vec<f64>)| cost - dot(&prices, amounts);
        let entering = columns
            .iter()
            .enumerate()
            .map(|(at, column)| (at, reduced(column), 1e-9 * (1.0 + column.0.abs())))
            .filter(|(_, reduced, tolerance)| *reduced < -tolerance)
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((entering, ..)) = entering else { break };
        let direction: Vec<f64> = inverse.iter().map(|row| dot(row, &columns[entering].1)).collect();
        let ratios =
            (0..rows).filter(|row| direction[*row] > 1e-12).map(|row| (row, values[row] / direction[row]));
        let Some((leaving, ratio)) = ratios.min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        let pivot = direction[leaving];
        let pivot_row: Vec<f64> = inverse[leaving].iter().map(|value| value / pivot).collect();
        for row in (0..rows).filter(|row| *row != leaving) {
            for (value, base) in inverse[row].iter_mut().zip(&pivot_row) {
                *value -= direction[row] * base;
            }
            values[row] = (values[row] - direction[row] * ratio).max(0.0);
        }
        inverse[leaving] = pivot_row;
        values[leaving] = ratio;
        basis[leaving] = entering;
    }
    prices.iter().zip(&scale).map(|(price, scale)| (price / scale).max(0.0)).collect()
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
    #[case::free_machines(&[5], &[(0, &[1][..])], 0)]
    fn bounds(#[case] demand: &[i64], #[case] types: &[(i64, &[i64])], #[case] expected: i64) {
        let columns: Vec<(Price, &[i64])> =
            types.iter().map(|(price, amounts)| (Price::from_nanos(price * 1_000_000), *amounts)).collect();
        let found = lower_bound(demand, &columns).nanos();
        let expected = expected * 1_000_000;
        assert!(found <= expected, "{found} > {expected}");
        assert!(found >= expected - expected / 100_000 - 10, "{found} is far below {expected}");
    }
}
