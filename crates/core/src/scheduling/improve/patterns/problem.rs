//! What patterns are made of: kinds of pods that nothing but size and requirements ties to a place, the tables of what
//! can be bought for them, and new NodeClaims that have room because other pods need them.

use smallvec::SmallVec;

use crate::{
    model::Price,
    scheduling::{
        bound::Columns,
        improve::patterns::table::{Room, Size, Table},
    },
};

/// Kinds and how many of each.
pub(crate) type Content = SmallVec<[(usize, u32); 6]>;

/// Pods that are alike, and that topology says nothing about.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// By dimension.
    pub(super) requests: Room,
    pub(super) count: u32,
    /// What they ask of labels and pools.
    pub(super) eligibility: usize,
    pub(super) lane: usize,
    /// By pool: how many types a claim that holds one of them must keep.
    pub(super) types: Vec<usize>,
}

/// Kinds that compete for the same nodes.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) eligibility: usize,
    /// What may be opened for them: index of the table, and how much to put in.
    pub(super) sizes: Vec<(usize, Size)>,
}

/// A new NodeClaim that other pods need.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) state: usize,
    pub(super) used: Room,
    /// How many types it must keep.
    pub(super) types: usize,
}

/// See the module. A *state* is a pool under a set of requirements; it has a table.
#[derive(Debug, Default)]
pub(crate) struct Problem {
    pub(crate) dims: usize,
    pub(super) kinds: Vec<Kind>,
    pub(crate) tables: Vec<Table>,
    /// By state: which of the pools that take part it is of.
    pub(crate) pool: Vec<usize>,
    /// By state and eligibility: the state of a claim that such a pod joins.
    pub(crate) join: Vec<Vec<Option<usize>>>,
    /// Those with the least choice first.
    pub(super) lanes: Vec<Lane>,
    pub(super) bases: Vec<Base>,
}

/// A node to open, or to add to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bin {
    pub(super) state: usize,
    pub(super) content: Content,
    /// What the pods take, those of the base included.
    pub(super) used: Room,
    pub(super) price: i64,
    /// Index of the new NodeClaim that it adds to.
    pub(super) base: Option<usize>,
}

impl Problem {
    /// How many types a claim that holds some kinds must keep.
    pub(super) fn types(&self, state: usize, content: impl Iterator<Item = usize>) -> usize {
        let pool = self.pool[state];
        content.map(|kind| self.kinds[kind].types[pool]).min().unwrap_or(0)
    }

    /// What a lane can buy, as columns, each dearer by the part of it that cannot be filled, per mille.
    pub(super) fn columns(&self, lane: usize, filled: &[i64]) -> Columns {
        let mut columns = Columns::new(self.dims);
        for ((_, size), filled) in self.lanes[lane].sizes.iter().zip(filled) {
            let price = size.price.saturating_mul(1000) / (*filled).max(1);
            columns.push(Price::from_nanos(price), size.room.iter().copied());
        }
        columns
    }

    /// What so many pods of each kind take together, of one lane or of all.
    pub(super) fn demand(&self, counts: &[u32], lane: Option<usize>) -> Vec<i64> {
        let mut demand = vec![0_i64; self.dims];
        for (kind, count) in self.kinds.iter().zip(counts) {
            if lane.is_none_or(|lane| lane == kind.lane) {
                for (sum, amount) in demand.iter_mut().zip(&kind.requests) {
                    *sum = sum.saturating_add(amount.saturating_mul(i64::from(*count)));
                }
            }
        }
        demand
    }
}
