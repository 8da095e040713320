//! The input of the methods and gates of a pass.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Candidate, Rules};
use crate::model::{Snapshot, Str};

/// The input of a method, the same for all methods of a pass.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// The settings.
    pub rules: &'a Rules,
    /// The time at which budgets and time windows are evaluated.
    pub now: Timestamp,
    /// NodeClaims that the previous pass did not reach. Methods that simulate node by node start with them.
    pub first: &'a BTreeSet<Str>,
}

impl<'a> Context<'a> {
    /// A context without a previous pass.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, rules: &'a Rules, now: Timestamp) -> Self {
        static NONE: BTreeSet<Str> = BTreeSet::new();
        Self { snapshot, rules, now, first: &NONE }
    }

    /// Splits candidates into those that the previous pass did not reach and the others, both in order.
    pub(super) fn unreached_first<'c>(
        &self,
        candidates: &[&'c Candidate],
    ) -> (Vec<&'c Candidate>, Vec<&'c Candidate>) {
        let was_unreached = |candidate: &&Candidate| {
            candidate.node.claim_name().is_some_and(|name| self.first.contains(&**name))
        };
        candidates.iter().copied().partition(was_unreached)
    }
}

/// The input for the choice of methods of a pass.
#[derive(Clone, Copy, Debug)]
pub struct PassStart {
    /// The epoch of the snapshot.
    pub epoch: u64,
    /// Steady time.
    pub steady: Timestamp,
    /// When the process ran its first pass, in steady time.
    pub began: Timestamp,
    /// Whether the pass reports all blockers of every node.
    pub reports: bool,
    /// The epoch on which consolidation last found nothing to do.
    pub(super) unchanged: Option<UnchangedEpoch>,
}

impl PassStart {
    /// The start of a pass; [`PassMemory::agenda`](super::PassMemory::agenda) adds its own state.
    #[must_use]
    pub fn new(epoch: u64, steady: Timestamp, began: Timestamp, reports: bool) -> Self {
        Self { epoch, steady, began, reports, unchanged: None }
    }
}

/// The epoch of a snapshot on which consolidation found nothing to do, and when that was, in steady time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnchangedEpoch {
    /// The epoch.
    pub(super) epoch: u64,
    /// When that was.
    pub(super) since: Timestamp,
}
