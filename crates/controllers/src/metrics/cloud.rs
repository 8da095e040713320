//! Metrics of calls to the cloud, under Karpenter's names, and the provider wrapper that updates them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{
        CloudError, CloudLayer, CloudProvider, Drift, Identity, Instance, LaunchError, LaunchRequest,
        Termination,
    },
    model::{Catalog, NodeClaim, NodePool, ProviderId},
};

use super::{Family, Metrics, current_controller};

/// Duration of calls.
pub const DURATION: Family = Family::durations(
    "karpenter_cloudprovider_duration_seconds",
    &["controller", "method", "provider"],
    "Duration of calls to the cloud provider, by controller and method",
);
/// Failed calls.
pub const ERRORS: Family = Family::counter(
    "karpenter_cloudprovider_errors_total",
    &["controller", "method", "provider", "error"],
    "Number of calls to the cloud provider that failed, by controller, method and kind of error",
);

/// A provider whose calls are measured.
pub(crate) struct Metered {
    pub(crate) cloud: Arc<dyn CloudProvider>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: SharedClock,
}

impl Metered {
    /// Awaits a call and records its duration and errors.
    async fn call<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = T>,
        errors: impl Fn(&T) -> Vec<&'static str>,
    ) -> T {
        let began = self.clock.now();
        let answer = call.await;
        let took = Duration::try_from(self.clock.now().duration_since(began)).unwrap_or_default();
        let (controller, provider) = (current_controller(), &*self.cloud.info().name);
        self.metrics.observe(&DURATION, &[controller, method, provider], took.as_secs_f64());
        for error in errors(&answer) {
            self.metrics.inc(&ERRORS, &[controller, method, provider, error]);
        }
        answer
    }
}

fn of_result<T>(result: &Result<T, CloudError>) -> Vec<&'static str> {
    result.as_ref().err().map(error_label).into_iter().collect()
}

/// Karpenter's name of the error; empty if Karpenter has no type for it.
fn error_label(error: &CloudError) -> &'static str {
    match error {
        CloudError::NotFound(_) => "NodeClaimNotFoundError",
        CloudError::NodeClassNotReady(_) => "NodeClassNotReadyError",
        CloudError::NotOwned { .. } => "NotOwnedError",
        CloudError::RateLimited { .. } => "RateLimitedError",
        CloudError::Unauthorized { .. } => "UnauthorizedError",
        _ => "",
    }
}

fn launch_label(error: &LaunchError) -> &'static str {
    match error {
        LaunchError::InsufficientCapacity(_) | LaunchError::QuotaExceeded { .. } => {
            "InsufficientCapacityError"
        }
        LaunchError::NodeClassNotReady(_) => "NodeClassNotReadyError",
        LaunchError::Failed { .. } => "CreateError",
        LaunchError::RateLimited { .. } => "RateLimitedError",
        _ => "",
    }
}

#[async_trait]
impl CloudLayer for Metered {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.cloud
    }

    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError> {
        self.call("Identify", self.cloud.identify(cluster_uid), of_result).await
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        self.call("GetInstanceTypes", self.cloud.catalog(pool), of_result).await
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let errors = |answers: &Vec<Result<Instance, LaunchError>>| {
            answers.iter().filter_map(|answer| answer.as_ref().err().map(launch_label)).collect()
        };
        self.call("Create", self.cloud.launch(requests), errors).await
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        self.call("Delete", self.cloud.terminate(claim, id), of_result).await
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        self.call("Delete", self.cloud.terminate_orphan(id), of_result).await
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        self.call("Get", self.cloud.get(id), of_result).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        self.call("List", self.cloud.list(), of_result).await
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        self.call("IsDrifted", self.cloud.drift(claim), of_result).await
    }
}
