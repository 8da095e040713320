//! What disruption would do, as a document: what `-o json` prints. `docs/disrupt.schema.json` is made from these types.

use fleetwright_controllers::runtime::Names;
use fleetwright_core::{
    disruption::{Allowance, BalancedScore, Blocker, Command, DisruptionStatus, Survey},
    model::{Currency, Price, StateNode, labels::NODEPOOL, nodeclaim::ConditionType},
    scheduling::NewClaim,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    catalogue::SourceRow,
    figures,
    input::load::Loaded,
    plan::{self, raised},
};

/// Version of the document's form.
const VERSION: u32 = 1;
/// The seed of names of NodeClaims that would be created.
const SEED: u64 = 1;

/// What one pass would do, before the validation delay. Prices are per hour in `currency`, as exact decimal text.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DisruptReport {
    /// Version of this form.
    pub(super) version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[schemars(with = "String")]
    pub(super) currency: Currency,
    /// Commands in the order of their execution, as many as the budgets allow in one pass.
    pub(super) commands: Vec<CommandRow>,
    /// Every node, by name.
    pub(super) nodes: Vec<NodeRow>,
    /// Budgets by pool and reason.
    pub(super) budgets: Vec<BudgetRow>,
    /// NodeClaims that the pass did not reach; the next one begins with them.
    pub(super) unreached: Vec<String>,
    /// How long it took; the one part that differs between equal runs.
    pub(super) timing: Timing,
    /// Parts of the input that were ignored or assumed.
    pub(super) notes: Vec<String>,
    /// Where instance types and prices come from, and of which day they are.
    pub(super) catalogues: Vec<SourceRow>,
    /// What the catalogues cannot answer; with any, the exit status is 3.
    pub(super) incomplete: Vec<String>,
}

/// A command.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandRow {
    /// The method that found it.
    pub(super) method: String,
    /// `Empty`, `Drifted` or `Underutilized`.
    pub(super) reason: String,
    /// Nodes that are removed.
    pub(super) nodes: Vec<String>,
    /// Replacements, which are created first.
    pub(super) replacements: Vec<Replacement>,
    /// Pods that move, as `namespace/name`.
    pub(super) pods: Vec<String>,
    /// What is saved per hour; below zero where it costs more; null where prices are unknown.
    pub(super) savings_hourly: Option<String>,
    /// Karpenter's disruption cost of the pods that move.
    pub(super) disruption_cost: f64,
    /// Its scores, one for each of its NodePools with the consolidation policy `Balanced`.
    pub(super) scores: Vec<ScoreRow>,
}

/// The score of a command for a NodePool with the consolidation policy `Balanced`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScoreRow {
    /// The NodePool.
    pub(super) node_pool: String,
    /// The share of the saving divided by the share of the disruption; `null` where nothing is disrupted.
    pub(super) score: Option<f64>,
    /// The score from which a command is approved.
    pub(super) threshold: f64,
    /// The saving, in percent of what the NodePool costs.
    pub(super) savings_percent: f64,
    /// The disruption, in percent of what disrupting all nodes of the NodePool would cost.
    pub(super) disruption_percent: f64,
}

/// A NodeClaim that would be created.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replacement {
    /// Its NodePool.
    pub(super) node_pool: String,
    /// The whole object.
    pub(super) resource: Value,
    /// Pods that it is for, as `namespace/name`.
    pub(super) pods: Vec<String>,
}

/// The disruption status of a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeRow {
    /// The Node, empty where there is none yet.
    pub(super) node: String,
    /// The NodeClaim, empty where there is none.
    pub(super) node_claim: String,
    /// The NodePool, empty where there is none.
    pub(super) node_pool: String,
    /// Whether a method considers it a candidate.
    pub(super) candidate: bool,
    /// List price per hour, where known.
    pub(super) price: Option<String>,
    /// Its disruption blockers.
    pub(super) blockers: Vec<BlockerRow>,
    /// Why it is drifted, such as `AMIDrift`, if it is.
    pub(super) drifted: Option<DriftRow>,
    /// When it expires, if it does: its NodeClaim is then deleted, whatever blocks disruption.
    pub(super) expires: Option<String>,
}

/// Drift of a node.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DriftRow {
    /// The reason of the condition Drifted.
    pub(super) reason: String,
    /// Since when.
    pub(super) since: String,
}

/// A disruption blocker.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct BlockerRow {
    /// One word.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// With figures.
    pub(crate) message: String,
    /// Who owns it, as `kind/name`.
    pub(crate) owner: Option<String>,
    /// When it ends without intervention.
    pub(crate) until: Option<String>,
}

/// A budget.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BudgetRow {
    /// The NodePool.
    pub(super) node_pool: String,
    /// The reason.
    pub(super) reason: String,
    /// How many nodes may be disrupted at once.
    pub(super) allowed: i64,
    /// How many are.
    pub(super) disrupting: i64,
}

/// Milliseconds, and how many simulations were made.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Timing {
    /// As for a plan.
    #[serde(flatten)]
    pub(super) spent: plan::Timing,
    /// Simulations.
    pub(super) simulations: u32,
}

/// Input of a report beside the survey.
pub(super) struct Context<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) timing: Timing,
    /// What prices are in.
    pub(super) currency: Currency,
    /// The methods that ran, as the user named them.
    pub(super) methods: String,
}

impl DisruptReport {
    pub(super) fn new(survey: &Survey, context: &Context<'_>) -> Self {
        let names = Names::new(SEED);
        Self {
            version: VERSION,
            currency: context.currency,
            commands: survey.commands.iter().map(|command| row(command, context, &names)).collect(),
            nodes: survey.nodes.iter().map(|status| considered(status, survey, &context.methods)).collect(),
            budgets: survey.budgets.iter().map(budget).collect(),
            unreached: survey.unreached.iter().map(ToString::to_string).collect(),
            timing: context.timing,
            notes: context.loaded.notes.clone(),
            catalogues: context.loaded.sources.clone(),
            incomplete: context.loaded.gaps.clone(),
        }
    }
}

fn row(command: &Command, context: &Context<'_>, names: &Names) -> CommandRow {
    let moved = command.candidates.iter().flat_map(|candidate| &candidate.pods);
    let replacement = |new_claim: &NewClaim| {
        let place = (names.suffix(10), 0);
        Replacement {
            node_pool: new_claim.pool.name.to_string(),
            resource: raised(new_claim, context.loaded, names, &place),
            pods: new_claim.pods.iter().map(|pod| pod.id.to_string()).collect(),
        }
    };
    CommandRow {
        method: command.method.name.to_owned(),
        reason: command.method.reason.to_string(),
        nodes: command.candidates.iter().map(|candidate| candidate.name().to_string()).collect(),
        replacements: command.replacements.iter().map(replacement).collect(),
        pods: moved.map(|pod| pod.id.to_string()).collect(),
        savings_hourly: savings([command]).filter(|_| context.loaded.priced),
        disruption_cost: command.disruption_cost().pods(),
        scores: command.scores.iter().map(score).collect(),
    }
}

fn score(score: &BalancedScore) -> ScoreRow {
    ScoreRow {
        node_pool: score.pool.to_string(),
        score: Some(score.score()).filter(|score| score.is_finite()),
        threshold: BalancedScore::THRESHOLD,
        savings_percent: score.savings_percent(),
        disruption_percent: score.disruption_percent(),
    }
}

/// What commands save per hour; negative if the replacements cost more. `None` if the price of a node is unknown, which counts as zero.
pub(crate) fn savings<'c>(commands: impl IntoIterator<Item = &'c Command>) -> Option<String> {
    let (mut now, mut then) = (Price::ZERO, Price::ZERO);
    for command in commands {
        if command.candidates.iter().any(|candidate| candidate.price == Price::ZERO) {
            return None;
        }
        now = [now, command.price_before()].into_iter().sum();
        then = [then, command.price_after()].into_iter().sum();
    }
    let less = now.saturating_sub(then);
    Some(if then > now { format!("-{}", then.saturating_sub(now)) } else { less.to_string() })
}

/// The row of a node, which says so if nothing blocks it and nothing is done with it: it is no candidate, or the methods found no command.
fn considered(status: &DisruptionStatus, survey: &Survey, methods: &str) -> NodeRow {
    let mut row = node(status);
    let is_in_command = survey.commands.iter().flat_map(|command| &command.candidates).any(|candidate| {
        candidate.node.claim_name().is_some() && candidate.node.claim_name() == status.node.claim_name()
    });
    let why = match (row.candidate, survey.commands.is_empty()) {
        (false, _) => Some(("NotConsidered", format!("no candidate of {methods}: {}", state(status)))),
        (true, true) => Some(("NothingFound", format!("{methods} found no command with this node"))),
        // The next pass continues with it.
        (true, false) => None,
    };
    if let Some((kind, message)) = why.filter(|_| row.blockers.is_empty() && !is_in_command) {
        row.blockers.push(BlockerRow { kind: kind.to_owned(), message, owner: None, until: None });
    }
    row
}

/// What methods ask of a node.
fn state(status: &DisruptionStatus) -> String {
    let node = &status.node;
    let pods = node.pods.iter().filter(|pod| pod.is_reschedulable()).count();
    let drifted = if drift(node).is_some() { "drifted" } else { "not drifted" };
    match pods {
        0 => format!("the node is empty and {drifted}"),
        pods => format!("the node has {} and is {drifted}", figures::count(pods, "pod")),
    }
}

/// The disruption status of one node.
pub(super) fn node(status: &DisruptionStatus) -> NodeRow {
    let node = &status.node;
    NodeRow {
        node: node.node_name().map(ToString::to_string).unwrap_or_default(),
        node_claim: node.claim_name().map(ToString::to_string).unwrap_or_default(),
        node_pool: node.label(NODEPOOL).unwrap_or_default().to_owned(),
        candidate: status.candidate,
        price: status.price.map(|price| price.to_string()),
        blockers: blockers(status),
        drifted: drift(node),
        expires: node.claim.as_ref().and_then(|claim| {
            let end = claim.created.checked_add(claim.expire_after?).ok()?;
            Some(end.to_string())
        }),
    }
}

fn drift(node: &StateNode) -> Option<DriftRow> {
    let claim = node.claim.as_ref()?;
    let since = claim.true_since(ConditionType::Drifted)?;
    let reason = claim.conditions.get(&ConditionType::Drifted)?.reason.to_string();
    Some(DriftRow { reason, since: since.to_string() })
}

/// The blockers, each once: several pods may be kept by one PodDisruptionBudget.
pub(crate) fn blockers(status: &DisruptionStatus) -> Vec<BlockerRow> {
    let mut rows: Vec<BlockerRow> = Vec::new();
    for row in status.blockers.iter().map(blocker) {
        let is_same = |known: &BlockerRow| {
            (&known.kind, &known.message, &known.owner, &known.until)
                == (&row.kind, &row.message, &row.owner, &row.until)
        };
        if !rows.iter().any(is_same) {
            rows.push(row);
        }
    }
    rows
}

fn blocker(blocker: &Blocker) -> BlockerRow {
    BlockerRow {
        kind: blocker.kind().to_owned(),
        message: blocker.to_string(),
        owner: blocker.owner(),
        until: blocker.until().map(|until| until.to_string()),
    }
}

fn budget(allowance: &Allowance) -> BudgetRow {
    BudgetRow {
        node_pool: allowance.pool.to_string(),
        reason: allowance.reason.to_string(),
        allowed: allowance.allowed,
        disrupting: allowance.disrupting,
    }
}
