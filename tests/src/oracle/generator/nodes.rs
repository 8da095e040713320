//! Existing nodes, half full.

use serde_json::json;

use super::super::catalogue::{CAPACITY_TYPES, InstanceType, instance_types};
use super::super::feature::Feature;
use super::super::node::{self, NodeSpec};
use super::Draft;
use super::pools::Pool;

/// An existing node and the room that it has left.
#[derive(Debug, Clone)]
pub(super) struct Existing {
    pub(super) spec: NodeSpec,
    /// Millicores.
    pub(super) cpu: u64,
    /// MiB.
    pub(super) memory: u64,
    pub(super) pods: u64,
}

impl Existing {
    /// Takes room for a pod; false where there is none.
    pub(super) fn take(&mut self, cpu: u64, memory: u64) -> bool {
        let fits = self.cpu >= cpu && self.memory >= memory && self.pods > 0;
        if fits {
            (self.cpu, self.memory, self.pods) = (self.cpu - cpu, self.memory - memory, self.pods - 1);
        }
        fits
    }
}

/// Adds existing nodes where a feature needs them.
pub(super) fn add(draft: &mut Draft, pools: &[Pool]) -> Vec<Existing> {
    if !draft.has(Feature::HalfFullNodes) && !draft.has(Feature::Rollouts) {
        return Vec::new();
    }
    let count = draft.dice.between(3, 9);
    let nodes: Vec<Existing> = (0..count).filter_map(|number| draw(draft, pools, number)).collect();
    for node in &nodes {
        draft.objects.extend(node::manifests(&node.spec));
    }
    nodes
}

fn draw(draft: &mut Draft, pools: &[Pool], number: u64) -> Option<Existing> {
    let pool = draft.dice.one(pools)?.clone();
    let zone = *draft.dice.one(&pool.zones)?;
    let capacity_type = draft.dice.pick(CAPACITY_TYPES);
    let fitting: Vec<InstanceType> = instance_types()
        .into_iter()
        .filter(|each| each.architecture == pool.architecture && each.cpu >= 4000)
        .filter(|each| each.is_offered(zone, capacity_type))
        .collect();
    let instance_type = draft.dice.one(&fitting)?.clone();
    let (cpu, memory) = instance_type.room();
    let pods = instance_type.pods;
    let spec = NodeSpec {
        name: format!("old{number}"),
        pool: pool.name.to_owned(),
        instance_type,
        zone: zone.to_owned(),
        capacity_type: capacity_type.to_owned(),
        labels: pool.labels.as_object().cloned().unwrap_or_default(),
        taints: json!(pool.taints),
    };
    Some(Existing { spec, cpu, memory, pods })
}
