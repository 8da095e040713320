//! The propagation of deletions to dependents.

use crate::registry::Resource;

/// Finalizer of foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphaning deletion.
pub(crate) const ORPHAN: &str = "orphan";

/// The treatment of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// Deleted after the owner.
    Background,
    /// Deleted before the owner.
    Foreground,
    /// Left alone.
    Orphan,
}

/// The treatment of dependents by a deletion without a policy.
pub(crate) fn default_of(resource: &Resource) -> Option<Propagation> {
    (resource.is("batch", "Job") || resource.is("", "ReplicationController")).then_some(Propagation::Orphan)
}
