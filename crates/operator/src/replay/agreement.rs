//! How far the decisions of a replay are those of the recorded controller.
//!
//! Pods of one owner are alike, and nodes have other names in a replay. So a NodeClaim is the same if it has as many pods of the same owners, the
//! same NodePool and the same instance type; and a command if the same method removes nodes of the same NodePools and instance types, for the same
//! replacements. When it was decided does not matter: batches end at other moments.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::decisions::{
    Choice, DecisionRecord,
    record::{ClaimChoice, DisruptionChoice, LISTED},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::trace::{Change, Trace};
use crate::figures;

/// Differences that are listed; all are counted.
const SHOWN: usize = 20;

/// How far the decisions of a variant are those of the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgreementRow {
    /// Recorded plans that create NodeClaims.
    plans: usize,
    /// Those of them all of whose NodeClaims the replay creates.
    plans_as_recorded: usize,
    /// Recorded NodeClaims, without replacements.
    node_claims: usize,
    /// Those of them that the replay creates.
    node_claims_as_recorded: usize,
    /// NodeClaims of the replay that are not in the recording, without replacements.
    node_claims_more: usize,
    /// Recorded disruption commands that were started.
    commands: usize,
    /// Those of them that the replay starts.
    commands_as_recorded: usize,
    /// Commands of the replay that are not in the recording.
    commands_more: usize,
    /// The first recorded decisions that the replay does not have.
    differences: Vec<String>,
}

/// The owners of pods, by `namespace/name`: their kind and name.
pub(super) struct Owners(BTreeMap<String, String>);

impl Owners {
    /// Those of all pods of a trace.
    pub(super) fn of(trace: &Trace) -> Self {
        let text = |object: &Value, at: &str| {
            object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let pods = trace.changes.iter().filter_map(|(_, change)| match change {
            Change::Put(object) if object["kind"] == "Pod" => Some(object),
            _ => None,
        });
        let owned = pods.filter_map(|pod| {
            let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
            let owner = owners.iter().find(|owner| owner["controller"] == true)?;
            let namespace = text(pod, "/metadata/namespace");
            let name = format!("{namespace}/{}", text(pod, "/metadata/name"));
            Some((name, format!("{} {namespace}/{}", text(owner, "/kind"), text(owner, "/name"))))
        });
        Self(owned.collect())
    }
}

/// What makes NodeClaims the same. Its text names the NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimKey {
    node_pool: String,
    instance_type: String,
    pods: usize,
    /// Pods by owner; empty where a record does not name all.
    owners: BTreeMap<String, usize>,
}

impl ClaimKey {
    fn of(claim: &ClaimChoice, owners: &Owners) -> Self {
        let mut by_owner = BTreeMap::new();
        if claim.pods_total <= LISTED {
            for pod in &claim.pods {
                let owner = owners.0.get(pod).cloned().unwrap_or_else(|| format!("Pod {pod}"));
                *by_owner.entry(owner).or_default() += 1;
            }
        }
        Self {
            node_pool: claim.node_pool.clone(),
            instance_type: claim.offering.instance_type.clone(),
            pods: claim.pods_total,
            owners: by_owner,
        }
    }
}

impl std::fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pods = figures::count(self.pods, "pod");
        write!(f, "{} of NodePool {} for {pods}", self.instance_type, self.node_pool)?;
        let owners: Vec<String> =
            self.owners.iter().map(|(owner, count)| format!("{count} of {owner}")).collect();
        if owners.is_empty() { Ok(()) } else { write!(f, " ({})", owners.join(", ")) }
    }
}

/// What makes commands the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CommandKey {
    method: String,
    /// NodePools and instance types, in order.
    nodes: Vec<String>,
    replacements: Vec<String>,
}

impl CommandKey {
    fn of(command: &DisruptionChoice) -> Self {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names
        };
        let nodes = command.nodes.iter().map(|node| of_pool(&node.instance_type, &node.node_pool));
        let replacements =
            command.replacements.iter().map(|new| of_pool(&new.offering.instance_type, &new.node_pool));
        Self {
            method: command.method.clone(),
            nodes: sorted(nodes.collect()),
            replacements: sorted(replacements.collect()),
        }
    }
}

fn of_pool(instance_type: &str, node_pool: &str) -> String {
    format!("{instance_type} of NodePool {node_pool}")
}

impl std::fmt::Display for CommandKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.method, self.nodes.join(", "))?;
        if self.replacements.is_empty() {
            return Ok(());
        }
        write!(f, " -> {}", self.replacements.join(", "))
    }
}

/// The decisions of one controller, as they are compared.
struct Compared<'a> {
    /// NodeClaims, without replacements, each with its record.
    claims: Vec<(ClaimKey, &'a DecisionRecord)>,
    commands: Vec<(CommandKey, &'a DecisionRecord)>,
}

impl<'a> Compared<'a> {
    fn of(records: &'a [DecisionRecord], owners: &Owners) -> Self {
        let disruption = |record: &DecisionRecord| matches!(record.draft.choice, Choice::Disruption(_));
        let of_commands: BTreeSet<&str> =
            records.iter().filter(|record| disruption(record)).map(|record| &*record.id).collect();
        let mut found = Self { claims: Vec::new(), commands: Vec::new() };
        for record in records {
            match &record.draft.choice {
                Choice::NodeClaim(claim)
                    if record.draft.parent.as_deref().is_none_or(|id| !of_commands.contains(id)) =>
                {
                    found.claims.push((ClaimKey::of(claim, owners), record));
                }
                // Without an id it was not started.
                Choice::Disruption(command) if command.command.is_some() => {
                    found.commands.push((CommandKey::of(command), record));
                }
                _ => {}
            }
        }
        found
    }
}

/// Each of `recorded` with whether `replayed` has it, each of which counts once; and how many of `replayed` are left.
fn matched<K: Ord>(
    recorded: &[(K, &DecisionRecord)],
    replayed: &[(K, &DecisionRecord)],
) -> (Vec<bool>, usize) {
    let mut left: BTreeMap<&K, usize> = BTreeMap::new();
    for (key, _) in replayed {
        *left.entry(key).or_default() += 1;
    }
    let has = recorded.iter().map(|(key, _)| match left.get_mut(key) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    });
    (has.collect(), left.values().sum())
}

impl AgreementRow {
    /// Compares; `None` where nothing is recorded that can be compared.
    pub(super) fn of(
        recorded: &[DecisionRecord],
        replayed: &[DecisionRecord],
        owners: &Owners,
    ) -> Option<Self> {
        let (recorded, replayed) = (Compared::of(recorded, owners), Compared::of(replayed, owners));
        if recorded.claims.is_empty() && recorded.commands.is_empty() {
            return None;
        }
        let (claims, node_claims_more) = matched(&recorded.claims, &replayed.claims);
        let (commands, commands_more) = matched(&recorded.commands, &replayed.commands);
        let mut plans: BTreeMap<&str, bool> = BTreeMap::new();
        for ((_, record), is_same) in recorded.claims.iter().zip(&claims) {
            if let Some(plan) = &record.draft.parent {
                *plans.entry(plan).or_insert(true) &= is_same;
            }
        }
        let missing = |id: &str, what: &dyn std::fmt::Display| format!("{id}: not in the replay: {what}");
        let of_claims = recorded.claims.iter().zip(&claims).filter(|(_, is_same)| !**is_same);
        let of_commands = recorded.commands.iter().zip(&commands).filter(|(_, is_same)| !**is_same);
        let differences = of_claims
            .map(|((key, record), _)| missing(&record.id, key))
            .chain(of_commands.map(|((key, record), _)| missing(&record.id, key)));
        let same = |all: &[bool]| all.iter().filter(|is_same| **is_same).count();
        Some(Self {
            plans: plans.len(),
            plans_as_recorded: plans.values().filter(|is_same| **is_same).count(),
            node_claims: claims.len(),
            node_claims_as_recorded: same(&claims),
            node_claims_more,
            commands: commands.len(),
            commands_as_recorded: same(&commands),
            commands_more,
            differences: differences.take(SHOWN).collect(),
        })
    }

    /// What people read, in one line and one for each difference.
    pub(super) fn lines(&self, variant: &str) -> Vec<String> {
        let more = |more: usize| if more > 0 { format!(", {more} more") } else { String::new() };
        let first = format!(
            "{variant}: as recorded are {} of {} ({} of {}{}) and {} of {}{}",
            self.plans_as_recorded,
            figures::count(self.plans, "plan"),
            self.node_claims_as_recorded,
            figures::count(self.node_claims, "NodeClaim"),
            more(self.node_claims_more),
            self.commands_as_recorded,
            figures::count(self.commands, "command"),
            more(self.commands_more),
        );
        std::iter::once(first).chain(self.differences.iter().map(|what| format!("  {what}"))).collect()
    }
}
