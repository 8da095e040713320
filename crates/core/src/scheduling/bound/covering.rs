//! A revised simplex for covering programs: min c·x subject to A·x ≥ d, x ≥ 0. Columns may be added between solutions, which begin
//! where the last one ended.

use super::float;

/// Pivots of one solution at most.
const MAX_PIVOTS: usize = 500;

/// The program, and the best basis so far. Rows are in units of their demand, so that the right-hand side is one.
pub(super) struct Covering {
    scale: Vec<f64>,
    /// Of the columns: the price of each, where its entries end, and the entries, a row and an amount each.
    prices: Vec<f64>,
    ends: Vec<usize>,
    entries: Vec<(usize, f64)>,
    /// The price of artificial columns, which make the first basis: dearer than anything.
    artificial: Option<f64>,
    basis: Vec<Basic>,
    /// The inverse of the basis, row after row.
    inverse: Vec<f64>,
    values: Vec<f64>,
    /// Pivots of all solutions.
    pivots: usize,
}

/// A column that can be in the basis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    Column(usize),
    Surplus(usize),
    Artificial(usize),
}

impl Covering {
    /// A program without columns. Rows without demand are worth nothing.
    pub(super) fn new(demand: &[i64]) -> Self {
        let rows = demand.len();
        Self {
            scale: demand.iter().map(|amount| float(i128::from((*amount).max(1)))).collect(),
            prices: Vec::new(),
            ends: Vec::new(),
            entries: Vec::new(),
            artificial: None,
            basis: (0..rows).map(Basic::Artificial).collect(),
            inverse: (0..rows * rows).map(|at| if at / rows == at % rows { 1.0 } else { 0.0 }).collect(),
            values: demand.iter().map(|amount| if *amount > 0 { 1.0 } else { 0.0 }).collect(),
            pivots: 0,
        }
    }

    /// Adds a column: its price, and its amounts by row, in the order of rows.
    pub(super) fn push(&mut self, price: i64, amounts: impl IntoIterator<Item = (usize, i64)>) {
        let amounts = amounts.into_iter().filter(|(_, amount)| *amount != 0);
        let scaled = amounts.map(|(row, amount)| (row, float(i128::from(amount)) / self.scale[row]));
        self.entries.extend(scaled);
        self.ends.push(self.entries.len());
        self.prices.push(float(i128::from(price)));
    }

    /// How many pivots all solutions took.
    pub(super) fn pivots(&self) -> usize {
        self.pivots
    }

    /// How much of each column the best basis has, of those in it.
    pub(super) fn amounts(&self) -> impl Iterator<Item = (usize, f64)> {
        let basic = self.basis.iter().zip(&self.values);
        basic.filter_map(|(basic, value)| match basic {
            Basic::Column(column) => Some((*column, *value)),
            _ => None,
        })
    }

    /// The duals of the best basis that was found, by row: the price of a unit, as good as floating point makes it.
    pub(super) fn solve(&mut self) -> Vec<f64> {
        if self.artificial.is_none() {
            let mut dearest = 1.0_f64;
            for (column, price) in self.prices.iter().enumerate() {
                let rates = self.column(column).iter().map(|(_, amount)| price / amount);
                dearest = rates.fold(dearest, f64::max);
            }
            self.artificial = Some(dearest * 1e3);
        }
        let rows = self.scale.len();
        let mut duals = vec![0.0; rows];
        for _ in 0..MAX_PIVOTS {
            duals.fill(0.0);
            for (row, basic) in self.basis.iter().enumerate() {
                let price = self.price(*basic);
                if price != 0.0 {
                    let inverse = &self.inverse[row * rows..(row + 1) * rows];
                    duals.iter_mut().zip(inverse).for_each(|(dual, inverse)| *dual += price * inverse);
                }
            }
            let Some(entering) = self.entering(&duals) else { break };
            self.pivots += 1;
            if !self.pivot(entering) {
                break;
            }
        }
        duals.iter().zip(&self.scale).map(|(dual, scale)| (dual / scale).max(0.0)).collect()
    }

    fn column(&self, column: usize) -> &[(usize, f64)] {
        let begin = if column == 0 { 0 } else { self.ends[column - 1] };
        &self.entries[begin..self.ends[column]]
    }

    fn price(&self, basic: Basic) -> f64 {
        match basic {
            Basic::Column(column) => self.prices[column],
            Basic::Surplus(_) => 0.0,
            Basic::Artificial(_) => self.artificial.unwrap_or(0.0),
        }
    }

    /// The column with the most worth over its price.
    fn entering(&self, duals: &[f64]) -> Option<Basic> {
        let rows = 0..duals.len();
        let columns = (0..self.prices.len()).map(|column| {
            let worth: f64 = self.column(column).iter().map(|(row, amount)| duals[*row] * amount).sum();
            (Basic::Column(column), self.prices[column], self.prices[column] - worth)
        });
        let surplus = rows.clone().map(|row| (Basic::Surplus(row), 0.0, duals[row]));
        let artificial = self.artificial.unwrap_or(0.0);
        let artificials = rows.map(|row| (Basic::Artificial(row), artificial, artificial - duals[row]));
        let reduced = columns.chain(surplus).chain(artificials);
        let gains = reduced.filter(|(_, price, reduced)| *reduced < -1e-9 * (1.0 + price.abs()));
        gains.min_by(|a, b| a.2.total_cmp(&b.2)).map(|(basic, ..)| basic)
    }

    /// Brings a column into the basis; `false` where nothing would leave.
    fn pivot(&mut self, entering: Basic) -> bool {
        let rows = self.scale.len();
        let along = |row: usize| {
            let inverse = &self.inverse[row * rows..(row + 1) * rows];
            match entering {
                Basic::Column(column) => {
                    self.column(column).iter().map(|(row, amount)| inverse[*row] * amount).sum()
                }
                Basic::Surplus(row) => -inverse[row],
                Basic::Artificial(row) => inverse[row],
            }
        };
        let direction: Vec<f64> = (0..rows).map(along).collect();
        let ratios = (0..rows).filter(|row| direction[*row] > 1e-12);
        let ratios = ratios.map(|row| (row, self.values[row] / direction[row]));
        let Some((leaving, ratio)) = ratios.min_by(|a, b| a.1.total_cmp(&b.1)) else { return false };
        let own = leaving * rows..(leaving + 1) * rows;
        let pivot_row: Vec<f64> =
            self.inverse[own.clone()].iter().map(|value| value / direction[leaving]).collect();
        for row in (0..rows).filter(|row| *row != leaving && direction[*row] != 0.0) {
            let inverse = &mut self.inverse[row * rows..(row + 1) * rows];
            inverse.iter_mut().zip(&pivot_row).for_each(|(value, base)| *value -= direction[row] * base);
            self.values[row] = (self.values[row] - direction[row] * ratio).max(0.0);
        }
        self.inverse[own].copy_from_slice(&pivot_row);
        self.values[leaving] = ratio;
        self.basis[leaving] = entering;
        true
    }
}
