//! The cluster as a plan leaves it: what a pod lacks beside the pods that the plan places.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_core::{
    model::{Node, NodeName, Pod, PodUid, Snapshot, StateNode, labels},
    scheduling::{NewClaim, Plan},
};

/// The snapshot with the pods of a plan on their nodes; new nodes are what the plan chose for them.
pub(super) fn with(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    let placed: BTreeSet<PodUid> = pods(plan).map(|pod| pod.uid.clone()).collect();
    let on_nodes: BTreeMap<&str, &[Arc<Pod>]> =
        plan.existing.iter().map(|placement| (placement.node.name(), &*placement.pods)).collect();
    for node in &mut after.nodes {
        let more = on_nodes.get(node.name()).copied().unwrap_or_default();
        // Pods of a node that leaves are placed elsewhere.
        if more.is_empty() && !node.pods.iter().any(|pod| placed.contains(&pod.uid)) {
            continue;
        }
        let stays = node.pods.iter().filter(|pod| !placed.contains(&pod.uid));
        let all: Vec<Arc<Pod>> = stays.cloned().chain(bound(more, &node.name().into())).collect();
        Arc::make_mut(node).set_pods(all);
    }
    for (number, new_claim) in plan.new_claims.iter().enumerate() {
        after.nodes.push(Arc::new(node(snapshot, new_claim, number)));
    }
    after
}

/// The pods that a plan places.
pub(super) fn pods(plan: &Plan) -> impl Iterator<Item = &Arc<Pod>> {
    let on_nodes = plan.existing.iter().flat_map(|placement| &placement.pods);
    on_nodes.chain(plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods))
}

/// A new node with its pods.
fn node(snapshot: &Snapshot, new_claim: &NewClaim, number: usize) -> StateNode {
    let name = NodeName::from(format!("{}-planned-{number}", new_claim.pool.name).as_str());
    let chosen = &new_claim.chosen;
    let mut node = Node::new(name.clone(), snapshot.taken_at);
    node.labels = new_claim.requirements.labels();
    node.labels.extend(new_claim.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    for (key, value) in [
        (labels::NODEPOOL, &*new_claim.pool.name),
        (labels::INSTANCE_TYPE, &*chosen.instance_type),
        (labels::ZONE, &*chosen.zone),
        (labels::CAPACITY_TYPE, &*chosen.capacity_type),
        (labels::HOSTNAME, &*name),
    ] {
        node.labels.insert(key.into(), value.into());
    }
    node.taints.clone_from(&new_claim.taints);
    if let Some(known) = new_claim.instance_types.iter().find(|known| known.name == chosen.instance_type) {
        node.labels.extend(known.requirements.labels());
        node.capacity.clone_from(&known.capacity);
        node.allocatable = known.allocatable();
    }
    StateNode::new(None, Some(Arc::new(node)), bound(&new_claim.pods, &name).collect())
}

/// Pods as they are once they run on a node.
fn bound<'a>(pods: &'a [Arc<Pod>], node: &'a NodeName) -> impl Iterator<Item = Arc<Pod>> + 'a {
    pods.iter().map(|pod| Arc::new(Pod { node: Some(node.clone()), ..(**pod).clone() }))
}
