//! The cluster as a plan leaves it: its pods on their nodes, and its NodeClaims as the nodes that were chosen for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_core::{
    model::{
        Condition, ConditionStatus, Node, NodeClaim, NodeName, Pod, PodUid, Snapshot, StateNode, labels,
        nodeclaim::ConditionType,
    },
    scheduling::{NewClaim, Plan},
};

/// The conditions of a node that is ready for pods.
const READY: [ConditionType; 3] =
    [ConditionType::Launched, ConditionType::Registered, ConditionType::Initialized];

/// The first part of the provider ids of planned nodes.
const PROVIDER: &str = "plan://";

/// The snapshot with the pods of a plan on their nodes; new nodes are what the plan chose for them, and called after `word`.
pub(crate) fn with(snapshot: &Snapshot, plan: &Plan, word: &str) -> Snapshot {
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
        let node = Arc::make_mut(node);
        node.set_pods(all);
        if let Some(claim) = &mut node.claim {
            Arc::make_mut(claim).last_pod_event = Some(snapshot.taken_at);
        }
    }
    for (number, new_claim) in plan.new_claims.iter().enumerate() {
        let name = format!("{}-{word}-{number}", new_claim.pool.name);
        after.nodes.push(Arc::new(node(snapshot, new_claim, &name)));
    }
    after
}

/// The pods that a plan places.
pub(crate) fn pods(plan: &Plan) -> impl Iterator<Item = &Arc<Pod>> {
    let on_nodes = plan.existing.iter().flat_map(|placement| &placement.pods);
    on_nodes.chain(plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods))
}

/// Whether a node is one of those that this module makes.
pub(crate) fn is_planned(node: &StateNode) -> bool {
    let id = node.claim.as_ref().and_then(|claim| claim.provider_id.as_ref());
    id.is_some_and(|id| id.starts_with(PROVIDER))
}

/// A new NodeClaim as a node of that name that is ready and has its pods.
pub(crate) fn node(snapshot: &Snapshot, new_claim: &NewClaim, name: &str) -> StateNode {
    let now = snapshot.taken_at;
    let chosen = &new_claim.chosen;
    let mut node = Node::new(NodeName::from(name), now);
    node.labels = new_claim.requirements.labels();
    node.labels.extend(new_claim.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    for (key, value) in [
        (labels::NODEPOOL, &*new_claim.pool.name),
        (labels::INSTANCE_TYPE, &*chosen.instance_type),
        (labels::ZONE, &*chosen.zone),
        (labels::CAPACITY_TYPE, &*chosen.capacity_type),
        (labels::HOSTNAME, name),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ] {
        node.labels.insert(key.into(), value.into());
    }
    node.taints.clone_from(&new_claim.taints);
    if let Some(known) = new_claim.instance_types.iter().find(|known| known.name == chosen.instance_type) {
        node.labels.extend(known.requirements.labels());
        node.capacity.clone_from(&known.capacity);
        node.allocatable = known.allocatable();
    }
    (node.ready, node.ready_since) = (true, Some(now));
    let is_true =
        Condition { status: ConditionStatus::True, reason: "Planned".into(), message: "".into(), since: now };
    let claim = NodeClaim {
        pool: Some(new_claim.pool.name.clone()),
        labels: node.labels.clone(),
        annotations: new_claim.annotations.clone(),
        taints: new_claim.taints.clone(),
        requirements: new_claim.requirements.clone(),
        requests: new_claim.requests.clone(),
        capacity: node.capacity.clone(),
        allocatable: node.allocatable.clone(),
        provider_id: Some(format!("{PROVIDER}{name}").as_str().into()),
        node_name: Some(node.name.clone()),
        last_pod_event: Some(now),
        conditions: READY.into_iter().map(|condition| (condition, is_true.clone())).collect(),
        ..NodeClaim::new(name, new_claim.pool.template.class.clone(), now)
    };
    let pods = bound(&new_claim.pods, &node.name).collect();
    StateNode::new(Some(Arc::new(claim)), Some(Arc::new(node)), pods)
}

/// Pods as they are once they run on a node.
fn bound<'a>(pods: &'a [Arc<Pod>], node: &'a NodeName) -> impl Iterator<Item = Arc<Pod>> + 'a {
    pods.iter().map(|pod| Arc::new(Pod { node: Some(node.clone()), ..(**pod).clone() }))
}
