//! `nodepool.readiness`: whether the NodeClass of a NodePool exists and is ready.

use async_trait::async_trait;
use fleetwright_api::labels::condition::NODE_CLASS_READY;
use fleetwright_state::{Change, Index, Key};

use crate::pool_status::{PoolStatus, class_of, pools_of};
use crate::{
    runtime::{Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Updates the condition NodeClassReady.
pub struct Readiness {
    cluster: Cluster,
    pools: PoolStatus,
}

impl Readiness {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { cluster: ctx.cluster.clone(), pools: PoolStatus::new(ctx) }
    }
}

#[async_trait]
impl Controller for Readiness {
    fn name(&self) -> &'static str {
        "nodepool.readiness"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        pools_of(change, index)
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let class = class_of(&pool);
        let state = self.cluster.index().node_class(&class).cloned();
        let problem: Option<(String, String)> = match state {
            None => Some((
                "NodeClassNotFound".to_owned(),
                format!("{class} does not exist: create it, or correct spec.template.spec.nodeClassRef"),
            )),
            Some(state) if state.deleting.is_some() => {
                Some(("NodeClassTerminating".to_owned(), format!("{class} is being deleted")))
            }
            Some(state) => match state.ready {
                Some(true) => None,
                Some(false) => Some((state.why.0.to_string(), state.why.1.to_string())),
                None => Some((
                    "NodeClassReadinessUnknown".to_owned(),
                    format!("{class} has no Ready condition yet"),
                )),
            },
        };
        self.pools
            .change_conditions(&pool, |conditions| {
                match &problem {
                    None => conditions.set_true(NODE_CLASS_READY),
                    Some((reason, message)) => conditions.set_false(NODE_CLASS_READY, reason, message),
                };
            })
            .await?;
        Ok(Requeue::No)
    }
}
