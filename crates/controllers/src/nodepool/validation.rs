//! `nodepool.validation`: validates a NodePool beyond its schema.

use async_trait::async_trait;
use fleetwright_api::labels::condition::VALIDATION_SUCCEEDED;
use fleetwright_state::{Change, Index, Key, WatchedKind, validate};

use crate::pool_status::PoolStatus;
use crate::{
    events::{Event, regarding},
    runtime::{Cluster, Controller, Ctx, INVALID_POOL, ReconcileError, Recorder, Requeue},
    settings::Settings,
};

/// Validates NodePools.
pub struct Validation {
    cluster: Cluster,
    pools: PoolStatus,
    recorder: Recorder,
}

impl Validation {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { cluster: ctx.cluster.clone(), pools: PoolStatus::new(ctx), recorder: ctx.recorder.clone() }
    }
}

#[async_trait]
impl Controller for Validation {
    fn name(&self) -> &'static str {
        "nodepool.validation"
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        (change.kind == WatchedKind::NodePool).then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let problem = {
            let index = self.cluster.index();
            let unreadable =
                index.invalid().get(&(WatchedKind::NodePool, key.clone())).map(ToString::to_string);
            let invalid = || validate::pool(&pool, index.schema()).err().map(|problems| problems.to_string());
            unreadable.or_else(invalid)
        };
        if let Some(problem) = &problem {
            tracing::error!(NodePool.name = %key, problem, "nodepool is not valid and is not used");
            self.recorder.publish(Event::warning(regarding(&*pool), INVALID_POOL, problem.clone()));
        }
        self.pools
            .change_conditions(&pool, |conditions| {
                match &problem {
                    None => conditions.set_true(VALIDATION_SUCCEEDED),
                    Some(problem) => conditions.set_false(VALIDATION_SUCCEEDED, INVALID_POOL, problem),
                };
            })
            .await?;
        Ok(Requeue::No)
    }
}
