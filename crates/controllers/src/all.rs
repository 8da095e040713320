//! Every controller, one line for each part.

use std::sync::Arc;

use crate::{
    capacitybuffer, disruption, lifecycle, nodeoverlay, observability, provisioning,
    runtime::{Controller, Ctx, RunError, Shutdown},
};

/// All controllers, in the order in which they hear of a change.
#[must_use]
pub fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let mut controllers = provisioning::controllers(&ctx.settings);
    controllers.extend(lifecycle::controllers(&ctx.settings, ctx.cloud.steps()));
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

/// Runs all watches and controllers until shutdown.
///
/// # Errors
/// Where a loop ends by itself: the process should end then, and be started again.
pub async fn run(ctx: Ctx, stop: Shutdown) -> Result<(), RunError> {
    let controllers = controllers(&ctx);
    crate::runtime::run(ctx, controllers, stop).await
}
