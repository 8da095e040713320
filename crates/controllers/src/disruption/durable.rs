//! Commands survive a restart: the NodeClaim of each candidate has a record of its command before anything else
//! happens to the node, and each replacement has the id of its command in its lineage.
//!
//! The next process resumes a complete command and rolls back any other: a command
//! that was interrupted while its candidates were recorded or marked does not continue with some of them. No taint is
//! left behind: a marked node belongs to a command, or it is an orphan whose marks are removed.

use std::collections::BTreeMap;

use fleetwright_api::{self as api, labels::DISRUPTION_COMMAND};
use fleetwright_core::{
    disruption::{Candidate, CommandRecord, StartedCommand, resume},
    model::{NodeClaim, Snapshot, Str},
};
use fleetwright_state::{Key, intents::CommandIntent};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::commands::{Commands, QUEUE};
use crate::{
    patch::Patches,
    runtime::decisions::Decisions,
    runtime::{ApiClient, Clocks, Cluster, ReconcileError},
};

/// The call that writes a record.
const WRITE_RECORD: &str = "name disruption command";

/// The record of a command in the annotation of a candidate.
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
    /// How many nodes it removes.
    #[serde(default)]
    nodes: usize,
}

/// Whether a NodeClaim has the record of a command.
pub(super) fn has_record(claim: &NodeClaim) -> bool {
    claim.annotations.contains_key(DISRUPTION_COMMAND)
}

/// Whether a NodeClaim has the record of a command other than `id`. Another leader wrote it and owns the marks.
pub(super) fn belongs_to_other_command(claim: &NodeClaim, id: &str) -> bool {
    claim.annotations.get(DISRUPTION_COMMAND).is_some_and(|text| id_of(text).is_some_and(|known| known != id))
}

/// The id of the command in a record; `None` if the record cannot be parsed.
fn id_of(text: &str) -> Option<String> {
    serde_json::from_str::<Record>(text).ok().map(|record| record.id)
}

/// Writes the record of a command to the NodeClaim of a candidate.
///
/// # Errors
/// If the API server cannot be reached, the NodeClaim does not exist, or it has the record of another command.
pub(super) async fn write(
    client: &ApiClient,
    cluster: &Cluster,
    patches: &Patches,
    candidate: &Candidate,
    id: &str,
    started: &StartedCommand,
) -> Result<(), ReconcileError> {
    let Some(name) = candidate.node.claim_name() else { return Ok(()) };
    let record = Record {
        id: id.to_owned(),
        method: started.command.method.name.to_owned(),
        started: started.started.to_string(),
        replacements: started.command.replacements.len(),
        nodes: started.command.candidates.len(),
    };
    let text = serde_json::to_string(&record).map_err(|error| ReconcileError::Other(error.to_string()))?;
    let Some(claim) = cluster.index().claim(name).cloned() else {
        return Err(ReconcileError::NotFound { what: WRITE_RECORD });
    };
    patches
        .annotate(claim, DISRUPTION_COMMAND, |known| {
            // A record of another leader is not overwritten; one that cannot be parsed is.
            let others = known.filter(|known| id_of(known).is_some_and(|known| known != id));
            Some(others.unwrap_or(&text).to_owned())
        })
        .await?;
    let is_ours = |claim: &NodeClaim| {
        claim.annotations.get(DISRUPTION_COMMAND).and_then(|text| id_of(text)).as_deref() == Some(id)
    };
    if cluster.index().claim_model(name).is_some_and(|claim| is_ours(claim)) {
        return Ok(());
    }
    // The rollback checks which command the record names.
    cluster.observe(client.call(WRITE_RECORD, client.cluster::<api::NodeClaim>().get(name)).await?);
    Err(ReconcileError::Conflict { what: WRITE_RECORD })
}

/// Removes the record from a NodeClaim.
///
/// # Errors
/// If the API server cannot be reached.
pub(super) async fn clear(cluster: &Cluster, patches: &Patches, name: &str) -> Result<(), ReconcileError> {
    let Some(claim) = cluster.index().claim(name).cloned() else { return Ok(()) };
    let of = |claim: &api::NodeClaim| claim.metadata.annotations.as_ref()?.get(DISRUPTION_COMMAND).cloned();
    let Some(read) = of(&claim) else { return Ok(()) };
    // Removes only the record that was read: a newer one belongs to another command.
    patches
        .annotate(claim, DISRUPTION_COMMAND, |known| known.filter(|known| *known != read).map(str::to_owned))
        .await
}

/// Resumes the complete commands of an earlier process.
pub(super) fn restore(cluster: &Cluster, clocks: &Clocks, commands: &Commands, decisions: &Decisions) {
    let now = clocks.now();
    let snapshot = cluster.index().snapshot(now);
    for (id, (record, nodes)) in recorded_commands(&snapshot) {
        let Some(started) = resume(&snapshot, &record, &nodes, now, clocks.steady()) else {
            tracing::info!(command_id = %id, "rolling back a disruption command of an earlier process");
            continue;
        };
        let command = started.command.text(snapshot.currency);
        tracing::info!(command, command_id = %id, "taking over a disruption command");
        cluster.index().begin_command(id.clone(), intent(&started));
        decisions.command_resumed(&id, &started, &snapshot);
        commands.insert(id.clone(), started);
        cluster.enqueue(QUEUE, Key::cluster(id));
    }
}

/// The commands on the nodes of a snapshot that a new process would resume, by id: all that
/// an observer can know of the commands of the current process.
#[must_use]
pub fn resumable_commands(snapshot: &Snapshot, now: Timestamp) -> Vec<(Str, CommandIntent)> {
    let recorded = recorded_commands(snapshot).into_iter();
    let continuing = recorded.filter_map(|(id, (record, nodes))| {
        let started = resume(snapshot, &record, &nodes, now, now)?;
        Some((id, intent(&started)))
    });
    continuing.collect()
}

/// The nodes of a command for the index.
pub(super) fn intent(started: &StartedCommand) -> CommandIntent {
    let candidates = started.candidate_claims().cloned().collect();
    CommandIntent { candidates, replacements: started.replacements.clone() }
}

/// The records of commands on nodes by id, with the indices of those nodes.
#[must_use]
pub fn recorded_commands(snapshot: &Snapshot) -> BTreeMap<Str, (CommandRecord, Vec<usize>)> {
    let mut found: BTreeMap<Str, (CommandRecord, Vec<usize>)> = BTreeMap::new();
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let text = node.claim.as_ref().and_then(|claim| claim.annotations.get(DISRUPTION_COMMAND));
        // A node with an unreadable record is an orphan.
        let Some(record) = text.and_then(|text| serde_json::from_str::<Record>(text).ok()) else { continue };
        let record = CommandRecord::from(record);
        found.entry(record.id.clone()).or_insert_with(|| (record, Vec::new())).1.push(index);
    }
    found
}

impl From<Record> for CommandRecord {
    fn from(record: Record) -> Self {
        Self {
            id: record.id.into(),
            method: record.method.into(),
            started: record.started.parse().ok(),
            replacements: record.replacements,
            nodes: record.nodes,
        }
    }
}
