//! The cloud of a shadow: instance types, and nothing that could launch or terminate.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{
        CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, ProviderInfo,
        Termination,
    },
    model::{Catalog, NodeClaim, NodePool, ProviderId},
};

/// The instance types of NodePools, without a connection to a cloud.
#[async_trait]
pub trait InstanceTypeSource: Send + Sync + 'static {
    /// The kinds of NodeClass, and what labels mean. The same at every call.
    fn info(&self) -> &ProviderInfo;

    /// The instance types of a NodePool.
    ///
    /// # Errors
    /// There are none.
    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError>;
}

const NO_CLOUD: &str = "shadow mode has no cloud";

/// A provider of instance types only.
pub(super) struct NoCloud(pub(super) Arc<dyn InstanceTypeSource>);

#[async_trait]
impl CloudProvider for NoCloud {
    fn info(&self) -> &ProviderInfo {
        self.0.info()
    }

    async fn identify(&self, _cluster_uid: &str) -> Result<Identity, CloudError> {
        Ok(Identity::Unproven(NO_CLOUD.into()))
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        self.0.catalog(pool).await
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        requests.iter().map(|_| Err(LaunchError::Unknown(NO_CLOUD.into()))).collect()
    }

    async fn terminate(&self, _claim: &NodeClaim, _id: &ProviderId) -> Result<Termination, CloudError> {
        Err(CloudError::Unavailable(NO_CLOUD.into()))
    }

    async fn terminate_orphan(&self, _id: &ProviderId) -> Result<Termination, CloudError> {
        Err(CloudError::Unavailable(NO_CLOUD.into()))
    }

    async fn get(&self, _id: &ProviderId) -> Result<Instance, CloudError> {
        Err(CloudError::Unavailable(NO_CLOUD.into()))
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        Err(CloudError::Unavailable(NO_CLOUD.into()))
    }

    async fn drift(&self, _claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        Ok(None)
    }
}
