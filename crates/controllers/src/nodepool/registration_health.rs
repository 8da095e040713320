//! `nodepool.registrationhealth`: whether nodes of a NodePool register, by its last NodeClaims.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_api::{
    self as api, ConditionSet, HasConditions, condition::find,
    labels::condition::NODE_REGISTRATION_HEALTHY as HEALTHY,
};
use fleetwright_core::model::ConditionStatus;
use fleetwright_state::{Change, Index, Key};

use crate::pool_status::{PoolStatus, class_of, pools_of};
use crate::{
    nodeclaim::{LifecycleCache, REGISTRATION_HEALTH, registration_condition},
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// The reason if launches succeed but nodes do not register.
const REGISTRATION_FAILED: &str = "RegistrationFailed";

/// Updates the condition NodeRegistrationHealthy.
pub struct RegistrationHealth {
    cluster: Cluster,
    clocks: Clocks,
    pools: PoolStatus,
    cache: Arc<LifecycleCache>,
}

impl RegistrationHealth {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            pools: PoolStatus::new(ctx),
            cache: cache.clone(),
        }
    }
}

#[async_trait]
impl Controller for RegistrationHealth {
    fn name(&self) -> &'static str {
        REGISTRATION_HEALTH
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        pools_of(change, index)
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let Some(class) = self.cluster.index().node_class(&class_of(&pool)).cloned() else {
            return Ok(Requeue::No);
        };
        let uid = pool.metadata.uid.as_deref().unwrap_or_default().into();
        let seen = pool.status.as_ref().and_then(|status| status.node_class_observed_generation);
        let generation = pool.metadata.generation.unwrap_or(0);
        let stored = find(pool.conditions(), HEALTHY);
        let changed = stored.is_none_or(|stored| stored.observed_generation != generation)
            || seen != Some(class.generation);
        // The registrations are of an earlier spec of the NodePool or its NodeClass.
        if changed && stored.is_some() {
            self.cache.reset_health(&uid);
        }
        let health = self.cache.registration_health(&uid, registration_condition(&pool));
        // The condition has the reason of an earlier process.
        let recorded = stored.filter(|stored| stored.is_false()).map(|stored| stored.reason.as_str().into());
        let reason = self.cache.failure_of(&uid).or(recorded).unwrap_or_else(|| REGISTRATION_FAILED.into());
        let now = self.clocks.now();
        self.pools
            .change(&pool, |status| {
                status.node_class_observed_generation = Some(class.generation);
                let mut conditions =
                    ConditionSet::new(api::NodePool::TYPES, &pool.metadata, &mut status.conditions, now);
                match health {
                ConditionStatus::True => conditions.set_true(HEALTHY),
                ConditionStatus::Unknown => conditions.set_unknown(HEALTHY),
                ConditionStatus::False => conditions.set_false(
                    HEALTHY,
                    &reason,
                    "nodes of this pool were not launched or did not join; see the events of its NodeClaims",
                ),
            };
            })
            .await?;
        Ok(Requeue::No)
    }
}
