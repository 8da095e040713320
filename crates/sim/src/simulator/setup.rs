//! Replaces the fake cloud of a simulator by another cloud.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{CloudError, CloudProvider},
};
use fleetwright_fake::Cloud;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;

/// A cloud with its own provider. The simulator's fake cloud has a copy of each instance and runs its kubelet.
#[async_trait]
pub trait CloudSetup: Send + Sync {
    /// The custom resource definitions of a cluster on this cloud.
    fn definitions(&self) -> &'static [Value];

    /// Loops for the simulator's lifetime: they copy instances into `cloud`, and watch NodeClasses.
    fn tasks(&self, client: Client, cloud: Arc<Cloud>, clock: SharedClock) -> Vec<BoxFuture<'static, ()>>;

    /// The provider of one operator.
    ///
    /// # Errors
    /// If the cloud cannot be used.
    async fn provider(&self, clock: SharedClock) -> Result<Arc<dyn CloudProvider>, CloudError>;
}
