//! A cloud whose prices stop being told: for a while they are as old as more than a day.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, ProviderInfo,
        ProviderStep, Termination,
    },
    model::{Catalog, NodeClaim, NodePool, ProviderId},
};
use jiff::{SignedDuration, Timestamp};

use crate::world::Wrap;

/// How old prices are before a run begins, where they are not told: no wrong clock makes that less than a day.
const AGE: SignedDuration = SignedDuration::from_hours(25);

/// Whether prices are told.
#[derive(Debug)]
pub(super) struct Feed {
    silent: AtomicBool,
    /// When they were told last, where they are not.
    told: Timestamp,
}

impl Feed {
    /// Of a run that begins at `origin`.
    pub(super) fn new(origin: Timestamp) -> Self {
        Self { silent: AtomicBool::new(false), told: origin.checked_sub(AGE).unwrap_or(Timestamp::MIN) }
    }

    /// Prices are told no more, or again. Returns whether that is another thing than before.
    pub(super) fn silence(&self, silent: bool) -> bool {
        self.silent.swap(silent, Ordering::Relaxed) != silent
    }

    /// What stands between controllers and cloud.
    pub(super) fn wrap(self: &Arc<Self>) -> Wrap {
        let feed = Arc::clone(self);
        Arc::new(move |inner, _| Arc::new(Dated { inner, feed: Arc::clone(&feed) }))
    }
}

/// A provider whose prices have an age.
struct Dated {
    inner: Arc<dyn CloudProvider>,
    feed: Arc<Feed>,
}

#[async_trait]
impl CloudProvider for Dated {
    fn info(&self) -> &ProviderInfo {
        self.inner.info()
    }

    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError> {
        self.inner.identify(cluster_uid).await
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        self.inner.catalog(pool).await
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        self.inner.launch(requests).await
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        self.inner.terminate(claim, id).await
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        self.inner.terminate_orphan(id).await
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        self.inner.get(id).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        self.inner.list().await
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        self.inner.drift(claim).await
    }

    fn prices_as_of(&self) -> Option<Timestamp> {
        self.feed.silent.load(Ordering::Relaxed).then_some(self.feed.told)
    }

    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        self.inner.steps()
    }
}
