//! `nodepool.features`: the condition `FeaturesAvailable` of NodePools, while a feature is off because the API server refuses
//! what it needs.

use async_trait::async_trait;
use fleetwright_api::{HasConditions, condition::find, labels::condition::FEATURES_AVAILABLE as CONDITION};
use fleetwright_state::{Change, Index, Key, WatchedKind};

use crate::{
    pool_status::PoolStatus,
    runtime::{Controller, Ctx, FEATURES, Features, ReconcileError, Requeue},
};

/// Writes the condition.
pub struct FeatureStatus {
    features: Features,
    pools: PoolStatus,
}

impl FeatureStatus {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { features: ctx.features.clone(), pools: PoolStatus::new(ctx) }
    }
}

#[async_trait]
impl Controller for FeatureStatus {
    fn name(&self) -> &'static str {
        FEATURES
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        if change.kind == WatchedKind::NodePool { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let is_set = find(pool.conditions(), CONDITION).is_some();
        let off = self.features.condition();
        self.pools
            .change_conditions(&pool, |conditions| match &off {
                Some((reason, message)) => {
                    conditions.set_false(CONDITION, reason, message);
                }
                // A NodePool that never lacked a feature has no such condition.
                None if is_set => {
                    conditions.set_true(CONDITION);
                }
                None => {}
            })
            .await?;
        Ok(Requeue::No)
    }
}
