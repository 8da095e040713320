//! How the operators of a world reach a cloud of another kind than the fake cloud.

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

/// A cloud with a provider of its own. The world's fake cloud has a copy of each instance, whose kubelet it runs.
#[async_trait]
pub trait CloudSetup: Send + Sync {
    /// The custom resource definitions of a cluster on this cloud.
    fn definitions(&self) -> &'static [Value];

    /// Loops that run for as long as the world: they copy instances into `cloud`, and follow NodeClasses.
    fn tasks(&self, client: Client, cloud: Arc<Cloud>, clock: SharedClock) -> Vec<BoxFuture<'static, ()>>;

    /// The provider of one operator.
    ///
    /// # Errors
    /// The cloud cannot be used.
    async fn provider(&self, clock: SharedClock) -> Result<Arc<dyn CloudProvider>, CloudError>;
}
