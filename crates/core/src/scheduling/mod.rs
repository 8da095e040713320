//! Schedules a batch of pods: the [`Plan`] says which pods run on which existing node, which NodeClaims to create for the
//! rest, and why a pod is unschedulable.

mod bound;
mod dra;
mod explain;
mod greedy;
mod ids;
mod improve;
mod new_claim;
mod obstacle;
mod packer;
mod placement;
mod plan;
mod prepared;
mod reason;
mod removals;
mod request;
mod tables;
#[cfg(any(test, feature = "testing"))]
pub mod validator;

pub(crate) use bound::{Columns, lower_bound};
pub use dra::problem::{ClaimProblem, DeviceShortage, Tally};
pub(crate) use improve::NODE_OVERHEAD;
pub use obstacle::{NodeObstacles, Obstacle};
pub use packer::{Compatible, LeastCost, Packer};
pub use plan::{Chosen, Cost, NewClaim, Placement, Plan, PlannedClaim, PlannedDevice};
pub use prepared::PreparedSnapshot;
pub use reason::{Eliminated, Nearest, PoolVerdict, Unplaced};
pub use removals::{Removals, repack::Repack};
pub use request::{Effort, Flexibility, MinValuesPolicy, PreferencePolicy, Purpose, Request, Rules};

use crate::model::Snapshot;

/// Schedules `request` onto `snapshot` with [`LeastCost`]. Deterministic but for [`Effort::While`].
///
/// Pods that are nominated to an uninitialized NodeClaim ([`Snapshot::nominated`]) stay there while they fit.
pub fn solve(snapshot: &Snapshot, request: &Request<'_>, rules: &Rules) -> Plan {
    LeastCost.pack(&mut PreparedSnapshot::new(snapshot, rules), request)
}

#[cfg(test)]
mod tests;
