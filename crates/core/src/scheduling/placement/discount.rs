//! Removes pods of excluded and deleting nodes from the topology counts.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    model::Pod,
    scheduling::{
        ids::{NodeId, PodClassId},
        placement::{Placement, domains},
        request::Request,
        tables::{Tables, bits::Bits, domains::term_group, topology::GroupKind},
    },
};

/// Removes the pods of excluded nodes, and those of the request that run on deleting nodes, from the counts.
pub(crate) fn forget(
    tables: &mut Tables,
    placement: &mut Placement,
    excluded: &Bits<NodeId>,
    request: &Request<'_>,
) {
    for node_id in excluded.iter() {
        discount_removed(tables, placement, node_id, request.pods);
    }
    let mut leaving: Vec<(NodeId, Arc<Pod>)> = Vec::new();
    if tables.deleting.first_without(excluded, excluded, 0).is_some()
        && request.pods.iter().any(|pod| pod.node.is_some())
    {
        let moving: BTreeSet<_> = request.pods.iter().map(|pod| &pod.uid).collect();
        for node_id in tables.deleting.iter().filter(|node_id| !excluded.has(*node_id)) {
            let pods = tables.nodes[node_id].state.pods.iter().filter(|pod| moving.contains(&pod.uid));
            leaving.extend(pods.map(|pod| (node_id, Arc::clone(pod))));
        }
    }
    for (node_id, pod) in leaving.into_iter().filter(|(_, pod)| pod.is_active()) {
        count_pod(tables, placement, node_id, &pod, -1);
    }
}

/// Removes the pods of an excluded node from the counts, except those that run until its deadline: its NodeClaim has a
/// terminationGracePeriod, and they are not `moved`.
pub(crate) fn discount_removed(
    tables: &mut Tables,
    placement: &mut Placement,
    node_id: NodeId,
    moved: &[Arc<Pod>],
) {
    domains::count_node(tables, placement, node_id, -1);
    let node = Arc::clone(&tables.nodes[node_id].state);
    if node.claim.as_ref().is_none_or(|claim| claim.termination_grace_period.is_none()) {
        return;
    }
    let moved: BTreeSet<_> = moved.iter().map(|pod| &pod.uid).collect();
    let stays = |pod: &&Arc<Pod>| pod.is_active() && pod.is_reschedulable() && !moved.contains(&pod.uid);
    for pod in node.pods.iter().filter(stays) {
        count_pod(tables, placement, node_id, pod, 1);
    }
}

/// Changes the counts by a pod that runs on a node.
fn count_pod(tables: &mut Tables, placement: &mut Placement, node_id: NodeId, pod: &Pod, by: i64) {
    let label_set = tables.topology.label_set(&pod.id.namespace, &pod.labels);
    domains::count_pods(tables, placement, node_id, label_set, by);
    for term in &pod.spec.pod_anti_affinity {
        let group = term_group(tables, pod, term, GroupKind::Anti);
        domains::count_new_groups(tables, placement);
        domains::count_anti_affinity(tables, placement, node_id, &[group], by);
    }
}

/// Removes a pod that the pass has placed on a node from the counts.
pub(crate) fn discount_placed(
    tables: &Tables,
    placement: &mut Placement,
    node_id: NodeId,
    class: PodClassId,
) {
    let class = &tables.classes[class];
    domains::count_pods(tables, placement, node_id, class.label_set, -1);
    domains::count_anti_affinity(tables, placement, node_id, &class.keeps_away, -1);
}

/// Pods of deleting nodes that have to be rescheduled, by node.
pub(crate) fn pods_of_deleting_nodes(tables: &Tables) -> Vec<Arc<Pod>> {
    let mut nodes: Vec<usize> = tables.deleting.iter().map(|node_id| tables.positions[node_id]).collect();
    nodes.sort_unstable();
    let pods = nodes.into_iter().flat_map(|node| tables.snapshot.nodes[node].pods.iter());
    let now = tables.snapshot.taken_at;
    pods.filter(|pod| tables.snapshot.is_currently_reschedulable(pod, now)).cloned().collect()
}
