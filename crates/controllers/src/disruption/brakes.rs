//! A drift cap that is reached is shown on its NodePool, for as long as nodes wait for it: with how many were replaced,
//! and when the next may be.

use std::sync::Arc;

use fleetwright_api::{
    self as api, HasConditions, condition::find, labels::condition::DRIFT_WITHIN_CAP as CONDITION,
};
use fleetwright_core::{disruption::Brake, model::nodeclaim::ConditionType};

use crate::{
    nodepool::change_conditions,
    runtime::{Ctx, ReconcileError},
};

/// The condition's reason where the cap is reached.
const REACHED: &str = "CapReached";

/// Shows what the brakes of a pass say. A pool whose cap was never in the way says nothing.
///
/// # Errors
/// The first pool that could not be written; the others were tried too.
pub(super) async fn write(ctx: &Ctx, brakes: &[Brake]) -> Result<(), ReconcileError> {
    let concerned: Vec<(Arc<api::NodePool>, Option<&Brake>)> = {
        let index = ctx.index();
        let of = |pool: &Arc<api::NodePool>| {
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            let waits = || {
                index.claim_models().any(|claim| {
                    claim.pool.as_deref() == Some(name)
                        && claim.deleting.is_none()
                        && claim.is(ConditionType::Drifted)
                        && !index.intents().is_marked(&claim.name)
                })
            };
            let brake = brakes.iter().find(|brake| *brake.pool == *name && brake.left() == 0);
            let reached = brake.filter(|_| waits());
            let shown = find(pool.conditions(), CONDITION).is_some();
            (shown || reached.is_some()).then(|| (Arc::clone(pool), reached))
        };
        index.pools().filter_map(of).collect()
    };
    let mut result = Ok(());
    for (pool, reached) in concerned {
        let written = change_conditions(ctx, &pool, |conditions| {
            match reached {
                Some(brake) => conditions.set_false(CONDITION, REACHED, &sentence(brake)),
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

fn sentence(brake: &Brake) -> String {
    let next = brake.until.map(|until| format!("; the next may be at {until}")).unwrap_or_default();
    format!(
        "drifted nodes wait: {} were replaced within the window of annotation fleetwright.dev/drift-cap, which allows {}{next}",
        brake.replaced, brake.cap
    )
}
