//! Every controller, one line per module.

use std::sync::Arc;

use fleetwright_core::cloud::ProviderStep;

use crate::{
    capacitybuffer, disruption,
    nodeclaim::{self, LifecycleCache},
    nodeoverlay, nodepool, observability, provider_steps, provisioning,
    runtime::{Controller, Ctx, RunError, Shutdown},
    settings::Settings,
};

/// All controllers, in the order in which changes reach them.
#[must_use]
pub fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let mut controllers = provisioning::controllers(&ctx.settings);
    controllers.extend(claim_controllers(&ctx.settings, ctx.cloud.steps()));
    if ctx.settings.gates.capacity_buffer {
        controllers.push(Arc::new(capacitybuffer::BufferController));
    }
    if ctx.settings.gates.node_overlay {
        controllers.push(Arc::new(nodeoverlay::OverlayStatus));
    }
    controllers.extend(disruption::controllers());
    controllers.extend(observability::controllers(&ctx.settings));
    controllers
}

/// The controllers of a NodeClaim's life and of its NodePool's status, and those that run the steps of the provider.
pub(crate) fn claim_controllers(
    settings: &Settings,
    steps: Vec<Arc<dyn ProviderStep>>,
) -> Vec<Arc<dyn Controller>> {
    let cache = Arc::new(LifecycleCache::default());
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(nodeclaim::Lifecycle(cache.clone())),
        Arc::new(nodeclaim::NodeTermination(cache.clone())),
        Arc::new(nodeclaim::EvictionQueue(cache.clone())),
        Arc::new(nodeclaim::Expiration(cache.clone())),
        Arc::new(nodeclaim::GarbageCollection::new(cache.clone())),
        Arc::new(nodeclaim::Consistency(cache.clone())),
        Arc::new(nodeclaim::Disruption(cache.clone())),
        Arc::new(nodeclaim::PodEvents),
        Arc::new(nodeclaim::Validation),
        Arc::new(nodeclaim::ClaimHydration),
        Arc::new(nodeclaim::NodeHydration),
        Arc::new(nodepool::Hash),
        Arc::new(nodepool::Counter),
        Arc::new(nodepool::Validation),
        Arc::new(nodepool::Readiness),
        Arc::new(nodepool::Protection),
        Arc::new(nodepool::RegistrationHealth(cache.clone())),
        Arc::new(nodepool::ObservedReaper),
        Arc::new(nodeclaim::InitializationDeadline(cache.clone())),
    ];
    if settings.gates.static_capacity {
        all.push(Arc::new(nodepool::StaticProvisioning::default()));
        all.push(Arc::new(nodepool::StaticDeprovisioning));
    }
    if settings.gates.node_repair {
        all.push(Arc::new(nodeclaim::Repair(cache.clone())));
    }
    all.extend(provider_steps::controllers(&cache, steps));
    all
}

/// Runs all watches and controllers until shutdown.
///
/// # Errors
/// If a loop ends without a shutdown: the process should then exit and be restarted.
pub async fn run(ctx: Ctx, stop: Shutdown) -> Result<(), RunError> {
    let controllers = controllers(&ctx);
    crate::runtime::run(ctx, controllers, stop).await
}
