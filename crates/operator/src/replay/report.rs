//! The report of a replay: one row per variant.

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::model::Currency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    agreement::AgreementRow,
    play::{Played, Script},
    trace::Trace,
};
use crate::{
    figures,
    sheet::{Page, Sheet, figure, text},
};

/// What each variant did with the same load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayReport {
    /// Version of this form.
    pub(super) version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(super) currency: Currency,
    /// What was played.
    pub(super) trace: TraceRow,
    /// The seed of names and of the simulated cloud.
    pub(super) seed: u64,
    /// The variants, the settings of the command line first.
    pub(super) variants: Vec<VariantRow>,
    /// What was left out or assumed.
    pub(super) notes: Vec<String>,
}

/// What was played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TraceRow {
    /// Its format.
    format: String,
    /// Its first time.
    from: String,
    /// The end of the replay.
    to: String,
    /// Virtual minutes in between.
    minutes: i64,
    /// Pods that it wants, beside those of DaemonSets; 0 where workloads are played.
    pods: usize,
}

/// What one variant did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct VariantRow {
    /// Its settings that differ from the first variant's.
    pub(super) name: String,
    /// Nodes at the end, by instance type.
    nodes: BTreeMap<String, usize>,
    /// The most nodes at one time.
    nodes_peak: usize,
    /// NodeClaims that were created.
    node_claims_created: u64,
    /// NodeClaims that were deleted, by reason.
    node_claims_deleted: BTreeMap<String, u64>,
    /// The cost of all nodes together.
    spent: String,
    /// The price per hour at the end.
    hourly: String,
    /// The price per hour at the dearest time.
    hourly_peak: String,
    /// Pods that were evicted and created again.
    pods_evicted: u64,
    /// Pods that were bound, evicted ones once more.
    pods_bound: usize,
    /// Pods without a node at the end.
    pub(super) pods_unbound: usize,
    /// Seconds from the creation of a pod to its binding.
    waiting_seconds: WaitingRow,
    /// How far its decisions are those of the recording; absent where the trace has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agreement: Option<AgreementRow>,
}

/// Seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WaitingRow {
    median: u64,
    p95: u64,
    max: u64,
}

impl ReplayReport {
    pub(super) fn new(
        trace: &Trace,
        script: &Script,
        seed: u64,
        variants: Vec<VariantRow>,
        currency: Currency,
    ) -> Self {
        let row = TraceRow {
            format: trace.format.as_str().to_owned(),
            from: script.start.to_string(),
            to: script.end.to_string(),
            minutes: script.end.duration_since(script.start).as_secs() / 60,
            pods: script.lives.len(),
        };
        Self { version: 1, currency, trace: row, seed, variants, notes: trace.notes.clone() }
    }

    /// What people read.
    pub(super) fn page(&self) -> Page {
        let mut sheet = Sheet::new(&[
            text("VARIANT"),
            figure(format!("{} SPENT", self.currency)),
            figure(format!("{}/H AT END", self.currency)),
            figure("NODES AT END"),
            figure("PEAK"),
            figure("CREATED"),
            text("DELETED"),
            figure("EVICTED"),
            figure("UNBOUND"),
            figure("WAIT P50"),
            figure("P95"),
            figure("MAX"),
        ]);
        for variant in &self.variants {
            let deleted = variant.node_claims_deleted.iter().map(|(why, count)| format!("{count} {why}"));
            let wait = &variant.waiting_seconds;
            sheet.row([
                variant.name.clone(),
                figures::hourly_text(&variant.spent),
                figures::hourly_text(&variant.hourly),
                variant.nodes.values().sum::<usize>().to_string(),
                variant.nodes_peak.to_string(),
                variant.node_claims_created.to_string(),
                deleted.collect::<Vec<_>>().join(", "),
                variant.pods_evicted.to_string(),
                variant.pods_unbound.to_string(),
                format!("{}s", wait.median),
                format!("{}s", wait.p95),
                format!("{}s", wait.max),
            ]);
        }
        let mut page = Page::default();
        page.sheet(sheet);
        page.line(format!(
            "{} from {}: {} of virtual time, {}",
            self.trace.format,
            self.trace.from,
            figures::count(usize::try_from(self.trace.minutes).unwrap_or_default(), "minute"),
            figures::count(self.trace.pods, "pod"),
        ));
        for variant in &self.variants {
            let lines = variant.agreement.as_ref().map(|agreement| agreement.lines(&variant.name));
            for line in lines.into_iter().flatten() {
                page.line(line);
            }
        }
        page
    }
}

impl VariantRow {
    pub(super) fn new(name: &str, played: &Played, agreement: Option<AgreementRow>) -> Self {
        let hourly = played.end.nodes.iter().map(|node| node.price).sum::<fleetwright_core::model::Price>();
        let at = |share: usize| {
            // The nearest rank.
            let rank = (played.waits.len() * share).div_ceil(100).max(1);
            played.waits.get(rank - 1).map_or(0, Duration::as_secs)
        };
        Self {
            name: name.to_owned(),
            nodes: played.end.nodes_by_type(),
            nodes_peak: played.peak_nodes,
            node_claims_created: played.end.claims_created,
            node_claims_deleted: played.end.removed.clone(),
            spent: played.spent().to_string(),
            hourly: hourly.to_string(),
            hourly_peak: played.peak_hourly.to_string(),
            pods_evicted: played.evicted,
            pods_bound: played.waits.len(),
            pods_unbound: played.unbound,
            waiting_seconds: WaitingRow { median: at(50), p95: at(95), max: at(100) },
            agreement,
        }
    }
}
