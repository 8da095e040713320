//! Every controller, one line each.

use std::sync::Arc;

use crate::{
    disruption, lifecycle,
    provisioning::{CatalogController, Inbox, NodeTrigger, PodTrigger, Provisioner},
    runtime::{Controller, Ctx, RunError, Shutdown},
};

/// All controllers, in the order in which they hear of a change.
#[must_use]
pub fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let inbox = Inbox::new(&ctx.settings);
    let mut controllers: Vec<Arc<dyn Controller>> = vec![
        Arc::new(CatalogController),
        Arc::new(PodTrigger(inbox.clone())),
        Arc::new(NodeTrigger(inbox.clone())),
        Arc::new(Provisioner::new(inbox)),
    ];
    controllers.extend(lifecycle::controllers());
    controllers.extend(disruption::controllers());
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
