//! Digests of what decisions read.

use std::sync::Arc;

use fleetwright_kube_semantics::fnv::{BASIS_64, fnv1a_64_more};
use jiff::Timestamp;

use super::record::DecisionInputs;
use crate::model::{Pod, Resources, Snapshot, StateNode};

/// The inputs of a plan for `pods`.
#[must_use]
pub fn inputs_of_plan(snapshot: &Snapshot, pods: &[Arc<Pod>]) -> DecisionInputs {
    let mut digest = Digest::new();
    for pod in pods {
        digest.text(&pod.uid);
        digest.resources(pod.requests());
    }
    inputs(snapshot, digest, pods.len())
}

/// The inputs of a disruption pass.
#[must_use]
pub fn inputs_of_nodes(snapshot: &Snapshot) -> DecisionInputs {
    inputs(snapshot, Digest::new(), 0)
}

fn inputs(snapshot: &Snapshot, mut digest: Digest, pods: usize) -> DecisionInputs {
    for node in &snapshot.nodes {
        digest.node(node);
    }
    for pool in &snapshot.pools {
        digest.text(&pool.name);
        digest.text(pool.hash.as_ref().map_or("", |(hash, _)| hash));
        digest.number(i64::from(pool.weight));
        digest.number(i64::from(pool.ready));
        // NodePools often share one catalogue's instance types; each is a handful of numbers.
        for instance_type in snapshot.catalog(&pool.name).into_iter().flat_map(|all| &all.instance_types) {
            digest.text(&instance_type.name);
            for offering in instance_type.offerings.iter().filter(|offering| offering.available) {
                digest.number(offering.price.nanos());
            }
        }
    }
    DecisionInputs {
        digest: digest.to_string(),
        pods,
        nodes: snapshot.nodes.len(),
        node_pools: snapshot.pools.len(),
    }
}

/// FNV-1a over texts and numbers. It is for comparing decisions, not against forgery.
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn new() -> Self {
        Self(BASIS_64)
    }

    /// A text, with an end that no text contains.
    pub(super) fn text(&mut self, text: &str) {
        self.0 = fnv1a_64_more(self.0, text.bytes().chain([0xff]));
    }

    fn number(&mut self, number: i64) {
        self.0 = fnv1a_64_more(self.0, number.to_le_bytes());
    }

    fn resources(&mut self, resources: &Resources) {
        for (_, amount) in resources.iter() {
            self.number(amount);
        }
    }

    fn node(&mut self, node: &StateNode) {
        self.text(node.name());
        self.text(node.claim.as_ref().map_or("", |claim| &claim.uid));
        self.resources(&node.requested);
        self.number(i64::try_from(node.pods.len()).unwrap_or(i64::MAX));
        self.number(i64::from(node.marked_for_deletion) + 2 * i64::from(node.is_initialized()));
    }
}

/// 16 hexadecimal digits.
impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The name of a process in ids: the second of its start, then 24 bits of the seed of its names and of the cluster. Replicas that start
/// within one second have other seeds.
#[must_use]
pub fn process_name(start: Timestamp, seed: u64, cluster_uid: &str) -> String {
    let mixed = fnv1a_64_more(BASIS_64, seed.to_le_bytes().into_iter().chain(cluster_uid.bytes()));
    format!("{:08x}{:06x}", start.as_second(), mixed >> 40)
}
