//! Dynamic Resource Allocation: which devices the claims of a pod get on a node.
//!
//! Nothing here knows the solver. What there is to give is an [`inventory::Inventory`], of the cluster and of each kind of
//! node that does not exist yet; what is asked for is a [`want::Want`]; what is held already is in the
//! [`ledger::Ledger`]; and [`search::search`] looks for an allocation on one node as one kind, depth-first, devices of
//! the cluster before those of templates. Where a device restricts the nodes that can use it, the caller's
//! [`search::Ground`] says what is left of the node's choice.
//!
//! The rules are those of kube-scheduler's structured allocator, so that what is planned here is what it will do.

pub(super) mod capacity;
pub(super) mod given;
pub(super) mod inventory;
pub(super) mod ledger;
pub(super) mod search;
pub(super) mod want;
pub(super) mod why;

/// What an allocation may hold (`AllocationResultsMaxSize`).
pub(super) const MAX_DEVICES: usize = 32;

/// A device: of the cluster, or of the template of the kind at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ref {
    /// Whether it is a template's: it exists once for every node of the kind.
    pub(super) template: bool,
    /// Index into the inventory.
    pub(super) at: usize,
}

#[cfg(test)]
mod tests;
