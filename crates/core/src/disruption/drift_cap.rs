//! The drift cap: a NodePool may limit how many of its nodes are replaced within a time window, beside its budgets. A bad image
//! then replaces a few nodes until an operator intervenes, not the whole fleet one budget at a time.
//!
//! Replacements are counted from the NodeClaims of the cluster, so a restart loses nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Budgets, lineage};
use crate::model::{NodePool, PoolName, Snapshot, labels, nodeclaim::ConditionType};

/// How much of the drift cap of a pool is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftCapUsage {
    /// The pool.
    pub pool: PoolName,
    /// How many nodes may be replaced within the window.
    pub cap: i64,
    /// How many were replaced.
    pub replaced: i64,
    /// When the first of them leaves the window; `None` if none was replaced.
    pub until: Option<Timestamp>,
    /// Whether drifted nodes wait to be replaced.
    pub waits: bool,
}

impl DriftCapUsage {
    /// How many more may be replaced now.
    #[must_use]
    pub fn left(&self) -> i64 {
        (self.cap - self.replaced).max(0)
    }

    /// Whether drifted nodes wait for the cap.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.waits && self.left() == 0
    }
}

/// The usage of the drift cap of `pool`, if it has one.
#[must_use]
pub fn drift_cap_usage(snapshot: &Snapshot, pool: &NodePool, now: Timestamp) -> Option<DriftCapUsage> {
    let cap = pool.drift_cap?;
    let mut usage = DriftCapUsage {
        pool: pool.name.clone(),
        cap: i64::from(cap.nodes),
        replaced: 0,
        until: None,
        waits: false,
    };
    let members = snapshot.nodes.iter().filter(|node| node.label(labels::NODEPOOL) == Some(&*pool.name));
    for (node, claim) in members.filter_map(|node| Some((node, node.claim.as_ref()?))) {
        let drifted = claim.deleting.is_none() && claim.is(ConditionType::Drifted);
        usage.waits |= drifted && !node.marked_for_deletion;
        let leaves = claim.created.checked_add(cap.window).unwrap_or(Timestamp::MAX);
        if lineage::is_replacement(claim) && now < leaves {
            usage.replaced += 1;
            usage.until = Some(usage.until.map_or(leaves, |until| until.min(leaves)));
        }
    }
    Some(usage)
}

/// Lowers budgets to the remaining drift caps. `started` counts the candidates of the commands so far of the pass, whose
/// replacements are not NodeClaims yet.
pub(super) fn apply_drift_caps(
    snapshot: &Snapshot,
    now: Timestamp,
    started: &BTreeMap<PoolName, i64>,
    budgets: &mut Budgets,
) {
    for pool in snapshot.pools.iter().filter(|pool| pool.drift_cap.is_some()) {
        if let Some(usage) = drift_cap_usage(snapshot, pool, now) {
            budgets.cap(&pool.name, usage.left() - started.get(&pool.name).copied().unwrap_or_default());
        }
    }
}
