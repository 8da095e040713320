//! Nodes with the marks of a command that is not executed (an earlier process started it, and it could not be taken over):
//! the marks are removed.

use std::sync::Arc;

use fleetwright_api::labels::condition::DISRUPTION_REASON;
use fleetwright_core::{
    disruption::is_marked,
    model::{StateNode, labels::DISRUPTED_TAINT},
};

use super::{commands::Commands, durable};
use crate::{
    patch::Patches,
    runtime::{Cluster, ReconcileError, ignore_not_found},
};

/// Removes orphaned marks.
///
/// # Errors
/// The first failed write; all nodes are tried.
pub(super) async fn unmark(
    cluster: &Cluster,
    patches: &Patches,
    commands: &Commands,
    nodes: &[Arc<StateNode>],
) -> Result<(), ReconcileError> {
    let is_orphan = |node: &&Arc<StateNode>| {
        let has_record = node.claim.as_ref().is_some_and(|claim| durable::has_record(claim));
        let is_held = node.claim_name().is_some_and(|name| commands.holds(name));
        is_marked(node, has_record) && !is_held
    };
    let mut result = Ok(());
    for node in nodes.iter().filter(is_orphan) {
        let done = roll_back(cluster, patches, node).await;
        if result.is_ok() {
            result = done;
        }
    }
    result
}

/// Removes the taint, the condition and the record of a command from a node.
///
/// # Errors
/// If the API server cannot be reached. An object that does not exist counts as done.
pub(super) async fn roll_back(
    cluster: &Cluster,
    patches: &Patches,
    node: &StateNode,
) -> Result<(), ReconcileError> {
    if let Some(name) = node.node_name() {
        let untainted =
            patches.node_taints(name, |taints| taints.retain(|taint| taint.key != DISRUPTED_TAINT)).await;
        ignore_not_found(untainted)?;
    }
    if let Some(name) = node.claim_name() {
        let cleared = patches.claim_conditions(name, |conditions| {
            // It is an independent condition, which can always be cleared.
            let _ = conditions.clear(DISRUPTION_REASON);
        });
        ignore_not_found(cleared.await)?;
        durable::clear(cluster, patches, name).await?;
    }
    Ok(())
}
