//! The form of a decision. It is stable: fields and kinds are added, never renamed, removed or given another meaning.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Currency;

/// Version of the form. It changes only if a reader of the old form would misread the new one.
pub const VERSION: u32 = 1;
/// Objects and offerings that a list of a record names at most; a number beside the list counts all.
pub const LISTED: usize = 20;
/// Bytes of a message at most.
pub const MESSAGE_BYTES: usize = 1024;

/// A decision of the controller. Prices are per hour in `currency`, as exact decimal text; times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// Identifies it among those of all processes: `process-number`. NodeClaims carry it in the annotation `fleetwright.dev/decision`.
    pub id: String,
    /// Counts the changes of this process's records: a record whose outcome changes gets the next one.
    pub revision: u64,
    /// When it was decided.
    #[schemars(with = "String")]
    pub time: Timestamp,
    /// What prices are in, as its ISO 4217 code.
    #[serde(default)]
    #[schemars(with = "String")]
    pub currency: Currency,
    /// What was decided.
    #[serde(flatten)]
    pub draft: DecisionDraft,
}

/// A decision before it has an id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[must_use = "a decision is recorded"]
pub struct DecisionDraft {
    /// What was chosen.
    #[serde(flatten)]
    pub choice: Choice,
    /// The decision that it is part of: the plan or the command of a NodeClaim, the plan of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it was decided on.
    pub inputs: DecisionInputs,
    /// The offerings that could have been chosen, cheapest first; empty where none were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<OfferingRow>,
    /// How many instance types could have been chosen.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub candidates_total: usize,
    /// What it saves; absent where nothing is saved or a price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saving: Option<SavingRow>,
    /// Why: for a refusal and a held act, what stands in the way; for a deletion, its cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonRow>,
    /// What came of it; absent for refusals and held acts, which are never carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<DecisionOutcome>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What was chosen, by the kind of decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "choice", rename_all = "camelCase")]
pub enum Choice {
    /// Where the pods of a batch are to run.
    Plan(PlanChoice),
    /// A NodeClaim to create.
    NodeClaim(ClaimChoice),
    /// Nodes to disrupt, with their replacements.
    Disruption(DisruptionChoice),
    /// A NodeClaim to delete, or an instance to terminate, that is part of no disruption.
    Deletion(DeletionChoice),
    /// Pods that get no node, or nodes that are not disrupted.
    Refusal(RefusalChoice),
    /// An act that a safety limit holds.
    Held(HeldChoice),
}

impl Choice {
    /// The kinds, as they are written.
    pub const KINDS: [&str; 6] = ["plan", "nodeClaim", "disruption", "deletion", "refusal", "held"];

    /// The kind, as it is written.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let [plan, claim, disruption, deletion, refusal, held] = Self::KINDS;
        match self {
            Self::Plan(_) => plan,
            Self::NodeClaim(_) => claim,
            Self::Disruption(_) => disruption,
            Self::Deletion(_) => deletion,
            Self::Refusal(_) => refusal,
            Self::Held(_) => held,
        }
    }
}

/// The plan of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanChoice {
    /// Pods of the batch.
    pub pods: usize,
    /// NodeClaims to create.
    pub node_claims: usize,
    /// Pods on them.
    pub pods_on_new_nodes: usize,
    /// Pods on existing and in-flight nodes.
    pub pods_on_existing_nodes: usize,
    /// Pods that get no node.
    pub unschedulable: usize,
    /// List prices of the new NodeClaims in sum.
    pub price: String,
    /// Their effective prices in sum, which is what the plan minimizes.
    pub effective_price: String,
    /// No plan for these pods can have a lower effective price.
    pub lower_bound: String,
    /// Whether a bound on the work cut the search short.
    pub partial: bool,
}

/// A NodeClaim to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimChoice {
    /// Its name.
    pub node_claim: String,
    /// Its NodePool.
    pub node_pool: String,
    /// The offering that it is expected to launch.
    pub offering: OfferingRow,
    /// Requests of its pods and daemons in sum.
    pub requests: BTreeMap<String, String>,
    /// Its first pods as `namespace/name`.
    pub pods: Vec<String>,
    /// How many pods it is for.
    pub pods_total: usize,
}

/// An offering, with its price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferingRow {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// List price.
    pub price: String,
    /// What it counts as in decisions.
    pub effective_price: String,
}

/// A disruption command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionChoice {
    /// Its id in the log and in the annotation `fleetwright.dev/disruption-command`, once it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// `delete` or `replace`.
    pub action: String,
    /// The method that found it.
    pub method: String,
    /// `Empty`, `Drifted` or `Underutilized`.
    pub reason: String,
    /// The first nodes that it removes.
    pub nodes: Vec<NodeRow>,
    /// How many nodes it removes.
    pub nodes_total: usize,
    /// The first NodeClaims that it creates before.
    pub replacements: Vec<ReplacementRow>,
    /// How many NodeClaims it creates.
    pub replacements_total: usize,
    /// Pods to reschedule.
    pub pods: usize,
}

/// A node to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Its name.
    pub node: String,
    /// Its NodeClaim.
    pub node_claim: String,
    /// Its NodePool.
    pub node_pool: String,
    /// Its instance type.
    pub instance_type: String,
    /// Its capacity type.
    pub capacity_type: String,
    /// Its list price; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// What it counts as in decisions; absent where its list price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_price: Option<String>,
    /// Pods to reschedule.
    pub pods: usize,
}

/// A replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementRow {
    /// Its NodePool.
    pub node_pool: String,
    /// The offering that it is expected to launch.
    pub offering: OfferingRow,
}

/// A NodeClaim to delete, or an instance to terminate, that is part of no disruption.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionChoice {
    /// `NodeClaim`, or `Instance` for one that no NodeClaim accounts for.
    pub of: String,
    /// Name of the NodeClaim, or provider id of the instance.
    pub name: String,
    /// Why, in one word: the `reason` of the metric `karpenter_nodeclaims_disrupted_total` where it counts the deletion.
    pub cause: String,
    /// The NodePool; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// The Node; absent before registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Provider id of the instance; absent before launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Instance type; absent before launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Capacity type; absent before launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// List price of the node; absent before launch, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Pods to reschedule.
    pub pods: usize,
}

/// Objects that a decision leaves out, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusalChoice {
    /// `Pod` or `Node`.
    pub of: String,
    /// The first of them: pods as `namespace/name`.
    pub names: Vec<String>,
    /// How many there are.
    pub total: usize,
}

/// An act that a safety limit holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldChoice {
    /// The act, as in the metric `fleetwright_held_total`.
    pub act: String,
    /// The limit, as in the metric `fleetwright_held_total`.
    pub limit: String,
    /// The object or the workload; empty where it concerns all.
    pub subject: String,
    /// When the act may be admitted, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
}

/// What a decision was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionInputs {
    /// Equal inputs have equal digests: pods, nodes, NodePools and prices that the decision read.
    pub digest: String,
    /// Pods of the batch; none for disruption.
    pub pods: usize,
    /// Nodes and in-flight NodeClaims.
    pub nodes: usize,
    /// NodePools.
    pub node_pools: usize,
}

/// A saving per hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavingRow {
    /// Of list prices; below zero where the replacements cost more.
    pub list: String,
    /// Of effective prices, which decide.
    pub effective: String,
    /// List prices of the nodes in sum.
    pub before: String,
    /// List prices of the replacements in sum.
    pub after: String,
}

/// A reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonRow {
    /// One word.
    pub reason: String,
    /// With figures, and the nearest fix where there is one.
    pub message: String,
    /// The NodePool that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionOutcome {
    /// How far it is.
    pub status: OutcomeStatus,
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// Why it was rejected, rolled back or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far a decision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OutcomeStatus {
    /// Nothing of it is done yet.
    Decided,
    /// It is being carried out.
    Started,
    /// It is carried out: NodeClaims of a plan are created, the node of a NodeClaim is initialized, nodes of a command are deleted, a deleted
    /// NodeClaim has neither node nor instance any more, termination of an instance is requested.
    Succeeded,
    /// It was not valid any more when it was to start: nothing of it was done.
    Rejected,
    /// It was stopped, and its marks were removed.
    RolledBack,
    /// It could not be carried out, or only in part.
    Failed,
}

impl OutcomeStatus {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::RolledBack => "rolledBack",
            Self::Failed => "failed",
        }
    }

    /// Whether it does not change any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Decided | Self::Started)
    }
}

/// A message, cut after [`MESSAGE_BYTES`].
#[must_use]
pub(super) fn bounded(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES {
        let mut end = MESSAGE_BYTES.saturating_sub('…'.len_utf8());
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push('…');
    }
    message
}

impl DecisionOutcome {
    /// An outcome as of `since`.
    #[must_use]
    pub fn new(status: OutcomeStatus, since: Timestamp, message: Option<String>) -> Self {
        Self { status, since, message: message.map(bounded) }
    }
}
