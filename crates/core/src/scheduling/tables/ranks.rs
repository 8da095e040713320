//! Which rows of a pool hold an amount: rows sorted by each resource, with the set of all larger ones at every
//! [`STEP`]th place, so that an answer costs a few words per resource however many rows there are.

use crate::scheduling::{
    ids::{Id, InstanceTypeId},
    tables::{
        amounts::{Amounts, get},
        bits::Bits,
    },
};

/// Places between two sets that are kept: 16 bounds both the memory (a sixteenth of a square) and what is left to do.
const STEP: usize = 16;

/// The rows of a pool by what they have of each resource.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    columns: Vec<Column>,
}

/// The rows by one resource, ascending.
#[derive(Debug)]
struct Column {
    amounts: Vec<i64>,
    rows: Vec<InstanceTypeId>,
    /// The rows from place `at * STEP` on.
    from: Vec<Bits<InstanceTypeId>>,
}

impl Column {
    fn new(rows: &[&Amounts], resource: usize) -> Self {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|row| get(rows[*row], resource));
        let mut from = vec![Bits::default(); rows.len().div_ceil(STEP) + 1];
        let mut larger = Bits::default();
        for place in (0..rows.len()).rev() {
            larger.insert(InstanceTypeId::new(order[place]));
            if place % STEP == 0 {
                from[place / STEP] = larger.clone();
            }
        }
        Self {
            amounts: order.iter().map(|row| get(rows[*row], resource)).collect(),
            rows: order.into_iter().map(Id::new).collect(),
            from,
        }
    }

    /// The first place whose row has as much.
    fn place(&self, wanted: i64) -> usize {
        self.amounts.partition_point(|amount| *amount < wanted)
    }

    fn keep(&self, wanted: i64, rows: &mut Bits<InstanceTypeId>) {
        let place = self.place(wanted);
        let start = place / STEP * STEP;
        rows.intersect(&self.from[place / STEP]);
        for row in &self.rows[start..place] {
            rows.remove(*row);
        }
    }
}

impl Ranks {
    /// Sorts rows by what they have.
    pub(crate) fn new(rows: &[&Amounts]) -> Self {
        let resources = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        Self { columns: (0..resources).map(|resource| Column::new(rows, resource)).collect() }
    }

    /// Keeps the rows that have `used` and `more` together; resources without a request always fit.
    pub(crate) fn keep(&self, used: &Amounts, more: &Amounts, rows: &mut Bits<InstanceTypeId>) {
        for resource in 0..used.len().max(more.len()) {
            let wanted = get(used, resource).saturating_add(get(more, resource));
            if wanted <= 0 {
                continue;
            }
            match self.columns.get(resource) {
                Some(column) => column.keep(wanted, rows),
                None => *rows = Bits::default(),
            }
        }
    }

    /// The largest and the smallest amount of each resource over some rows, all of which have `used`.
    pub(crate) fn bounds(&self, rows: &Bits<InstanceTypeId>, used: &Amounts) -> (Amounts, Amounts) {
        let (mut most, mut least) = (Amounts::new(), Amounts::new());
        for (resource, column) in self.columns.iter().enumerate() {
            let used = get(used, resource);
            let start = if used > 0 { column.place(used) } else { 0 };
            let is_in = |place: &usize| rows.has(column.rows[*place]);
            let amount = |place: Option<usize>| place.map_or(0, |place| column.amounts[place]);
            most.push(amount((start..column.rows.len()).rev().find(is_in)));
            least.push(amount((start..column.rows.len()).find(is_in)));
        }
        (most, least)
    }
}

#[cfg(test)]
mod tests;
