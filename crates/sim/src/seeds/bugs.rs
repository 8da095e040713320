//! Planted bugs: incidents of other autoscalers, put back at the seams, to prove that the checks have teeth.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, ProviderInfo,
        Termination,
    },
    model::{Catalog, NodeClaim, NodePool, ProviderId},
};
use serde_json::json;

use crate::world::{World, Wrap};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A repeated launch is a new one: no idempotency token reaches the cloud.
    LaunchWithoutToken,
    /// An instance counts as gone as soon as its end was asked for.
    GoneTooSoon,
    /// NodeClaims lose their finalizer once they are launched.
    FinalizerStripped,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LaunchWithoutToken, Self::GoneTooSoon, Self::FinalizerStripped];
}

/// What stands between controllers and cloud for this bug.
pub(super) fn wrap(bug: Bug) -> Option<Wrap> {
    match bug {
        Bug::LaunchWithoutToken | Bug::GoneTooSoon => {
            Some(Arc::new(move |inner| Arc::new(Broken { inner, bug, calls: AtomicU64::new(0) })))
        }
        Bug::FinalizerStripped => None,
    }
}

struct Broken {
    inner: Arc<dyn CloudProvider>,
    bug: Bug,
    calls: AtomicU64,
}

#[async_trait]
impl CloudProvider for Broken {
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
        if self.bug != Bug::LaunchWithoutToken {
            return self.inner.launch(requests).await;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fresh = |request: &LaunchRequest| LaunchRequest {
            batch: format!("{}-{call}", request.batch).into(),
            ..request.clone()
        };
        let requests: Vec<LaunchRequest> = requests.iter().map(fresh).collect();
        self.inner.launch(&requests).await
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        let answer = self.inner.terminate(claim, id).await?;
        Ok(if self.bug == Bug::GoneTooSoon { Termination::Gone } else { answer })
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
}

/// What a bug does to the objects of the API server, once a step.
pub(super) fn meddle(bug: Bug, world: &World) {
    for claim in world.server().list("karpenter.sh/v1", "NodeClaim", "") {
        let mut changed = (*claim).clone();
        match bug {
            Bug::FinalizerStripped if claim.pointer("/status/providerID").is_some() => {
                changed["metadata"]["finalizers"] = json!([]);
            }
            _ => {}
        }
        if changed != *claim {
            // A refusal is as good as a bug that did not strike.
            let _ = world.server().apply(changed);
        }
    }
}
