//! Which members of a set have an amount: the distinct amounts, ascending, each with the set of those that have as much. An answer costs
//! a few words however many members there are. The sets take a bit for each member and distinct amount: 50 KB for the memory of 640
//! instance types, no two of which have the same.

use std::cmp::Reverse;

use crate::scheduling::{
    ids::{Id, InstanceTypeId},
    tables::{
        amounts::{Amounts, get},
        bits::Bits,
    },
};

/// The amounts of one resource.
#[derive(Debug)]
pub(crate) struct Thresholds<I> {
    amounts: Vec<i64>,
    sets: Vec<Bits<I>>,
}

impl<I: Id> Thresholds<I> {
    /// The amounts that members have.
    pub(crate) fn new(members: impl IntoIterator<Item = (I, i64)>) -> Self {
        let mut members: Vec<(I, i64)> = members.into_iter().collect();
        members.sort_by_key(|(_, amount)| Reverse(*amount));
        let (mut amounts, mut sets, mut present) = (Vec::new(), Vec::new(), Bits::default());
        for equal in members.chunk_by(|(_, a), (_, b)| a == b) {
            equal.iter().for_each(|(id, _)| present.insert(*id));
            amounts.extend(equal.first().map(|(_, amount)| *amount));
            sets.push(present.clone());
        }
        amounts.reverse();
        sets.reverse();
        Self { amounts, sets }
    }

    /// Keeps those that have at least so much; what is not asked for, all have.
    pub(crate) fn keep(&self, wanted: i64, members: &mut Bits<I>) {
        if wanted <= 0 {
            return;
        }
        match self.sets.get(self.amounts.partition_point(|amount| *amount < wanted)) {
            Some(own) => members.intersect(own),
            None => *members = Bits::default(),
        }
    }

    /// The largest and the smallest amount of some members; zero where there are none.
    fn bounds(&self, members: &Bits<I>) -> (i64, i64) {
        let some_have = self.sets.partition_point(|own| own.meets(members));
        let all_have = self.sets[..some_have].partition_point(|own| members.is_within(own));
        let amount = |place: usize| place.checked_sub(1).map_or(0, |place| self.amounts[place]);
        (amount(some_have), amount(all_have))
    }
}

/// The rows of a pool by what they have of each resource.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    resources: Vec<Thresholds<InstanceTypeId>>,
}

impl Ranks {
    /// By what each row has.
    pub(crate) fn new(rows: &[&Amounts]) -> Self {
        let resources = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let amounts = |resource: usize| {
            rows.iter().enumerate().map(move |(row, amounts)| (Id::new(row), get(amounts, resource)))
        };
        Self { resources: (0..resources).map(|resource| Thresholds::new(amounts(resource))).collect() }
    }

    /// Keeps the rows that have `used` and `more` together; resources without a request always fit.
    pub(crate) fn keep(&self, used: &Amounts, more: &Amounts, rows: &mut Bits<InstanceTypeId>) {
        for resource in 0..used.len().max(more.len()) {
            let wanted = get(used, resource).saturating_add(get(more, resource));
            match self.resources.get(resource) {
                Some(thresholds) => thresholds.keep(wanted, rows),
                None if wanted > 0 => *rows = Bits::default(),
                None => {}
            }
        }
    }

    /// The largest and the smallest amount of each resource over some rows.
    pub(crate) fn bounds(&self, rows: &Bits<InstanceTypeId>) -> (Amounts, Amounts) {
        self.resources.iter().map(|thresholds| thresholds.bounds(rows)).unzip()
    }
}

#[cfg(test)]
mod tests;
