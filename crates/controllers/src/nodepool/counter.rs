//! `nodepool.counter`: the total resources of the nodes of a NodePool.

use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::model::resources::BASE;
use fleetwright_state::{Change, Index, Key, WatchedKind};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pool_status::PoolStatus;
use crate::{
    nodeclaim::executor::quantities,
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Interval between counts.
const INTERVAL: Duration = Duration::from_secs(5);

/// Updates `status.resources` and `status.nodes`.
pub struct Counter {
    cluster: Cluster,
    clocks: Clocks,
    pools: PoolStatus,
}

impl Counter {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { cluster: ctx.cluster.clone(), clocks: ctx.clocks.clone(), pools: PoolStatus::new(ctx) }
    }
}

#[async_trait]
impl Controller for Counter {
    fn name(&self) -> &'static str {
        "nodepool.counter"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        // Requeued afterwards: one write per new node would be too many.
        let created = change.kind == WatchedKind::NodePool && change.is_created();
        created.then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let now = self.clocks.now();
        let (usage, nodes) = self.cluster.index().snapshot(now).usage(&key.name);
        let mut resources = quantities(&usage);
        resources.insert("nodes".to_owned(), Quantity(nodes.to_string()));
        for name in &BASE {
            resources.entry(name.as_str().to_owned()).or_insert_with(|| Quantity("0".to_owned()));
        }
        self.pools
            .change(&pool, |status| {
                status.nodes = Some(nodes);
                // A merge patch does not remove keys: resources that the NodePool does not have any more are zero.
                for name in
                    status.resources.iter().flat_map(|known| known.keys().cloned()).collect::<Vec<_>>()
                {
                    resources.entry(name).or_insert_with(|| Quantity("0".to_owned()));
                }
                status.resources = Some(resources);
            })
            .await?;
        Ok(Requeue::After(INTERVAL))
    }
}
