//! The report of a run, as JSON and text.

use std::{collections::BTreeMap, fmt, time::Duration};

use fleetwright_core::model::{Currency, Price};
use fleetwright_sim::Overview;
use serde::Serialize;

use super::session::{Session, hourly};
use crate::figures;

/// The sum of a run. Its JSON form is the same for the same seed, but for `wall`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DemoReport {
    version: u32,
    seed: u64,
    /// Whether nothing was left to do at the end.
    stable: bool,
    nodes: Nodes,
    cost: Cost,
    pods: Pods,
    /// How many NodeClaims were created.
    node_claims_created: u64,
    /// How many nodes were removed, by reason.
    nodes_removed: BTreeMap<String, u64>,
    virtual_seconds: u64,
    wall: Wall,
}

#[derive(Debug, Serialize)]
struct Nodes {
    /// By instance type, at the dearest moment.
    peak: BTreeMap<String, usize>,
    /// By instance type, at the end.
    after: BTreeMap<String, usize>,
}

/// Dollars as decimal text, of the nodes that the report lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cost {
    /// Right before the load changes for the first time.
    before_hourly: String,
    peak_hourly: String,
    after_hourly: String,
    /// What all nodes of the run cost.
    spent: String,
    /// The same load and the same seed without consolidation; absent if the comparison was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_consolidation: Option<Baseline>,
}

/// What consolidation is compared with.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Baseline {
    after_hourly: String,
    spent: String,
    /// Dollars per hour that consolidation saves at the end; below zero where it costs.
    saved_hourly: String,
    /// Dollars that it saved during the run.
    saved: String,
}

#[derive(Debug, Serialize)]
struct Pods {
    running: usize,
    pending: usize,
}

/// What depends on the node that the demo runs on.
#[derive(Debug, Serialize)]
struct Wall {
    seconds: f64,
}

impl DemoReport {
    pub(super) fn new(seed: u64, session: &Session, after: &Overview, wall: Duration) -> Self {
        let peak = &session.peak;
        Self {
            version: 2,
            seed,
            stable: session.is_stable,
            nodes: Nodes { peak: peak.nodes_by_type(), after: after.nodes_by_type() },
            cost: Cost {
                before_hourly: session.before.to_string(),
                peak_hourly: hourly(peak).to_string(),
                after_hourly: hourly(after).to_string(),
                spent: session.spent.price().to_string(),
                without_consolidation: None,
            },
            pods: Pods { running: after.pods.running, pending: after.pods.pending },
            node_claims_created: after.claims_created,
            nodes_removed: after.removed.clone(),
            virtual_seconds: session.elapsed.as_secs(),
            wall: Wall { seconds: wall.as_secs_f64() },
        }
    }
}

impl DemoReport {
    /// How long the run took in virtual time.
    pub(super) fn virtual_seconds(&self) -> u64 {
        self.virtual_seconds
    }

    /// Compares with a run of the same load and time without consolidation.
    pub(super) fn compare(&mut self, baseline: &Self) {
        let less = |without: &str, with: &str| {
            let nanos =
                |text: &str| text.parse::<f64>().map(|dollars| (dollars * 1e9).round()).unwrap_or(0.0);
            let saved = nanos(without) - nanos(with);
            let shown = Price::from_dollars(saved.abs() / 1e9).unwrap_or_default();
            if saved < 0.0 { format!("-{shown}") } else { shown.to_string() }
        };
        let (with, without) = (&self.cost, &baseline.cost);
        self.cost.without_consolidation = Some(Baseline {
            after_hourly: without.after_hourly.clone(),
            spent: without.spent.clone(),
            saved_hourly: less(&without.after_hourly, &with.after_hourly),
            saved: less(&without.spent, &with.spent),
        });
    }
}

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &BTreeMap<String, usize>| {
            let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} x {name}")).collect();
            if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
        };
        let removed: Vec<String> =
            self.nodes_removed.iter().map(|(why, count)| format!("{count} {why}")).collect();
        writeln!(f, "\nAfter {} virtual minutes ({:.0} s):", self.virtual_seconds / 60, self.wall.seconds)?;
        writeln!(f, "  nodes at the peak   {}", list(&self.nodes.peak))?;
        writeln!(f, "  nodes now           {}", list(&self.nodes.after))?;
        writeln!(f, "  pods                {} running, {} pending", self.pods.running, self.pods.pending)?;
        writeln!(f, "  NodeClaims created  {}", self.node_claims_created)?;
        writeln!(
            f,
            "  nodes removed       {}",
            if removed.is_empty() { "none".to_owned() } else { removed.join(", ") }
        )?;
        let round = |text: &str| Currency::USD.amount(figures::hourly_text(text));
        writeln!(
            f,
            "  cost                {}/h before the load, {}/h at the peak, {}/h now",
            round(&self.cost.before_hourly),
            round(&self.cost.peak_hourly),
            round(&self.cost.after_hourly)
        )?;
        if let Some(without) = &self.cost.without_consolidation {
            writeln!(
                f,
                "  consolidation       saves {}/h now, and {} of {} during the run (the same load without it)",
                round(&without.saved_hourly),
                round(&without.saved),
                round(&without.spent)
            )?;
        }
        writeln!(f, "\nTry next:")?;
        writeln!(f, "  fleetwright demo --serve              # keep the cluster, and use kubectl on it")?;
        writeln!(f, "  fleetwright demo -f your-manifests/   # your own NodePools and workloads")?;
        writeln!(f, "  fleetwright demo -o json --seed 7     # virtual time: the same run in seconds")?;
        write!(f, "  fleetwright crds | kubectl apply -f - # on a cluster of your own")
    }
}
