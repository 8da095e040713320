//! One run of the demo: plays the script, notices what changes, remembers the peak, knows when it is over.

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::model::Price;
use fleetwright_sim::{Overview, World, overview::NodePhase};

use super::{LIMIT, Load, Report};
use crate::cli::Demo;

/// How much virtual time passes between two looks.
pub(super) const STEP: Duration = Duration::from_secs(5);

/// One run.
pub(super) struct Session {
    script: Vec<Load>,
    played: usize,
    /// Virtual time since the start.
    pub(super) elapsed: Duration,
    /// What was seen last.
    pub(super) now: Overview,
    /// The dearest moment.
    pub(super) peak: Overview,
    settled: bool,
}

impl Session {
    /// Begins with `script`.
    pub(super) fn new(world: &World, script: Vec<Load>) -> Self {
        let now = world.observe();
        Self { script, played: 0, elapsed: Duration::ZERO, peak: now.clone(), now, settled: false }
    }

    /// Plays what is due and looks around. Returns what changed, in sentences.
    ///
    /// # Errors
    /// Where the API server refuses to scale a workload.
    pub(super) async fn step(&mut self, world: &World) -> anyhow::Result<Vec<String>> {
        self.elapsed = world.elapsed();
        let mut news = Vec::new();
        while let Some(load) = self.script.get(self.played).filter(|load| load.after <= self.elapsed) {
            load.apply(&world.client()).await?;
            news.push(format!("load: {} {} now has {} replicas", load.kind, load.name, load.replicas));
            self.played += 1;
        }
        let seen = world.observe();
        news.extend(changes(&self.now, &seen));
        if seen.hourly > self.peak.hourly {
            self.peak = seen.clone();
        }
        self.now = seen;
        self.settled = self.played == self.script.len() && world.is_settled();
        Ok(news)
    }

    /// Whether the demo ends here.
    pub(super) fn is_over(&self, options: &Demo) -> bool {
        match options.run_for {
            Some(limit) if !options.until_settled => self.elapsed >= limit,
            limit => self.settled || self.elapsed >= limit.unwrap_or(LIMIT),
        }
    }

    /// Sums the run up.
    pub(super) fn report(&self, world: &World, seed: u64, wall: Duration) -> Report {
        let now = world.observe();
        Report::new(seed, self.settled, &self.peak, &now, self.elapsed, wall)
    }
}

/// What is different, in sentences.
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
