//! Commands outlive the process: each node says on its NodeClaim which command takes it, before anything else happens
//! to it, and each replacement says which command it is for.
//!
//! The next process takes a command over where all of it is there, else all of it is rolled back as orphans: a command
//! that was cut off while its nodes were being named or marked does not go on with some of them. Nothing tainted
//! is ever forgotten: what says that it belongs to a command, or looks like it, is one or the other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetwright_api::{
    self as api,
    labels::{DISRUPTION_COMMAND, REPLACES},
};
use fleetwright_core::{
    disruption::{Candidate, Command, known, method},
    model::{
        ClaimName, DisruptionReason, NodeClaim, Snapshot, Str,
        labels::{REPLACED, RETURNED},
    },
};
use fleetwright_state::{Key, intents::CommandIntent};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Commands, Running, queue};
use crate::{
    patch,
    runtime::{Ctx, ReconcileError, later},
};

/// The call that names a command.
const NAMING: &str = "name disruption command";

/// A command without replacements that is older was decided on a cluster that is another one by now.
const STALE: Duration = Duration::from_secs(60);

/// What stands on a node that a command takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    /// The command.
    id: String,
    /// Name of its method.
    method: String,
    /// When it was started.
    started: String,
    /// How many NodeClaims it creates.
    replacements: usize,
    /// How many nodes it takes.
    #[serde(default)]
    nodes: usize,
}

/// Whether a claim says that a command takes it.
pub(super) fn is_named(claim: &NodeClaim) -> bool {
    claim.annotations.contains_key(DISRUPTION_COMMAND)
}

/// Whether a claim says that another command than `id` takes it: another leader's, whose marks are its own.
pub(super) fn is_anothers(claim: &NodeClaim, id: &str) -> bool {
    claim.annotations.get(DISRUPTION_COMMAND).is_some_and(|text| id_of(text).is_some_and(|known| known != id))
}

/// The command that a record names; `None` where it cannot be read.
fn id_of(text: &str) -> Option<String> {
    serde_json::from_str::<Record>(text).ok().map(|record| record.id)
}

/// Says on a replacement which command it is for, what it comes in place of, and where that came back after a
/// consolidation, when.
pub(super) fn name_command(
    claim: &mut api::NodeClaim,
    id: &str,
    replaced: &str,
    returned: Option<Timestamp>,
) {
    let annotations = claim.metadata.annotations.get_or_insert_default();
    annotations.insert(REPLACES.to_owned(), id.to_owned());
    annotations.insert(REPLACED.to_owned(), replaced.to_owned());
    if let Some(at) = returned {
        annotations.insert(RETURNED.to_owned(), at.as_second().to_string());
    }
}

/// Says on a node which command takes it.
///
/// # Errors
/// Where the API server cannot be reached, the claim is gone, or it names another command.
pub(super) async fn write(
    ctx: &Ctx,
    candidate: &Candidate,
    id: &str,
    running: &Running,
) -> Result<(), ReconcileError> {
    let Some(name) = candidate.node.claim_name() else { return Ok(()) };
    let record = Record {
        id: id.to_owned(),
        method: running.command.method.to_owned(),
        started: running.started.to_string(),
        replacements: running.command.replacements.len(),
        nodes: running.command.candidates.len(),
    };
    let text = serde_json::to_string(&record).map_err(|error| ReconcileError::Other(error.to_string()))?;
    let Some(claim) = ctx.index().claim(name).cloned() else {
        return Err(ReconcileError::NotFound { what: NAMING });
    };
    patch::annotate(ctx, claim, DISRUPTION_COMMAND, |known| {
        // What another leader named meanwhile is its own; what nobody can read is nobody's.
        let others = known.filter(|known| id_of(known).is_some_and(|known| known != id));
        Some(others.unwrap_or(&text).to_owned())
    })
    .await?;
    let is_ours = |claim: &NodeClaim| {
        claim.annotations.get(DISRUPTION_COMMAND).and_then(|text| id_of(text)).as_deref() == Some(id)
    };
    if ctx.index().claim_model(name).is_some_and(|claim| is_ours(claim)) {
        return Ok(());
    }
    // Whoever takes the command back has to see whose the node is.
    ctx.observe(ctx.call(NAMING, ctx.cluster_api::<api::NodeClaim>().get(name)).await?);
    Err(ReconcileError::Conflict { what: NAMING })
}

/// Takes the word off a node again.
///
/// # Errors
/// Where the API server cannot be reached.
pub(super) async fn clear(ctx: &Ctx, name: &str) -> Result<(), ReconcileError> {
    let Some(claim) = ctx.index().claim(name).cloned() else { return Ok(()) };
    let of = |claim: &api::NodeClaim| claim.metadata.annotations.as_ref()?.get(DISRUPTION_COMMAND).cloned();
    let Some(read) = of(&claim) else { return Ok(()) };
    // Only what was read: what came in its place is of another command.
    patch::annotate(ctx, claim, DISRUPTION_COMMAND, |known| {
        known.filter(|known| *known != read).map(str::to_owned)
    })
    .await
}

/// Takes over the commands that an earlier process left behind, where all that they need is there.
pub(super) fn restore(ctx: &Ctx, commands: &Commands) {
    let now = ctx.now();
    let snapshot = ctx.index().snapshot(now);
    for (id, (record, nodes)) in recorded(&snapshot) {
        let Some(running) = taken_over(&snapshot, &record, &nodes, &id, now, ctx.steady()) else {
            tracing::info!(command_id = %id, "rolling back a disruption command of an earlier process");
            continue;
        };
        tracing::info!(command = %running.command, command_id = %id, "taking over a disruption command");
        ctx.index().begin_command(id.clone(), intent(&running));
        commands.insert(id.clone(), running);
        ctx.enqueue(queue::NAME, Key::cluster(id));
    }
}

/// The commands that stand on the nodes of a snapshot and go on, by id: what the next process would take over, and what
/// whoever looks from outside can know of the process at hand.
#[must_use]
pub fn under_way(snapshot: &Snapshot, now: Timestamp) -> Vec<(Str, CommandIntent)> {
    let recorded = recorded(snapshot).into_iter();
    let going_on = recorded.filter_map(|(id, (record, nodes))| {
        let running = taken_over(snapshot, &record, &nodes, &id, now, now)?;
        Some((id, intent(&running)))
    });
    going_on.collect()
}

fn intent(running: &Running) -> CommandIntent {
    let names =
        running.command.candidates.iter().filter_map(|candidate| candidate.node.claim_name().cloned());
    CommandIntent { candidates: names.collect(), replacements: running.replacements.clone() }
}

/// The commands that nodes name, with the indices of those nodes.
fn recorded(snapshot: &Snapshot) -> BTreeMap<Str, (Record, Vec<usize>)> {
    let mut found: BTreeMap<Str, (Record, Vec<usize>)> = BTreeMap::new();
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let text = node.claim.as_ref().and_then(|claim| claim.annotations.get(DISRUPTION_COMMAND));
        // What cannot be read is an orphan.
        let Some(record) = text.and_then(|text| serde_json::from_str::<Record>(text).ok()) else { continue };
        found.entry(record.id.as_str().into()).or_insert_with(|| (record, Vec::new())).1.push(index);
    }
    found
}

/// The command as it goes on, taken over at `since` of the steady clock; `None` where it has to be rolled back.
fn taken_over(
    snapshot: &Snapshot,
    record: &Record,
    nodes: &[usize],
    id: &str,
    now: Timestamp,
    since: Timestamp,
) -> Option<Running> {
    let method = method(&record.method)?;
    let started: Timestamp = record.started.parse().ok()?;
    let claims = snapshot.nodes.iter().filter_map(|node| node.claim.as_ref());
    let ours = claims.filter(|claim| claim.annotations.get(REPLACES).is_some_and(|of| &**of == id));
    let replacements: Vec<ClaimName> = ours.map(|claim| claim.name.clone()).collect();
    let candidates: Vec<Candidate> = nodes.iter().filter_map(|index| known(snapshot, *index)).collect();
    let going = |index: &usize| snapshot.nodes[*index].claim.as_ref().is_some_and(|c| c.deleting.is_some());
    // Replacements are created once every node is named, and nodes go once all replacements are ready: either
    // says that no node is missing but those that are gone.
    let named = record.replacements > 0 || nodes.len() >= record.nodes || nodes.iter().any(going);
    let complete = named && replacements.len() == record.replacements;
    // Two clocks: where they differ this takes back what need not be, and lets go on what is looked at again before it is
    // carried out. How long a command may still take goes by this process alone.
    let stale = record.replacements == 0 && later(started, STALE) < now;
    if !complete || stale || candidates.len() < nodes.len() {
        return None;
    }
    let reason: DisruptionReason = method.reason();
    let command = Command {
        method: method.name(),
        consolidation_type: method.consolidation_type(),
        reason,
        candidates,
        replacements: Vec::new(),
        eventual: method.is_eventual(),
        judged: Vec::new(),
    };
    Some(Running { command: Arc::new(command), replacements, since, started })
}
