//! Nodes that carry the mark of a command that nobody carries out any more (the process was started again, and the
//! command could not be taken over): the mark is taken off.

use fleetwright_api::labels::condition::DISRUPTION_REASON;
use fleetwright_core::model::{StateNode, labels::DISRUPTED_TAINT};

use super::{Commands, durable};
use crate::{
    patch,
    runtime::{Ctx, ReconcileError},
};

/// Takes orphaned marks off.
///
/// # Errors
/// The first that could not be taken off; the others were tried too.
pub(super) async fn unmark(
    ctx: &Ctx,
    commands: &Commands,
    nodes: &[std::sync::Arc<StateNode>],
) -> Result<(), ReconcileError> {
    let mut result = Ok(());
    for node in nodes.iter().filter(|node| is_orphan(node, commands)) {
        let done = roll_back(ctx, node).await;
        if result.is_ok() {
            result = done;
        }
    }
    result
}

fn is_orphan(node: &StateNode, commands: &Commands) -> bool {
    use fleetwright_core::model::nodeclaim::ConditionType;
    let (Some(claim), false) = (&node.claim, node.is_deleting()) else { return false };
    let tainted =
        node.node.as_ref().is_some_and(|node| node.taints.iter().any(|taint| &*taint.key == DISRUPTED_TAINT));
    let deleting = node.node.as_ref().is_some_and(|node| node.deleting.is_some());
    let marked = tainted || claim.is(ConditionType::DisruptionReason) || durable::is_named(claim);
    marked && !deleting && !commands.holds(&claim.name)
}

/// Takes the taint and the condition of a command off a node.
///
/// # Errors
/// Where the API server cannot be reached; what is gone counts as done.
pub(super) async fn roll_back(ctx: &Ctx, node: &StateNode) -> Result<(), ReconcileError> {
    if let Some(name) = node.node_name() {
        let untainted =
            patch::node_taints(ctx, name, |taints| taints.retain(|taint| taint.key != DISRUPTED_TAINT)).await;
        crate::runtime::gone_is_ok(untainted)?;
    }
    if let Some(name) = node.claim_name() {
        let cleared = patch::claim_conditions(ctx, name, |conditions| {
            // It is an independent condition, which can always be cleared.
            let _ = conditions.clear(DISRUPTION_REASON);
        });
        crate::runtime::gone_is_ok(cleared.await)?;
        durable::clear(ctx, name).await?;
    }
    Ok(())
}
