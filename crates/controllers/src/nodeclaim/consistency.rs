//! `nodeclaim.consistency`: whether nodes have the resources and labels that their NodeClaims predict.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::{cloud::CloudProvider, nodeclaim::consistency};
use fleetwright_state::{Change, Index, Key};

use super::{
    cache::LifecycleCache,
    claimed_node::{ClaimedNode, claim_of},
    executor::Executors,
};
use crate::{
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Compares nodes with their NodeClaims.
pub struct Consistency {
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    executors: Executors,
}

impl Consistency {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            executors: Executors::new(ctx, cache),
        }
    }
}

#[async_trait]
impl Controller for Consistency {
    fn name(&self) -> &'static str {
        "nodeclaim.consistency"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        claim_of(change, index).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(node) = ClaimedNode::find(&self.cluster, &self.settings, &key.name) else {
            return Ok(Requeue::No);
        };
        let next = consistency::Consistency.next(&node.view(self.cloud.info()), self.clocks.now());
        let done = self.executors.on(&node).execute(next).await?;
        Ok(done.again.into())
    }
}
