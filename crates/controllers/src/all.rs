//! Every controller, one line each.

use std::sync::Arc;

use crate::runtime::{Controller, Ctx, RunError, Shutdown};

/// All controllers.
#[must_use]
pub fn controllers(_ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    vec![]
}

/// Runs all watches and controllers until shutdown.
///
/// # Errors
/// Where a loop ends by itself: the process should end then, and be started again.
pub async fn run(ctx: Ctx, stop: Shutdown) -> Result<(), RunError> {
    let controllers = controllers(&ctx);
    crate::runtime::run(ctx, controllers, stop).await
}
