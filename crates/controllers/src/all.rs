//! Every controller, one line per module.

use std::sync::Arc;

use fleetwright_core::cloud::ProviderStep;

use crate::{
    capacitybuffer, disruption,
    nodeclaim::{self, LifecycleCache},
    nodeoverlay, nodepool, observability, provider_steps, provisioning,
    runtime::{Controller, Ctx, RunError, Shutdown},
};

/// All controllers, in the order in which changes reach them.
#[must_use]
pub fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let mut controllers = provisioning::controllers(ctx);
    controllers.extend(claim_controllers(ctx, ctx.cloud.steps()));
    if ctx.settings.gates.capacity_buffer {
        controllers.push(Arc::new(capacitybuffer::BufferController::new(ctx)));
    }
    if ctx.settings.gates.node_overlay {
        controllers.push(Arc::new(nodeoverlay::OverlayStatus::new(ctx)));
    }
    controllers.extend(disruption::controllers(ctx));
    controllers.extend(observability::controllers(ctx));
    controllers
}

/// The controllers of a NodeClaim's life and of its NodePool's status, and those that run the steps of the provider.
pub(crate) fn claim_controllers(ctx: &Ctx, steps: Vec<Arc<dyn ProviderStep>>) -> Vec<Arc<dyn Controller>> {
    let cache = Arc::new(LifecycleCache::default());
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(nodeclaim::Lifecycle::new(ctx, &cache)),
        Arc::new(nodeclaim::NodeTermination::new(ctx, &cache)),
        Arc::new(nodeclaim::EvictionQueue::new(ctx, &cache)),
        Arc::new(nodeclaim::Expiration::new(ctx, &cache)),
        Arc::new(nodeclaim::GarbageCollection::new(ctx, &cache)),
        Arc::new(nodeclaim::Consistency::new(ctx, &cache)),
        Arc::new(nodeclaim::Disruption::new(ctx, &cache)),
        Arc::new(nodeclaim::PodEvents::new(ctx)),
        Arc::new(nodeclaim::Validation::new(ctx)),
        Arc::new(nodeclaim::ClaimHydration::new(ctx)),
        Arc::new(nodeclaim::NodeHydration::new(ctx)),
        Arc::new(nodepool::Hash::new(ctx)),
        Arc::new(nodepool::Counter::new(ctx)),
        Arc::new(nodepool::Validation::new(ctx)),
        Arc::new(nodepool::Readiness::new(ctx)),
        Arc::new(nodepool::Protection::new(ctx)),
        Arc::new(nodepool::RegistrationHealth::new(ctx, &cache)),
        Arc::new(nodepool::ObservedReaper::new(ctx)),
        Arc::new(nodepool::CapacityObserver::new(ctx)),
        Arc::new(nodepool::FeatureStatus::new(ctx)),
        Arc::new(nodeclaim::InitializationDeadline::new(ctx, &cache)),
    ];
    if ctx.settings.gates.static_capacity {
        all.push(Arc::new(nodepool::StaticProvisioning::new(ctx)));
        all.push(Arc::new(nodepool::StaticDeprovisioning::new(ctx)));
    }
    if ctx.settings.gates.node_repair {
        all.push(Arc::new(nodeclaim::Repair::new(ctx, &cache)));
    }
    all.extend(provider_steps::controllers(ctx, &cache, steps));
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
