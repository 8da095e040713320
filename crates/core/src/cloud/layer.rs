//! Layers between the operator and its provider: fences, metrics, faults of a test.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{
    CloudError, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest, ProviderInfo,
    ProviderStep, RegistrationHold, Termination,
};
use crate::model::{Catalog, Node, NodeClaim, NodePool, ObservedCapacity, ProviderId};

/// A provider that wraps another one. Calls are forwarded to [`Self::inner`] unless the layer overrides them, so that no default of
/// [`CloudProvider`] replaces the inner implementation.
#[async_trait]
pub trait CloudLayer: Send + Sync + 'static {
    /// The provider behind it.
    fn inner(&self) -> &dyn CloudProvider;

    /// See [`CloudProvider::info`].
    fn info(&self) -> &ProviderInfo {
        self.inner().info()
    }

    /// See [`CloudProvider::identify`].
    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError> {
        self.inner().identify(cluster_uid).await
    }

    /// See [`CloudProvider::catalog`].
    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        self.inner().catalog(pool).await
    }

    /// See [`CloudProvider::launch`].
    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        self.inner().launch(requests).await
    }

    /// See [`CloudProvider::launch_one`].
    async fn launch_one(&self, request: &LaunchRequest) -> Result<Instance, LaunchError> {
        self.inner().launch_one(request).await
    }

    /// See [`CloudProvider::terminate`].
    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        self.inner().terminate(claim, id).await
    }

    /// See [`CloudProvider::terminate_orphan`].
    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        self.inner().terminate_orphan(id).await
    }

    /// See [`CloudProvider::get`].
    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        self.inner().get(id).await
    }

    /// See [`CloudProvider::list`].
    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        self.inner().list().await
    }

    /// See [`CloudProvider::drift`].
    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        self.inner().drift(claim).await
    }

    /// See [`CloudProvider::before_registration`].
    async fn before_registration(
        &self,
        claim: &NodeClaim,
        node: &Node,
    ) -> Result<Option<RegistrationHold>, CloudError> {
        self.inner().before_registration(claim, node).await
    }

    /// See [`CloudProvider::prices_as_of`].
    fn prices_as_of(&self) -> Option<Timestamp> {
        self.inner().prices_as_of()
    }

    /// See [`CloudProvider::use_observed_capacity`].
    fn use_observed_capacity(&self, observed: &Arc<ObservedCapacity>) {
        self.inner().use_observed_capacity(observed);
    }

    /// See [`CloudProvider::steps`].
    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        self.inner().steps()
    }
}

#[async_trait]
impl<T: CloudLayer> CloudProvider for T {
    fn info(&self) -> &ProviderInfo {
        CloudLayer::info(self)
    }

    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError> {
        CloudLayer::identify(self, cluster_uid).await
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        CloudLayer::catalog(self, pool).await
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        CloudLayer::launch(self, requests).await
    }

    async fn launch_one(&self, request: &LaunchRequest) -> Result<Instance, LaunchError> {
        CloudLayer::launch_one(self, request).await
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        CloudLayer::terminate(self, claim, id).await
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        CloudLayer::terminate_orphan(self, id).await
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        CloudLayer::get(self, id).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        CloudLayer::list(self).await
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        CloudLayer::drift(self, claim).await
    }

    async fn before_registration(
        &self,
        claim: &NodeClaim,
        node: &Node,
    ) -> Result<Option<RegistrationHold>, CloudError> {
        CloudLayer::before_registration(self, claim, node).await
    }

    fn prices_as_of(&self) -> Option<Timestamp> {
        CloudLayer::prices_as_of(self)
    }

    fn use_observed_capacity(&self, observed: &Arc<ObservedCapacity>) {
        CloudLayer::use_observed_capacity(self, observed);
    }

    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        CloudLayer::steps(self)
    }
}
