//! A brake on mass drift: a pool may ask that no more than so many of its nodes are replaced within a time, whatever
//! its budgets say. A bad image then costs a few nodes before somebody looks, not a fleet one budget at a time.
//!
//! What counts is read from the cluster: NodeClaims that came in place of others. A restart forgets nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Budgets;
use crate::model::{NodePool, PoolName, Snapshot, labels, labels::REPLACED};

/// What the brake of a pool says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brake {
    /// The pool.
    pub pool: PoolName,
    /// How many may be replaced within the window.
    pub cap: i64,
    /// How many were.
    pub replaced: i64,
    /// When the first of them leaves the window; `None` where there is none.
    pub until: Option<Timestamp>,
}

impl Brake {
    /// How many more may be replaced now.
    #[must_use]
    pub fn left(&self) -> i64 {
        (self.cap - self.replaced).max(0)
    }
}

/// What the brake of `pool` says, where it has one.
#[must_use]
pub fn brake(snapshot: &Snapshot, pool: &NodePool, now: Timestamp) -> Option<Brake> {
    let cap = pool.drift_cap?;
    let mut brake = Brake { pool: pool.name.clone(), cap: i64::from(cap.nodes), replaced: 0, until: None };
    let members = snapshot.nodes.iter().filter(|node| node.label(labels::NODEPOOL) == Some(&*pool.name));
    for claim in members.filter_map(|node| node.claim.as_ref()) {
        let leaves = claim.created.checked_add(cap.window).unwrap_or(Timestamp::MAX);
        if claim.annotations.contains_key(REPLACED) && now < leaves {
            brake.replaced += 1;
            brake.until = Some(brake.until.map_or(leaves, |until| until.min(leaves)));
        }
    }
    Some(brake)
}

/// Lowers budgets to what the brakes leave. Commands of the pass so far, whose replacements are not claims yet, are in
/// `begun`.
pub(super) fn cap_by_brakes(
    snapshot: &Snapshot,
    now: Timestamp,
    begun: &BTreeMap<PoolName, i64>,
    budgets: &mut Budgets,
) {
    for pool in snapshot.pools.iter().filter(|pool| pool.drift_cap.is_some()) {
        if let Some(brake) = brake(snapshot, pool, now) {
            budgets.cap(&pool.name, brake.left() - begun.get(&pool.name).copied().unwrap_or_default());
        }
    }
}
