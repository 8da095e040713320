//! The condition DriftWithinCap of a NodePool: False while drifted nodes wait for its drift cap, with the number of
//! replaced nodes and the time of the next replacement.

use std::sync::Arc;

use fleetwright_api::{
    self as api, HasConditions, condition::find, labels::condition::DRIFT_WITHIN_CAP as CONDITION,
};
use fleetwright_core::disruption::DriftCapUsage;

use crate::{
    pool_status::PoolStatus,
    runtime::{Cluster, ReconcileError},
};

/// The condition's reason when the cap is reached.
const REACHED: &str = "CapReached";

/// Updates the conditions. A NodePool whose cap was never reached has no such condition.
///
/// # Errors
/// The first failed write; all NodePools are tried.
pub(super) async fn write(
    cluster: &Cluster,
    pools: &PoolStatus,
    usages: &[DriftCapUsage],
) -> Result<(), ReconcileError> {
    let concerned: Vec<(Arc<api::NodePool>, Option<&DriftCapUsage>)> = {
        let index = cluster.index();
        let of = |pool: &Arc<api::NodePool>| {
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            let reached = usages.iter().find(|usage| *usage.pool == *name && usage.is_reached());
            let is_set = find(pool.conditions(), CONDITION).is_some();
            (is_set || reached.is_some()).then(|| (Arc::clone(pool), reached))
        };
        index.pools().filter_map(of).collect()
    };
    let mut result = Ok(());
    for (pool, reached) in concerned {
        let written = pools.change_conditions(&pool, |conditions| {
            match reached {
                Some(usage) => conditions.set_false(CONDITION, REACHED, &message(usage)),
                None => conditions.set_true(CONDITION),
            };
        });
        let written = written.await;
        if result.is_ok() {
            result = written;
        }
    }
    result
}

fn message(usage: &DriftCapUsage) -> String {
    let next = usage.until.map(|until| format!("; next replacement at {until}")).unwrap_or_default();
    format!(
        "drift cap reached: {} of {} nodes were replaced within the window of annotation fleetwright.dev/drift-cap{next}",
        usage.replaced, usage.cap
    )
}
