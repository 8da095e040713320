//! `nodeclaim.consistency`: whether nodes are what was promised.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::nodeclaim::consistency;
use fleetwright_state::{Change, Index, Key};

use super::{
    cache::LifecycleCache,
    claimed_node::{ClaimedNode, claim_of},
    executor::Executor,
};
use crate::{
    runtime::{Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Compares nodes with their claims.
pub struct Consistency(pub Arc<LifecycleCache>);

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

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(node) = ClaimedNode::find(ctx, &key.name) else { return Ok(Requeue::No) };
        let next = consistency::Consistency.next(&node.view(ctx.cloud.info()), ctx.now());
        let done = Executor::new(ctx, &self.0, &node).execute(next).await?;
        Ok(done.again.into())
    }
}
