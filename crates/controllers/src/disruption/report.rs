//! What a pass came to, as metrics and events.

use fleetwright_core::{
    disruption::{Allowance, Command, Proposal},
    model::{DisruptionReason, StateNode},
};
use k8s_openapi::api::core::v1::ObjectReference;
use std::time::Duration;

use super::figures;
use crate::{
    events::{Event, regarding},
    runtime::Ctx,
};

const QUARTER_HOUR: Duration = Duration::from_secs(900);
const MINUTE: Duration = Duration::from_secs(60);

/// Tells what a pass found.
pub(super) fn proposal(ctx: &Ctx, proposal: &Proposal) {
    for allowance in &proposal.allowances {
        budget(ctx, allowance);
    }
    for (method, count) in &proposal.eligible {
        ctx.metrics.set(&figures::ELIGIBLE, &[method], as_figure(*count));
    }
    for blocked in &proposal.blocked {
        let text = capitalised(&blocked.blocker.to_string());
        for object in objects(ctx, &blocked.node) {
            ctx.recorder.publish(Event::normal(object, "DisruptionBlocked", text.clone()));
        }
    }
    for (candidate, reason) in &proposal.unconsolidatable {
        for object in objects(ctx, &candidate.node) {
            ctx.recorder.publish(
                Event::normal(object, "Unconsolidatable", reason.to_string()).quiet_for(QUARTER_HOUR),
            );
        }
    }
}

fn budget(ctx: &Ctx, allowance: &Allowance) {
    let labels = [allowance.pool.as_str(), allowance.reason.as_str()];
    ctx.metrics.set(&figures::ALLOWED, &labels, as_figure(allowance.allowed.min(allowance.total)));
    ctx.metrics.set(&figures::CONSUMING, &labels, as_figure(allowance.disrupting));
    if allowance.allowed > 0 || allowance.total == 0 {
        return;
    }
    let Some(pool) = ctx.index().pool(&allowance.pool).cloned() else { return };
    let mut text =
        format!("No allowed disruptions for disruption reason {} due to blocking budget", allowance.reason);
    if let Some(error) = &allowance.error {
        text = format!("{text}: {error}");
    }
    ctx.recorder.publish(Event::normal(regarding(&*pool), "DisruptionBlocked", text).quiet_for(MINUTE));
}

/// Tells on all machines of a command what happens to it.
pub(super) fn on_machines(ctx: &Ctx, command: &Command, reason: &'static str, text: &str) {
    for candidate in &command.candidates {
        for object in objects(ctx, &candidate.node) {
            ctx.recorder.publish(Event::normal(object, reason, text));
        }
    }
}

/// Counts a command that was carried out.
pub(super) fn carried_out(ctx: &Ctx, command: &Command) {
    let reason = reason_label(command.reason);
    ctx.metrics.inc(&figures::DECISIONS, &[command.decision().as_str(), reason, command.consolidation_type]);
    let mut pools: Vec<&str> =
        command.candidates.iter().map(|candidate| candidate.pool.name.as_str()).collect();
    pools.sort_unstable();
    pools.dedup();
    for pool in pools {
        let labels = [command.decision().as_str(), reason, command.consolidation_type, pool];
        ctx.metrics.inc(&figures::DECISIONS_BY_POOL, &labels);
    }
    let mode = if command.eventual { "eventual" } else { "graceful" };
    for candidate in &command.candidates {
        let capacity_type =
            candidate.node.label(fleetwright_core::model::labels::CAPACITY_TYPE).unwrap_or_default();
        let policy = format!("{:?}", candidate.pool.consolidation_policy);
        let labels = [reason, candidate.pool.name.as_str(), capacity_type, &policy, mode];
        ctx.metrics.inc(&figures::DISRUPTED, &labels);
        ctx.metrics.add(&figures::PODS_DISRUPTED, &labels, as_figure(candidate.pods.len()));
    }
}

/// The reason as most of Karpenter's metrics write it.
pub(super) fn reason_label(reason: DisruptionReason) -> &'static str {
    match reason {
        DisruptionReason::Underutilized => "underutilized",
        DisruptionReason::Empty => "empty",
        DisruptionReason::Drifted => "drifted",
    }
}

/// The Node and the NodeClaim of a machine, as far as they are there.
fn objects(ctx: &Ctx, machine: &StateNode) -> Vec<ObjectReference> {
    let index = ctx.index();
    let node = machine.node_name().and_then(|name| index.node(name)).map(|node| regarding(&**node));
    let claim = machine.claim_name().and_then(|name| index.claim(name)).map(|claim| regarding(&**claim));
    if claim.is_none() {
        // Machines of others are none of our business.
        return Vec::new();
    }
    node.into_iter().chain(claim).collect()
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn as_figure(count: impl TryInto<i32>) -> f64 {
    f64::from(count.try_into().unwrap_or(i32::MAX))
}
