//! Bugs between an operator and its cloud.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{CloudError, CloudLayer, CloudProvider, Instance, LaunchError, LaunchRequest, Termination},
    model::{NodeClaim, ProviderId},
};
use fleetwright_fake::{
    Cloud,
    api::{CloudApi as _, CloudInstance, Lifecycle, Terminate},
};

use super::Bug;

/// A provider with a bug.
pub(super) struct FaultyProvider {
    pub(super) inner: Arc<dyn CloudProvider>,
    pub(super) cloud: Arc<Cloud>,
    pub(super) bug: Bug,
    pub(super) calls: AtomicU64,
}

impl FaultyProvider {
    /// Instances of other clusters, reported as ours.
    fn foreign_instances(&self, ours: &[Instance]) -> Vec<Instance> {
        let uid = ours.iter().find_map(|instance| instance.cluster_uid.clone());
        let is_foreign = |instance: &Arc<CloudInstance>| {
            instance.state == Lifecycle::Running && !ours.iter().any(|own| *own.provider_id == *instance.id)
        };
        let taken = |instance: Arc<CloudInstance>| {
            let mut taken = Instance::new(instance.id.as_str());
            taken.claim = instance.tags.claim.as_deref().map(Into::into);
            taken.cluster_uid = uid.clone();
            taken.created = Some(instance.launched_at);
            taken
        };
        self.cloud.instances().into_iter().filter(is_foreign).map(taken).collect()
    }
}

#[async_trait]
impl CloudLayer for FaultyProvider {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        if self.bug != Bug::LaunchWithoutToken {
            return self.inner.launch(requests).await;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fresh = |request: &LaunchRequest| request.clone().of_batch(format!("{}-{call}", request.batch));
        let requests: Vec<LaunchRequest> = requests.iter().map(fresh).collect();
        self.inner.launch(&requests).await
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        let answer = self.inner.terminate(claim, id).await?;
        Ok(if self.bug == Bug::GoneTooSoon { Termination::Gone } else { answer })
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        if self.bug != Bug::OwnershipByName {
            return self.inner.terminate_orphan(id).await;
        }
        let instance = self.cloud.instances().into_iter().find(|instance| *instance.id == **id);
        let cluster_uid = instance.and_then(|instance| instance.tags.cluster_uid.clone()).unwrap_or_default();
        let call = Terminate { cluster_uid, id: id.to_string(), has_node_claim: true };
        match self.cloud.terminate(&call).await {
            Ok(_) => Ok(Termination::Accepted),
            Err(error) => Err(CloudError::Unavailable(error.to_string().into())),
        }
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        if self.bug == Bug::OwnershipByName {
            let ours = self.inner.list().await?;
            let all = self.foreign_instances(&ours).into_iter().chain(ours);
            let found = all.into_iter().find(|instance| instance.provider_id == *id);
            return found.ok_or_else(|| CloudError::NotFound(id.to_string().into()));
        }
        self.inner.get(id).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let mut listed = self.inner.list().await?;
        if self.bug == Bug::OwnershipByName {
            listed.extend(self.foreign_instances(&listed));
        }
        if self.bug == Bug::GhostsUnseen {
            let ghost = |name: &str| name.contains("-ghost-");
            listed.retain(|instance| !instance.claim.as_ref().is_some_and(|claim| ghost(claim.as_str())));
        }
        Ok(listed)
    }
}
