//! From a seed to a cluster: pure, so that a seed names its cluster for ever.

mod daemon_sets;
mod nodes;
mod pods;
mod pools;
#[cfg(test)]
mod tests;
mod volumes;
mod workloads;

use std::collections::BTreeSet;

use serde_json::Value;

pub(super) use self::volumes::volume;
use self::workloads::Workload;
use super::dice::Dice;
use super::feature::{self, Feature};

/// Fewest and most pending pods of a cluster.
const PENDING: (u64, u64) = (20, 150);

/// A cluster as manifests, which `fleetwright plan -f` takes: NodePools, nodes with their pods, pending pods.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    /// Names files and objects.
    pub(super) name: String,
    pub(super) features: BTreeSet<Feature>,
    pub(super) objects: Vec<Value>,
}

/// What is generated, and by which chance.
struct Draft {
    dice: Dice,
    features: BTreeSet<Feature>,
    objects: Vec<Value>,
}

impl Draft {
    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// The cluster of a seed.
pub(super) fn cluster(seed: u64) -> Cluster {
    let mut dice = Dice::new(seed);
    let features = feature::draw(&mut dice);
    let mut draft = Draft { dice, features, objects: Vec::new() };
    let pools = pools::add(&mut draft);
    let daemon_sets = daemon_sets::add(&mut draft);
    let pending = draft.dice.between(PENDING.0, PENDING.1);
    let workloads = workloads::draw(&mut draft, pending);
    let mut nodes = nodes::add(&mut draft, &pools);
    if draft.has(Feature::HalfFullNodes) {
        pods::fill(&mut draft, &mut nodes);
    }
    daemon_sets::run(&mut draft, &daemon_sets, &mut nodes);
    for workload in &workloads {
        pods::add(&mut draft, workload, &mut nodes);
    }
    fill_up(&mut draft, pending);
    Cluster { name: format!("seed-{seed}"), features: draft.features, objects: draft.objects }
}

/// Adds plain pods where limits of the workloads left fewer pending pods than were drawn.
fn fill_up(draft: &mut Draft, pending: u64) {
    let there = draft.objects.iter().filter(|object| is_pending(object)).count();
    let missing = pending.saturating_sub(u64::try_from(there).unwrap_or(u64::MAX));
    let mut plain = Workload::plain("plain", missing);
    plain.cpu = draft.dice.pick([250, 500, 900, 1300]);
    plain.memory = draft.dice.pick([256, 700, 1500]);
    pods::add(draft, &plain, &mut []);
}

/// Whether a manifest is a pod that waits for a node.
pub(super) fn is_pending(object: &Value) -> bool {
    object["kind"] == "Pod" && object["spec"]["nodeName"].is_null()
}
