//! Disruptions in progress.
//!
//! A command of Fleetwright has a record on the NodeClaims that it removes, and its id is on their replacements. Karpenter has
//! neither: its nodes are rows of their own, and the saving is known only for nodes that are removed because they are empty.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_controllers::disruption::recorded_commands;
use fleetwright_core::{
    disruption::{CommandRecord, lineage, method},
    model::{Snapshot, StateNode, nodeclaim::ConditionType},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::cost::price;

/// The reason of nodes that are removed because they are empty.
const EMPTY: &str = "Empty";

/// Nodes that one decision removes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisruptionInProgress {
    /// The id of the command; null where it has left no record, as Karpenter's do not.
    pub(crate) command: Option<String>,
    /// `Empty`, `Drifted`, `Underutilized` or another reason of the condition `DisruptionReason`; `Deleted` where a NodeClaim or
    /// Node is deleted without one.
    pub(crate) reason: String,
    /// When it started, as far as is known.
    #[schemars(with = "Option<String>")]
    pub(crate) since: Option<Timestamp>,
    /// How far it is.
    pub(crate) stage: DisruptionStage,
    /// The nodes that it removes, by name.
    pub(crate) nodes: Vec<String>,
    /// Pods that are still on them, without those of DaemonSets.
    pub(crate) pods: usize,
    /// The NodeClaims that were created for it.
    pub(crate) replacements: Vec<String>,
    /// What is saved per hour; below zero where the replacements cost more; null where it is not known.
    pub(crate) savings_hourly: Option<String>,
}

/// How far a disruption is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) enum DisruptionStage {
    /// Its replacements are not initialized yet, or its nodes are not deleted yet.
    Waiting,
    /// Pods are evicted.
    Draining,
    /// The termination of the instances was requested.
    Terminating,
}

impl DisruptionStage {
    /// One word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Draining => "Draining",
            Self::Terminating => "Terminating",
        }
    }

    /// The stage of one node.
    fn of(node: &StateNode) -> Self {
        let claim = node.claim.as_ref();
        let deleting = claim.and_then(|claim| claim.deleting).is_some()
            || node.node.as_ref().and_then(|node| node.deleting).is_some();
        match () {
            () if claim.is_some_and(|claim| claim.is(ConditionType::InstanceTerminating)) => {
                Self::Terminating
            }
            () if deleting => Self::Draining,
            () => Self::Waiting,
        }
    }
}

/// The disruptions of nodes that `selects` selects, the oldest first.
pub(super) fn of(snapshot: &Snapshot, selects: impl Fn(&StateNode) -> bool) -> Vec<DisruptionInProgress> {
    let recorded = recorded_commands(snapshot);
    let of_commands: BTreeSet<usize> = recorded.values().flat_map(|(_, nodes)| nodes).copied().collect();
    let replacements = replacements(snapshot);
    let mut rows = Vec::new();
    for (id, (record, nodes)) in &recorded {
        let nodes: Vec<&StateNode> = nodes.iter().map(|index| &*snapshot.nodes[*index]).collect();
        if nodes.iter().any(|node| selects(node)) {
            let by = replacements.get(&**id).map(Vec::as_slice).unwrap_or_default();
            rows.push(of_command(snapshot, record, &nodes, by));
        }
    }
    let others = snapshot.nodes.iter().enumerate().filter(|(index, _)| !of_commands.contains(index));
    rows.extend(others.filter(|(_, node)| selects(node)).filter_map(|(_, node)| of_node(snapshot, node)));
    rows.sort_by(|a, b| (a.since, &a.nodes).cmp(&(b.since, &b.nodes)));
    rows
}

/// NodeClaims by the command that they were created for.
fn replacements(snapshot: &Snapshot) -> BTreeMap<&str, Vec<&StateNode>> {
    let mut found: BTreeMap<&str, Vec<&StateNode>> = BTreeMap::new();
    for node in &snapshot.nodes {
        if let Some(command) = node.claim.as_ref().and_then(|claim| lineage::command(claim)) {
            found.entry(command).or_default().push(node);
        }
    }
    found
}

fn of_command(
    snapshot: &Snapshot,
    record: &CommandRecord,
    nodes: &[&StateNode],
    replacements: &[&StateNode],
) -> DisruptionInProgress {
    let reason = method(&record.method).map(|method| method.spec().reason.to_string());
    // With nodes or replacements missing, a saving would be that of a part.
    let is_whole = nodes.len() == record.nodes && replacements.len() == record.replacements;
    DisruptionInProgress {
        command: Some(record.id.to_string()),
        reason: reason.unwrap_or_else(|| record.method.to_string()),
        since: record.started,
        stage: nodes.iter().map(|node| DisruptionStage::of(node)).min().unwrap_or(DisruptionStage::Waiting),
        nodes: nodes.iter().map(|node| node.name().to_owned()).collect(),
        pods: nodes.iter().map(|node| pods(node)).sum(),
        replacements: replacements.iter().map(|node| node.name().to_owned()).collect(),
        savings_hourly: is_whole.then(|| savings(snapshot, nodes, replacements)).flatten(),
    }
}

/// A node that is disrupted or deleted without a record.
fn of_node(snapshot: &Snapshot, node: &StateNode) -> Option<DisruptionInProgress> {
    let claim = node.claim.as_ref();
    let condition = claim
        .filter(|claim| claim.is(ConditionType::DisruptionReason))
        .and_then(|claim| claim.conditions.get(&ConditionType::DisruptionReason));
    let deleting = claim.and_then(|claim| claim.deleting).or_else(|| node.node.as_ref()?.deleting);
    let is_tainted = node.node.as_ref().is_some_and(|node| node.is_disrupted());
    if condition.is_none() && deleting.is_none() && !is_tainted && !node.is_deleting() {
        return None;
    }
    let reason = condition.map_or("Deleted", |condition| &*condition.reason);
    let is_empty = reason.eq_ignore_ascii_case(EMPTY);
    Some(DisruptionInProgress {
        command: None,
        reason: reason.to_owned(),
        since: condition.map(|condition| condition.since).or(deleting),
        stage: DisruptionStage::of(node),
        nodes: vec![node.name().to_owned()],
        pods: pods(node),
        replacements: Vec::new(),
        savings_hourly: is_empty.then(|| savings(snapshot, &[node], &[])).flatten(),
    })
}

fn pods(node: &StateNode) -> usize {
    node.pods.iter().filter(|pod| !pod.is_daemon()).count()
}

/// The price of nodes without that of their replacements, if all are known.
fn savings(snapshot: &Snapshot, nodes: &[&StateNode], replacements: &[&StateNode]) -> Option<String> {
    let sum = |nodes: &[&StateNode]| nodes.iter().map(|node| price(snapshot, node)).sum::<Option<_>>();
    let (now, then): (fleetwright_core::model::Price, _) = (sum(nodes)?, sum(replacements)?);
    Some(if then > now {
        format!("-{}", then.saturating_sub(now))
    } else {
        now.saturating_sub(then).to_string()
    })
}
