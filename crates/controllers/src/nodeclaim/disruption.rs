//! `nodeclaim.disruption`: the conditions Consolidatable and Drifted.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{self, CloudError, CloudProvider},
    nodeclaim::{
        conditions::{Consolidatable, Drifted},
        launch,
    },
};
use fleetwright_state::{Change, Index, Key, WatchedKind};

use super::{cache::LifecycleCache, claimed_node::ClaimedNode, executor::Executors};
use crate::{
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Updates the conditions that make a node a candidate.
pub struct Disruption {
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    executors: Executors,
}

impl Disruption {
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
impl Controller for Disruption {
    fn name(&self) -> &'static str {
        "nodeclaim.disruption"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let of_pool = |pool: Option<&str>| -> Vec<Key> {
            let claims = index.claim_models();
            let of_this_pool = claims.filter(|claim| pool.is_none() || claim.pool.as_deref() == pool);
            of_this_pool.map(|claim| Key::cluster(claim.name.as_str())).collect()
        };
        match change.kind {
            WatchedKind::NodeClaim => vec![change.key.clone()],
            WatchedKind::NodePool if spec_changed(change) => of_pool(Some(&change.key.name)),
            WatchedKind::NodeClass => of_pool(None),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(node) = ClaimedNode::find(&self.cluster, &self.settings, &key.name) else {
            return Ok(Requeue::No);
        };
        let catalog = node.pool.as_ref().and_then(|pool| self.cluster.index().catalog(&pool.name).cloned());
        // An empty catalogue could not be read; it is no reason for drift.
        let catalog = catalog.filter(|catalog| !catalog.instance_types.is_empty());
        let provider = provider_drift(&*self.cloud, &node).await?;
        let (view, now) = (node.view(self.cloud.info()), self.clocks.now());
        let drifted = Drifted { catalog: catalog.as_deref(), provider: provider.as_ref() };
        let next = Consolidatable.next(&view, now).and(drifted.next(&view, now));
        let done = self.executors.on(&node).execute(next).await?;
        Ok(done.again.into())
    }
}

/// Whether more than the status of the NodePool changed.
fn spec_changed(change: &Change) -> bool {
    let of = |object: &Option<fleetwright_state::Object>| match object {
        Some(fleetwright_state::Object::NodePool(pool)) => {
            Some((pool.metadata.generation, pool.metadata.annotations.clone()))
        }
        _ => None,
    };
    of(&change.before) != of(&change.after)
}

/// The drift that the provider reports, if the NodePool causes none and the instance exists.
async fn provider_drift(
    cloud: &dyn CloudProvider,
    node: &ClaimedNode,
) -> Result<Option<cloud::Drift>, ReconcileError> {
    let claim = &node.claim;
    let Some(pool) = &node.pool else { return Ok(None) };
    if claim.deleting.is_some() || !launch::is_launched(claim) || Drifted::by_pool(claim, pool).is_some() {
        return Ok(None);
    }
    match cloud.drift(claim).await {
        Ok(drift) => Ok(drift),
        // Garbage collection handles an instance that does not exist; instances of others are ignored.
        Err(CloudError::NotFound(_) | CloudError::NotOwned { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
