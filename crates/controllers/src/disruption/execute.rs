//! Starting a command: mark the nodes, look at them live, create what replaces them.

use std::{sync::Arc, time::Duration};

use fleetwright_api::{self as api, labels::condition::DISRUPTION_REASON};
use fleetwright_core::{
    disruption::{Candidate, Command, replaced, returned},
    model::{ClaimName, Str, labels::DISRUPTED_TAINT},
};
use fleetwright_state::{Key, intents::CommandIntent};
use k8s_openapi::api::core::v1::Taint;

use super::{Commands, Running, durable, figures, orphans, queue, report};
use crate::{
    patch,
    provisioning::{self, LimitExceeded},
    runtime::{Ctx, ReconcileError},
};

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStarted {
    /// What replaces its nodes has no room any more: nothing was touched. The next pass decides on what there is now.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// As many NodeClaims were created of late as may be: nothing was touched.
    #[error("as many nodeclaims were created of late as may be; the next may be in {0:?}")]
    Rate(Duration),
    /// A call failed. Everything is rolled back, as far as the API server allows; what is left of a mark is taken off by the
    /// next pass.
    #[error(transparent)]
    Failed(#[from] ReconcileError),
}

/// Starts `command`: from here on it is seen through, or rolled back, by the queue.
///
/// # Errors
/// Where it could not be started.
pub(super) async fn start(ctx: &Ctx, commands: &Commands, command: Command) -> Result<(), NotStarted> {
    ctx.rates.create(ctx.steady(), command.replacements.len()).map_err(NotStarted::Rate)?;
    let id: Str = ctx.names.suffix(10).into();
    let mut claims = Vec::with_capacity(command.replacements.len());
    for (at, new_claim) in command.replacements.iter().enumerate() {
        let claim = provisioning::replacement(ctx, new_claim, &format!("{id}-{at}"));
        let mut claim = claim
            .ok_or_else(|| ReconcileError::Other(format!("nodepool {} is gone", new_claim.pool.name)))?;
        let now = ctx.now();
        let (replaced, returned) = (replaced(&command.candidates, now), returned(&command.candidates, now));
        durable::name_command(&mut claim, &id, &replaced, returned);
        claims.push(claim);
    }
    let named = |claim: &api::NodeClaim| ClaimName::from(claim.metadata.name.clone().unwrap_or_default());
    let replacements: Vec<ClaimName> = claims.iter().map(named).collect();
    let coming = replacements.iter().map(|name| name.as_str()).zip(&command.replacements);
    let leaving = command.candidates.iter().filter_map(|candidate| candidate.node.claim_name());
    provisioning::reserve(&mut ctx.index(), coming, leaving)?;
    let (since, started) = (ctx.steady(), ctx.now());
    let running = Running { replacements, command: Arc::new(command), since, started };
    announce(ctx, commands, &id, running.clone());
    tracing::info!(command = %running.command, command_id = %id, "disrupting node(s)");
    match mark_and_create(ctx, &id, &running, claims).await {
        Ok(replacements) => {
            announce(ctx, commands, &id, Running { replacements, ..running.clone() });
            report::carried_out(ctx, &running.command);
            ctx.enqueue(queue::NAME, Key::cluster(id));
            Ok(())
        }
        Err(error) => {
            // What was not written needs no room any more.
            running.replacements.iter().for_each(|name| ctx.index().end_creation(name));
            roll_back(ctx, commands, &id).await;
            Err(error.into())
        }
    }
}

/// One entry holds both sides: no snapshot sees the nodes gone without what replaces them, or the reverse.
fn announce(ctx: &Ctx, commands: &Commands, id: &Str, running: Running) {
    let candidates = running.command.candidates.iter();
    let candidates = candidates.filter_map(|candidate| candidate.node.claim_name().cloned()).collect();
    let intent = CommandIntent { candidates, replacements: running.replacements.clone() };
    ctx.index().begin_command(id.clone(), intent);
    commands.insert(id.clone(), running);
}

/// Marks the nodes, then creates what replaces them; returns the names that those got.
async fn mark_and_create(
    ctx: &Ctx,
    id: &str,
    running: &Running,
    claims: Vec<api::NodeClaim>,
) -> Result<Vec<ClaimName>, ReconcileError> {
    // All are named before the first is marked: the next process can tell whether the command is whole.
    for candidate in &running.command.candidates {
        durable::write(ctx, candidate, id, running).await?;
    }
    for candidate in &running.command.candidates {
        mark(ctx, &running.command, candidate).await?;
    }
    let reason = report::reason_label(running.command.reason);
    let mut names = Vec::with_capacity(claims.len());
    for (claim, new_claim) in claims.into_iter().zip(&running.command.replacements) {
        let name = provisioning::write_replacement(ctx, claim, new_claim, reason).await?;
        names.push(ClaimName::from(name));
    }
    Ok(names)
}

/// Taints the node, so that nothing new lands on it, and says on its claim why.
async fn mark(ctx: &Ctx, command: &Command, candidate: &Candidate) -> Result<(), ReconcileError> {
    if let Some(name) = candidate.node.node_name() {
        patch::node_taints(ctx, name, |taints| {
            if !taints.iter().any(|taint| taint.key == DISRUPTED_TAINT) {
                let (key, effect) = (DISRUPTED_TAINT.to_owned(), "NoSchedule".to_owned());
                taints.push(Taint { key, effect, ..Taint::default() });
            }
        })
        .await?;
    }
    let reason = command.reason.as_str();
    let Some(name) = candidate.node.claim_name() else { return Ok(()) };
    patch::claim_conditions(ctx, name, |conditions| {
        conditions.set_true_with_reason(DISRUPTION_REASON, reason, reason);
    })
    .await
}

/// Takes a command back: the marks go, the nodes stay. Replacements that were created already stay too: pods may be
/// on their way to them, and as empty nodes they go by themselves.
pub(super) async fn roll_back(ctx: &Ctx, commands: &Commands, id: &str) {
    let Some(running) = commands.remove(id) else { return };
    let command = &running.command;
    let labels =
        [running.decision().as_str(), report::reason_label(command.reason), command.consolidation_type];
    ctx.metrics.inc(&figures::QUEUE_FAILURES, &labels);
    for candidate in &command.candidates {
        let claim = candidate.node.claim_name().and_then(|name| ctx.index().claim_model(name).cloned());
        if claim.is_some_and(|claim| durable::is_anothers(&claim, id)) {
            continue;
        }
        if let Err(error) = orphans::roll_back(ctx, &candidate.node).await {
            // The next pass finds the mark without a command and takes it off.
            tracing::error!(%error, Node.name = candidate.name(), "rolling back a disruption command");
        }
    }
    ctx.index().end_command(id);
}
