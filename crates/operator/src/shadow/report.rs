//! The comparisons as a document: what `/shadow`, SHADOW_FILE and `-o json` have. `docs/shadow.schema.json` is made from these types.

use std::collections::BTreeMap;

use fleetwright_controllers::shadow::{Journal, ShadowRecord};
use fleetwright_core::{
    model::{Currency, Price},
    shadow::{BatchComparison, ClaimGroup, CommandSummary, DisruptionComparison, PodOutcomes, hourly},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::SourceRow;

/// What Karpenter did, and what Fleetwright would have done. Prices are per hour in `currency`, as exact decimal text.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ShadowReport {
    /// Version of this form.
    pub(super) version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(super) currency: Currency,
    /// When the comparison began.
    pub(super) since: String,
    /// The time of the report.
    pub(super) until: String,
    /// All batches since the start.
    pub(super) totals: TotalsRow,
    /// The last batches, oldest first.
    pub(super) batches: Vec<BatchRow>,
    /// The last disruption commands, oldest first.
    pub(super) disruptions: Vec<DisruptionRow>,
    /// Where instance types and prices come from, and of which day they are.
    pub(super) catalogues: Vec<SourceRow>,
    /// What the catalogues cannot answer; with any, the exit status is 3.
    pub(super) incomplete: Vec<String>,
}

/// Sums over all batches.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TotalsRow {
    /// Compared batches by agreement: same, same-price, ours-cheaper, karpenter-cheaper, only-karpenter, only-ours, unpriced.
    pub(super) batches: BTreeMap<String, u64>,
    /// Batches by reason for a difference.
    pub(super) reasons: BTreeMap<String, u64>,
    /// Pods of these batches.
    pub(super) pods: u64,
    /// What Karpenter launched.
    pub(super) karpenter: SideRow,
    /// What Fleetwright would have launched.
    pub(super) fleetwright: SideRow,
    /// Compared disruption commands by agreement: all-nodes, some-nodes, only-karpenter, only-ours.
    pub(super) disruptions: BTreeMap<String, u64>,
    /// Batches that the sums of prices leave out, because a price is unknown.
    pub(super) unpriced_batches: u64,
}

/// One side of the sums.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SideRow {
    /// NodeClaims.
    pub(super) node_claims: u64,
    /// The sum of their prices per hour.
    pub(super) hourly: String,
}

/// A batch.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BatchRow {
    /// Counts batches from 1.
    pub(super) number: u64,
    /// When its window opened.
    pub(super) opened: String,
    /// When the comparison ended.
    pub(super) closed: String,
    /// Its pods.
    pub(super) pods: usize,
    /// What Karpenter did.
    pub(super) karpenter: DecisionRow,
    /// What Fleetwright would have done.
    pub(super) fleetwright: DecisionRow,
    /// How far both agree, as in the sums.
    pub(super) agreement: String,
    /// Why they differ.
    pub(super) reasons: Vec<ReasonRow>,
}

/// A disruption command of Karpenter beside what Fleetwright proposed, or one that only Fleetwright proposes.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DisruptionRow {
    /// When the command, or the proposal, began.
    pub(super) began: String,
    /// How far both agree, as in the sums.
    pub(super) agreement: String,
    /// What Karpenter did.
    pub(super) karpenter: Option<CommandRow>,
    /// What Fleetwright proposed for these nodes.
    pub(super) fleetwright: Vec<CommandRow>,
    /// NodeClaims that Fleetwright did not propose, with the first blocker of each.
    pub(super) reasons: BTreeMap<String, String>,
}

/// A disruption command.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandRow {
    /// `Empty`, `Drifted`, `Underutilized` and so on.
    pub(super) reason: String,
    /// The disrupted NodeClaims.
    pub(super) node_claims: Vec<String>,
    /// What they are.
    pub(super) nodes: Vec<ClaimRow>,
    /// Their replacements.
    pub(super) replacements: Vec<ClaimRow>,
    /// The price of the nodes per hour; null where a price is unknown.
    pub(super) hourly_before: Option<String>,
    /// The price of the replacements per hour; null where a price is unknown.
    pub(super) hourly_after: Option<String>,
}

/// One side of a batch.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DecisionRow {
    /// NodeClaims, equal ones together.
    pub(super) node_claims: Vec<ClaimRow>,
    /// The sum of their prices per hour; null where a price is unknown.
    pub(super) hourly: Option<String>,
    /// Pods on these NodeClaims.
    pub(super) pods_new: usize,
    /// Pods on nodes that existed.
    pub(super) pods_existing: usize,
    /// Pods without a node.
    pub(super) pods_unschedulable: usize,
    /// Pods that were deleted before they had a node.
    pub(super) pods_gone: usize,
}

/// NodeClaims that became, or would become, the same.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimRow {
    /// The NodePool.
    pub(super) node_pool: String,
    /// The instance type.
    pub(super) instance_type: String,
    /// The zone.
    pub(super) zone: String,
    /// The capacity type.
    pub(super) capacity_type: String,
    /// The price of one per hour; null where it is unknown.
    pub(super) price: Option<String>,
    /// How many.
    pub(super) count: usize,
    /// The pods of the batch on them.
    pub(super) pods: usize,
}

/// A reason for a difference.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct ReasonRow {
    /// One word, as in the sums and in metrics.
    pub(super) reason: String,
    /// One sentence.
    pub(super) message: String,
}

impl ShadowReport {
    /// The version that this binary writes and reads.
    pub(super) const VERSION: u32 = 1;

    /// The report of a journal.
    pub(super) fn new(
        journal: &Journal,
        until: Timestamp,
        (catalogues, incomplete): (Vec<SourceRow>, Vec<String>),
        currency: Currency,
    ) -> Self {
        let totals = journal.totals();
        let batch = |record: &ShadowRecord| match record {
            ShadowRecord::Batch(batch) => Some(BatchRow::new(batch)),
            ShadowRecord::Disruption(_) => None,
        };
        let disruption = |record: &ShadowRecord| match record {
            ShadowRecord::Disruption(comparison) => Some(DisruptionRow::new(comparison)),
            ShadowRecord::Batch(_) => None,
        };
        let side = |claims: u64, price: Price| SideRow { node_claims: claims, hourly: price.to_string() };
        Self {
            version: Self::VERSION,
            currency,
            since: journal.since().to_string(),
            until: until.to_string(),
            totals: TotalsRow {
                batches: totals.batches.iter().map(|(is, count)| (is.as_str().to_owned(), *count)).collect(),
                reasons: totals.reasons.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect(),
                pods: totals.pods,
                karpenter: side(totals.karpenter_claims, totals.karpenter_price),
                fleetwright: side(totals.our_claims, totals.our_price),
                disruptions: totals
                    .disruptions
                    .iter()
                    .map(|(is, count)| (is.as_str().to_owned(), *count))
                    .collect(),
                unpriced_batches: totals.unpriced,
            },
            batches: journal.records().filter_map(batch).collect(),
            disruptions: journal.records().filter_map(disruption).collect(),
            catalogues,
            incomplete,
        }
    }
}

impl BatchRow {
    fn new(batch: &BatchComparison) -> Self {
        let reason = |why: &fleetwright_core::shadow::DifferenceReason| ReasonRow {
            reason: why.as_str().to_owned(),
            message: why.to_string(),
        };
        Self {
            number: batch.number,
            opened: batch.opened.to_string(),
            closed: batch.closed.to_string(),
            pods: batch.pods,
            karpenter: DecisionRow::new(&batch.karpenter, batch.karpenter_pods),
            fleetwright: DecisionRow::new(&batch.ours, batch.our_pods),
            agreement: batch.agreement.as_str().to_owned(),
            reasons: batch.reasons.iter().map(reason).collect(),
        }
    }
}

impl DisruptionRow {
    fn new(comparison: &DisruptionComparison) -> Self {
        let reason = |(claim, why): &(fleetwright_core::model::ClaimName, fleetwright_core::model::Str)| {
            (claim.to_string(), why.to_string())
        };
        Self {
            began: comparison.began.to_string(),
            agreement: comparison.agreement.as_str().to_owned(),
            karpenter: comparison.karpenter.as_ref().map(CommandRow::new),
            fleetwright: comparison.ours.iter().map(CommandRow::new).collect(),
            reasons: comparison.reasons.iter().map(reason).collect(),
        }
    }

    /// Why nodes were not proposed, in one line.
    pub(super) fn reasons(&self) -> String {
        self.reasons.iter().map(|(claim, why)| format!("{claim}: {why}")).collect::<Vec<_>>().join("; ")
    }
}

impl CommandRow {
    fn new(command: &CommandSummary) -> Self {
        let price = |groups: &[ClaimGroup]| hourly(groups).map(|price| price.to_string());
        Self {
            reason: command.reason.to_string(),
            node_claims: command.claims.iter().map(ToString::to_string).collect(),
            nodes: command.nodes.iter().map(ClaimRow::new).collect(),
            replacements: command.replacements.iter().map(ClaimRow::new).collect(),
            hourly_before: price(&command.nodes),
            hourly_after: price(&command.replacements),
        }
    }

    /// `Underutilized: 2 m5.large/us-east-1a/spot ($0.16) to 1 … ($0.1)`, or `to none`.
    pub(super) fn text(&self, currency: Currency) -> String {
        let amount = |price: &Option<String>| {
            price.as_deref().map_or_else(|| "?".to_owned(), |price| currency.amount(price))
        };
        let after = match &self.replacements[..] {
            [] => "none".to_owned(),
            rows => format!("{} ({})", ClaimRow::text(rows), amount(&self.hourly_after)),
        };
        format!(
            "{}: {} ({}) to {after}",
            self.reason,
            ClaimRow::text(&self.nodes),
            amount(&self.hourly_before)
        )
    }

    /// The commands of one side, in one line.
    pub(super) fn texts<'a>(commands: impl IntoIterator<Item = &'a Self>, currency: Currency) -> String {
        let texts: Vec<String> = commands.into_iter().map(|command| command.text(currency)).collect();
        if texts.is_empty() { "none".to_owned() } else { texts.join("; ") }
    }
}

impl DecisionRow {
    fn new(groups: &[ClaimGroup], pods: PodOutcomes) -> Self {
        Self {
            node_claims: groups.iter().map(ClaimRow::new).collect(),
            hourly: hourly(groups).map(|price| price.to_string()),
            pods_new: pods.new,
            pods_existing: pods.existing,
            pods_unschedulable: pods.none,
            pods_gone: pods.gone,
        }
    }

    /// `2 m5.large/us-east-1a/spot, 1 …`, or what happened instead.
    pub(super) fn text(&self) -> String {
        if !self.node_claims.is_empty() {
            return ClaimRow::text(&self.node_claims);
        }
        if self.pods_existing > 0 { "existing nodes".to_owned() } else { "none".to_owned() }
    }

    /// The price, or a dash.
    pub(super) fn price(&self) -> &str {
        self.hourly.as_deref().unwrap_or("-")
    }
}

impl ClaimRow {
    /// `2 m5.large/us-east-1a/spot, 1 …`.
    fn text(rows: &[Self]) -> String {
        let text =
            |row: &Self| format!("{} {}/{}/{}", row.count, row.instance_type, row.zone, row.capacity_type);
        rows.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    fn new(group: &ClaimGroup) -> Self {
        Self {
            node_pool: group.pool.to_string(),
            instance_type: group.instance_type.to_string(),
            zone: group.zone.to_string(),
            capacity_type: group.capacity_type.to_string(),
            price: group.price.map(|price| price.to_string()),
            count: group.count,
            pods: group.pods,
        }
    }
}

impl TotalsRow {
    /// How much less the NodeClaims of Fleetwright cost, in percent of Karpenter's; below zero if they cost more.
    pub(super) fn saving_percent(&self) -> Option<f64> {
        let hourly = |side: &SideRow| side.hourly.parse::<f64>().ok();
        let (karpenter, ours) = (hourly(&self.karpenter)?, hourly(&self.fleetwright)?);
        (karpenter > 0.0).then(|| (karpenter - ours) / karpenter * 100.0)
    }

    /// The number of batches, and of those with each agreement.
    pub(super) fn agreement(&self) -> String {
        let all: u64 = self.batches.values().sum();
        let each: Vec<String> = self.batches.iter().map(|(is, count)| format!("{count} {is}")).collect();
        match &each[..] {
            [] => "no batch was compared yet".to_owned(),
            _ => format!("{all} batches of {} pods: {}", self.pods, each.join(", ")),
        }
    }

    /// The number of disruption commands with each agreement.
    pub(super) fn disruption(&self) -> String {
        let each: Vec<String> = self.disruptions.iter().map(|(is, count)| format!("{count} {is}")).collect();
        if each.is_empty() { "no command was compared yet".to_owned() } else { each.join(", ") }
    }
}
