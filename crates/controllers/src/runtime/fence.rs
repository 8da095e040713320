//! The fence: a process that has lost the lease changes nothing.
//!
//! Reconciles that run when the lease is lost continue until their next call. Calls to the API server are refused by
//! [`super::ApiClient::call`], calls to the cloud here.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{
        CloudError, CloudLayer, CloudProvider, Instance, LaunchError, LaunchRequest, RegistrationHold,
        Termination,
    },
    model::{Node, NodeClaim, ProviderId},
};

use super::leader::Leadership;

const NOT_LEADING: &str = "this process is not the leader any more";

/// A cloud provider that only the leader may change.
pub(super) struct Fenced {
    inner: Arc<dyn CloudProvider>,
    leadership: Leadership,
}

impl Fenced {
    pub(super) fn new(inner: Arc<dyn CloudProvider>, leadership: Leadership) -> Self {
        Self { inner, leadership }
    }
}

#[async_trait]
impl CloudLayer for Fenced {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        if self.leadership.holds() {
            return self.inner.launch(requests).await;
        }
        // The next leader finds the result of this call by batch and attempt.
        requests.iter().map(|_| Err(LaunchError::Unknown(NOT_LEADING.into()))).collect()
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        if self.leadership.holds() {
            return self.inner.terminate(claim, id).await;
        }
        Err(CloudError::Unavailable(NOT_LEADING.into()))
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        if self.leadership.holds() {
            return self.inner.terminate_orphan(id).await;
        }
        Err(CloudError::Unavailable(NOT_LEADING.into()))
    }

    async fn before_registration(
        &self,
        claim: &NodeClaim,
        node: &Node,
    ) -> Result<Option<RegistrationHold>, CloudError> {
        if self.leadership.holds() {
            return self.inner.before_registration(claim, node).await;
        }
        Err(CloudError::Unavailable(NOT_LEADING.into()))
    }
}
