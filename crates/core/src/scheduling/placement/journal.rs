//! The only undo: every change of a placement since a mark can be rewound.

use crate::scheduling::{
    ids::{CompatibilityId, DomainId, NodeId, TopologyGroupId},
    placement::Room,
};

/// A point in time to rewind to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(usize);

impl Mark {
    /// Before every change.
    pub(crate) const START: Self = Self(0);
}

/// One change.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A node had this room before.
    Room(NodeId, Room),
    /// A counter was changed.
    Count { group: TopologyGroupId, domain: DomainId, owners: bool, by: i64 },
    /// A node was found to have no room for a compatibility.
    Full(CompatibilityId, NodeId),
}

/// All changes since the placement was that of the snapshot.
#[derive(Debug, Default)]
pub(super) struct Journal {
    changes: Vec<Change>,
}

impl Journal {
    /// Notes a change.
    pub(super) fn note(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// The current point in time.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.changes.len())
    }

    /// Forgets all changes, which stay.
    pub(super) fn clear(&mut self) {
        self.changes.clear();
    }

    /// The changes since a mark, the oldest first.
    pub(super) fn since(&self, mark: Mark) -> &[Change] {
        self.changes.get(mark.0..).unwrap_or(&[])
    }

    /// Takes out the last change since a mark.
    pub(super) fn pop(&mut self, mark: Mark) -> Option<Change> {
        if self.changes.len() > mark.0 { self.changes.pop() } else { None }
    }
}
