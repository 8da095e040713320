//! The report of a run, as JSON and text.

use std::{collections::BTreeMap, fmt, time::Duration};

use fleetwright_core::model::Price;
use fleetwright_sim::Overview;
use serde::Serialize;

/// The sum of a run. Its JSON form is the same for the same seed, but for `wall`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
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

/// Dollars per hour as decimal text.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cost {
    peak_hourly: String,
    after_hourly: String,
    saved_hourly: String,
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

impl Report {
    pub(super) fn new(
        seed: u64,
        is_stable: bool,
        peak: &Overview,
        after: &Overview,
        elapsed: Duration,
        wall: Duration,
    ) -> Self {
        let saved: Price = peak.hourly.saturating_sub(after.hourly);
        Self {
            version: 1,
            seed,
            stable: is_stable,
            nodes: Nodes { peak: peak.nodes_by_type(), after: after.nodes_by_type() },
            cost: Cost {
                peak_hourly: peak.hourly.to_string(),
                after_hourly: after.hourly.to_string(),
                saved_hourly: saved.to_string(),
            },
            pods: Pods { running: after.pods.running, pending: after.pods.pending },
            node_claims_created: after.claims_created,
            nodes_removed: after.removed.clone(),
            virtual_seconds: elapsed.as_secs(),
            wall: Wall { seconds: wall.as_secs_f64() },
        }
    }
}

impl fmt::Display for Report {
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
        writeln!(
            f,
            "  cost                ${}/h at the peak, ${}/h now: ${}/h saved",
            self.cost.peak_hourly, self.cost.after_hourly, self.cost.saved_hourly
        )?;
        writeln!(f, "\nTry next:")?;
        writeln!(f, "  fleetwright demo --serve              # keep the cluster, and use kubectl on it")?;
        writeln!(f, "  fleetwright demo -f your-manifests/   # your own NodePools and workloads")?;
        writeln!(f, "  fleetwright demo -o json --seed 7     # virtual time: the same run in seconds")?;
        write!(f, "  fleetwright crds | kubectl apply -f - # on a cluster of your own")
    }
}
