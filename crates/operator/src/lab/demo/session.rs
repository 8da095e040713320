//! One run of the demo: applies the load script, records changes and the peak, and detects the end.

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::model::Price;
use fleetwright_sim::{Overview, Simulator, overview::NodePhase};

use super::{Load, MAX_DURATION, Report};
use crate::cli::Demo;

/// Virtual time between two steps.
pub(super) const STEP: Duration = Duration::from_secs(5);

/// One run.
pub(super) struct Session {
    script: Vec<Load>,
    applied: usize,
    /// Virtual time since the start.
    pub(super) elapsed: Duration,
    /// The last observed state.
    pub(super) now: Overview,
    /// The state with the highest cost.
    pub(super) peak: Overview,
    is_stable: bool,
}

impl Session {
    /// A session with `script`.
    pub(super) fn new(simulator: &Simulator, script: Vec<Load>) -> Self {
        let now = simulator.observe();
        Self { script, applied: 0, elapsed: Duration::ZERO, peak: now.clone(), now, is_stable: false }
    }

    /// Applies due changes of the load and observes the cluster. Returns the changes as text.
    ///
    /// # Errors
    /// If the API server refuses to scale a workload.
    pub(super) async fn step(&mut self, simulator: &Simulator) -> anyhow::Result<Vec<String>> {
        self.elapsed = simulator.elapsed();
        let mut news = Vec::new();
        while let Some(load) = self.script.get(self.applied).filter(|load| load.after <= self.elapsed) {
            load.apply(&simulator.client()).await?;
            news.push(format!("load: {} {} now has {} replicas", load.kind, load.name, load.replicas));
            self.applied += 1;
        }
        let seen = simulator.observe();
        news.extend(changes(&self.now, &seen));
        if seen.hourly > self.peak.hourly {
            self.peak = seen.clone();
        }
        self.now = seen;
        self.is_stable = self.applied == self.script.len() && simulator.is_stable();
        Ok(news)
    }

    /// Whether the demo is over.
    pub(super) fn is_over(&self, options: &Demo) -> bool {
        match options.run_for {
            Some(limit) if !options.until_stable => self.elapsed >= limit,
            limit => self.is_stable || self.elapsed >= limit.unwrap_or(MAX_DURATION),
        }
    }

    /// The report of the run.
    pub(super) fn report(&self, simulator: &Simulator, seed: u64, wall: Duration) -> Report {
        let now = simulator.observe();
        Report::new(seed, self.is_stable, &self.peak, &now, self.elapsed, wall)
    }
}

/// The differences, as text.
fn changes(before: &Overview, after: &Overview) -> Vec<String> {
    let by_name = |overview: &Overview| -> BTreeMap<String, _> {
        overview.nodes.iter().map(|node| (node.name.clone(), node.clone())).collect()
    };
    let (old, new) = (by_name(before), by_name(after));
    let mut news = Vec::new();
    for (name, node) in &new {
        let was = old.get(name).map(|node| node.phase);
        let what = || {
            format!("{} in {}, {}, ${:.4}/h", node.instance_type, node.zone, node.capacity_type, node.price)
        };
        match (was, node.phase) {
            (None | Some(NodePhase::Starting), NodePhase::Ready) => {
                news.push(format!("node {name} is ready: {}", what()))
            }
            (Some(NodePhase::Ready), NodePhase::Disrupted) => {
                news.push(format!("node {name} is to go: {}", what()))
            }
            (Some(NodePhase::Ready | NodePhase::Disrupted), NodePhase::Draining) => {
                news.push(format!("node {name} is draining {} pods", node.pods));
            }
            _ => {}
        }
    }
    for (name, node) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        news.push(format!("node {name} is gone: ${:.4}/h less", node.price));
    }
    if after.pods.pending > 0 && before.pods.pending == 0 {
        news.push(format!("{} pods are waiting for a node", after.pods.pending));
    }
    if after.pods.pending == 0 && before.pods.pending > 0 {
        news.push(format!("every pod has a node; the fleet costs ${:.4}/h", after.hourly));
    }
    if after.hourly < before.hourly && before.hourly > Price::ZERO && after.pods.pending == 0 {
        news.push(format!("the fleet costs ${:.4}/h, was ${:.4}/h", after.hourly, before.hourly));
    }
    news
}
