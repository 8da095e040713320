//! `nodepool.validation`: whether a NodePool makes sense, beyond what its schema says.

use async_trait::async_trait;
use fleetwright_api::labels::condition::VALIDATION_SUCCEEDED;
use fleetwright_state::{Change, Index, Key, Kind, validate};

use super::status::{change_conditions, managed};
use crate::{
    events::{Event, regarding},
    runtime::{Controller, Ctx, INVALID_POOL, ReconcileError, Requeue},
    settings::Settings,
};

/// Validates NodePools.
pub struct Validation;

#[async_trait]
impl Controller for Validation {
    fn name(&self) -> &'static str {
        "nodepool.validation"
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        (change.kind == Kind::NodePool).then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = managed(ctx, &key.name) else { return Ok(Requeue::No) };
        let problem = {
            let index = ctx.index();
            let unreadable = index.invalid().get(&(Kind::NodePool, key.clone())).map(ToString::to_string);
            let invalid = || validate::pool(&pool, index.schema()).err().map(|problems| problems.to_string());
            unreadable.or_else(invalid)
        };
        if let Some(problem) = &problem {
            tracing::error!(NodePool = %key, problem, "nodepool is not valid and is not used");
            ctx.recorder.publish(Event::warning(regarding(&*pool), INVALID_POOL, problem.clone()));
        }
        change_conditions(ctx, &pool, |conditions| {
            match &problem {
                None => conditions.set_true(VALIDATION_SUCCEEDED),
                Some(problem) => conditions.set_false(VALIDATION_SUCCEEDED, INVALID_POOL, problem),
            };
        })
        .await?;
        Ok(Requeue::No)
    }
}
