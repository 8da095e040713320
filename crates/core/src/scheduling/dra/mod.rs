//! Dynamic Resource Allocation: which devices the claims of a pod get on a node.
//!
//! Nothing here depends on the solver. The devices are in an [`inventory::Inventory`], of the cluster and of each template set of
//! new nodes; a claim is a [`compiled_claim::CompiledClaim`]; held devices are in the
//! [`ledger::Ledger`]; and [`search::search`] looks for an allocation on one node with one template set, depth-first, devices of
//! the cluster before those of templates. Where a device restricts the nodes that can use it, the caller's
//! [`search::NodeReach`] returns the remaining requirements of the node.
//!
//! The rules are those of kube-scheduler's structured allocator, so that it finds what is planned here.

pub(super) mod allocated;
pub(super) mod capacity;
pub(super) mod compiled_claim;
pub(super) mod inventory;
pub(super) mod ledger;
pub(super) mod problem;
pub(super) mod search;

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
