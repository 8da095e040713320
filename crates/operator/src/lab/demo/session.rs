//! One run of the demo: applies the load script, records changes and the peak, and detects the end.

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::model::{Currency, Price};
use fleetwright_sim::{Overview, Simulator, overview::NodePhase};
use kube::api::{Api, ListParams, Patch, PatchParams};

use super::{Load, MAX_DURATION};
use crate::{cli::Demo, figures};

/// Virtual time between two steps.
pub(super) const STEP: Duration = Duration::from_secs(5);

/// How long nothing happens until the fleet is at rest: a node that replaced another is left alone for ten minutes, and every node is looked at again
/// within five.
const REST: Duration = Duration::from_secs(16 * 60);

/// One run.
pub(super) struct Session {
    script: Vec<Load>,
    applied: usize,
    /// Virtual time since the start.
    pub(super) elapsed: Duration,
    /// When something last happened.
    busy: Duration,
    /// The last observed state.
    pub(super) now: Overview,
    /// The cost right before the load changes for the first time, or until now.
    pub(super) before: Price,
    /// The state with the highest cost.
    pub(super) peak: Overview,
    /// The cost of all nodes so far.
    pub(super) spent: Spent,
    pub(super) is_stable: bool,
}

/// The cost of nodes over time, in nano-dollars per hour times seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent(i128);

impl Spent {
    fn add(&mut self, hourly: Price, time: Duration) {
        self.0 += i128::from(hourly.nanos()) * i128::from(time.as_secs());
    }

    /// The sum.
    pub(super) fn price(self) -> Price {
        Price::from_nanos(i64::try_from(self.0 / 3600).unwrap_or(i64::MAX))
    }
}

/// The price of the nodes of an overview: of those that it lists, so that figures add up.
pub(super) fn hourly(overview: &Overview) -> Price {
    overview.nodes.iter().map(|node| node.price).sum()
}

/// Switches consolidation off, for a comparison.
///
/// # Errors
/// If the API server refuses.
pub(super) async fn without_consolidation(simulator: &Simulator) -> anyhow::Result<()> {
    let pools: Api<fleetwright_api::NodePool> = Api::all(simulator.client());
    for pool in pools.list(&ListParams::default()).await?.items {
        let never = serde_json::json!({"spec": {"disruption": {"consolidateAfter": "Never"}}});
        let name = pool.metadata.name.unwrap_or_default();
        pools.patch(&name, &PatchParams::default(), &Patch::Merge(never)).await?;
    }
    Ok(())
}

impl Session {
    /// A session with `script`.
    pub(super) fn new(simulator: &Simulator, script: Vec<Load>) -> Self {
        let now = simulator.observe();
        Self {
            script,
            applied: 0,
            elapsed: Duration::ZERO,
            busy: Duration::ZERO,
            before: hourly(&now),
            peak: now.clone(),
            now,
            spent: Spent::default(),
            is_stable: false,
        }
    }

    /// Applies due changes of the load and observes the cluster. Returns the changes as text.
    ///
    /// # Errors
    /// If the API server refuses to scale a workload.
    pub(super) async fn step(&mut self, simulator: &Simulator) -> anyhow::Result<Vec<String>> {
        let before = std::mem::replace(&mut self.elapsed, simulator.elapsed());
        self.spent.add(hourly(&self.now), self.elapsed.saturating_sub(before));
        let mut news = Vec::new();
        while let Some(load) = self.script.get(self.applied).filter(|load| load.after <= self.elapsed) {
            load.apply(&simulator.client()).await?;
            news.push(format!("load: {} {} now has {} replicas", load.kind, load.name, load.replicas));
            self.applied += 1;
        }
        let seen = simulator.observe();
        news.extend(changes(&self.now, &seen));
        if hourly(&seen) > hourly(&self.peak) {
            self.peak = seen.clone();
        }
        if self.applied == 0 {
            self.before = hourly(&seen);
        }
        self.now = seen;
        if !news.is_empty() || self.applied < self.script.len() || !simulator.is_stable() {
            self.busy = self.elapsed;
        }
        self.is_stable = self.elapsed.saturating_sub(self.busy) >= REST;
        Ok(news)
    }

    /// Whether the demo is over.
    pub(super) fn is_over(&self, options: &Demo) -> bool {
        match options.run_for {
            Some(limit) if !options.until_stable => self.elapsed >= limit,
            limit => self.is_stable || self.elapsed >= limit.unwrap_or(MAX_DURATION),
        }
    }
}

/// The differences, as text.
fn changes(before: &Overview, after: &Overview) -> Vec<String> {
    let by_name = |overview: &Overview| -> BTreeMap<String, _> {
        overview.nodes.iter().map(|node| (node.name.clone(), node.clone())).collect()
    };
    let (old, new) = (by_name(before), by_name(after));
    let hour = |price: Price| format!("{}/h", figures::per_hour(Currency::USD, price.dollars()));
    let mut news = Vec::new();
    for (name, node) in &new {
        let was = old.get(name).map(|node| node.phase);
        let what = || {
            format!("{} in {}, {}, {}", node.instance_type, node.zone, node.capacity_type, hour(node.price))
        };
        match (was, node.phase) {
            (None | Some(NodePhase::Starting), NodePhase::Ready) => {
                news.push(format!("node {name} ready: {}", what()))
            }
            (Some(NodePhase::Ready), NodePhase::Disrupted) => {
                news.push(format!("node {name} selected for disruption: {}", what()))
            }
            (Some(NodePhase::Ready | NodePhase::Disrupted), NodePhase::Draining) => {
                news.push(format!("node {name} draining {}", figures::count(node.pods, "pod")));
            }
            _ => {}
        }
    }
    for (name, node) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        // A node whose instance ended before costs nothing any more.
        let less = Some(node.price).filter(|price| *price > Price::ZERO);
        let less = less.map(|price| format!(" (-{})", hour(price))).unwrap_or_default();
        news.push(format!("node {name} terminated{less}"));
    }
    let (was, is) = (hourly(before), hourly(after));
    if after.pods.pending > 0 && before.pods.pending == 0 {
        news.push(format!("{} pending", figures::count(after.pods.pending, "pod")));
    }
    if after.pods.pending == 0 && before.pods.pending > 0 {
        news.push(format!("no pod pending; {} at {}", figures::count(after.nodes.len(), "node"), hour(is)));
    }
    if is < was && after.pods.pending == 0 {
        news.push(format!(
            "{} at {}, was {}",
            figures::count(after.nodes.len(), "node"),
            hour(is),
            hour(was)
        ));
    }
    news
}
