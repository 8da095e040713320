//! Keeps the instance types of each pool current.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{CloudError, CloudProvider},
    model::PoolName,
};
use fleetwright_state::{Change, Index, Key, WatchedKind};

use crate::{
    runtime::{Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Requeue},
    settings::Settings,
};

/// How often the catalogue is read without a change. Providers answer from their caches.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// Deadline of the provider's response.
const DEADLINE: Duration = Duration::from_secs(30);

/// Reads the instance types of each NodePool from the provider.
pub struct CatalogController {
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
}

impl CatalogController {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { cluster: ctx.cluster.clone(), clocks: ctx.clocks.clone(), cloud: ctx.cloud.clone() }
    }
}

#[async_trait]
impl Controller for CatalogController {
    fn name(&self) -> &'static str {
        "fleetwright.catalog"
    }

    fn concurrency(&self, _settings: &Settings) -> usize {
        10
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_secs(1), Duration::from_secs(60), 10, 100)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        match change.kind {
            WatchedKind::NodePool => vec![change.key.clone()],
            // The NodeClass decides about images, zones and types; there are few NodePools.
            WatchedKind::NodeClass => {
                index.pools().filter_map(|pool| pool.metadata.name.as_deref()).map(Key::cluster).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        match refresh(&self.cluster, &self.clocks, &*self.cloud, &key.name.clone().into()).await {
            Ok(true) => Ok(Requeue::After(REFRESH_INTERVAL)),
            Ok(false) => Ok(Requeue::No),
            // The readiness condition of the NodePool reports it; a change of the NodeClass follows.
            Err(ReconcileError::Cloud(CloudError::NodeClassNotReady(_))) => {
                Ok(Requeue::After(REFRESH_INTERVAL))
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads the instance types of one NodePool; false if it is not managed. After an error the last catalogue stays in use.
pub(super) async fn refresh(
    cluster: &Cluster,
    clocks: &Clocks,
    cloud: &dyn CloudProvider,
    name: &PoolName,
) -> Result<bool, ReconcileError> {
    let pool = cluster.index().pool_model(name).filter(|pool| !pool.deleting).cloned();
    let Some(pool) = pool else {
        cluster.index().set_catalog(name, None);
        return Ok(false);
    };
    let what = "list instance types";
    let response = clocks.within(DEADLINE, cloud.catalog(&pool)).await;
    let catalog = response.ok_or(ReconcileError::Deadline { what, after: DEADLINE })??;
    cluster.index().set_catalog(name, Some(catalog));
    Ok(true)
}

/// Reads the instance types of all NodePools, so that the next decision knows about recent capacity errors. Errors are logged: a
/// decision on an older catalogue is better than none.
pub(super) async fn refresh_all(cluster: &Cluster, clocks: &Clocks, cloud: &dyn CloudProvider) {
    let names: Vec<PoolName> =
        cluster.index().pools().filter_map(|pool| pool.metadata.name.clone()).map(Into::into).collect();
    for name in names {
        if let Err(error) = refresh(cluster, clocks, cloud, &name).await {
            tracing::warn!(nodepool = %name, %error, "failed to refresh instance types");
        }
    }
}
