//! Pods that leave their nodes, taken off the counters of topology.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    model::Pod,
    scheduling::{
        ids::{LabelSetId, NodeId, PodClassId},
        placement::{Placement, domains},
        request::Request,
        tables::{Tables, bits::Bits, pod_classes, topology::GroupKind},
    },
};

/// Takes the pods of excluded nodes, and those of the request that run somewhere, off the counters.
pub(crate) fn forget(
    tables: &mut Tables,
    placement: &mut Placement,
    gone: &Bits<NodeId>,
    request: &Request<'_>,
) {
    for at in gone.iter() {
        discount_removed(tables, placement, at, request.pods);
    }
    let mut leaving: Vec<(NodeId, Arc<Pod>)> = Vec::new();
    if tables.deleting.first_without(gone, gone, 0).is_some()
        && request.pods.iter().any(|pod| pod.node.is_some())
    {
        let moving: BTreeSet<_> = request.pods.iter().map(|pod| &pod.uid).collect();
        for at in tables.deleting.iter().filter(|at| !gone.has(*at)) {
            let pods = tables.nodes[at].state.pods.iter().filter(|pod| moving.contains(&pod.uid));
            leaving.extend(pods.map(|pod| (at, Arc::clone(pod))));
        }
    }
    for (at, pod) in leaving.into_iter().filter(|(_, pod)| pod.is_active()) {
        count_pod(tables, placement, at, &pod, -1);
    }
}

/// Takes the pods of a node that is removed off the counters, but those that run until its deadline: its NodeClaim has a
/// terminationGracePeriod, and they are not `moved`.
pub(crate) fn discount_removed(
    tables: &mut Tables,
    placement: &mut Placement,
    at: NodeId,
    moved: &[Arc<Pod>],
) {
    discount_all(tables, placement, at);
    let node = Arc::clone(&tables.nodes[at].state);
    if node.claim.as_ref().is_none_or(|claim| claim.termination_grace_period.is_none()) {
        return;
    }
    let moved: BTreeSet<_> = moved.iter().map(|pod| &pod.uid).collect();
    let stays = |pod: &&Arc<Pod>| pod.is_active() && pod.is_reschedulable() && !moved.contains(&pod.uid);
    for pod in node.pods.iter().filter(stays) {
        count_pod(tables, placement, at, pod, 1);
    }
}

/// Changes the counters by a pod that runs on a node.
fn count_pod(tables: &mut Tables, placement: &mut Placement, at: NodeId, pod: &Pod, by: i64) {
    let kind = tables.topology.label_set(&pod.id.namespace, &pod.labels);
    count(tables, placement, at, kind, by);
    for term in &pod.spec.pod_anti_affinity {
        let group = pod_classes::term_group(tables, pod, term, GroupKind::Anti);
        domains::count_new_groups(tables, placement);
        for domain in domains::node_domains(tables, placement, group, at) {
            placement.count(group, domain, true, by);
        }
    }
}

/// Takes all pods of a node off the counters.
fn discount_all(tables: &mut Tables, placement: &mut Placement, at: NodeId) {
    for position in 0..tables.nodes[at].label_sets.len() {
        let (kind, pods) = tables.nodes[at].label_sets[position];
        count(tables, placement, at, kind, -i64::from(pods));
    }
    for position in 0..tables.nodes[at].keeps_away.len() {
        let group = tables.nodes[at].keeps_away[position];
        for domain in domains::node_domains(tables, placement, group, at) {
            placement.count(group, domain, true, -1);
        }
    }
}

/// Changes the counters by pods of one kind on a node.
fn count(tables: &mut Tables, placement: &mut Placement, at: NodeId, kind: LabelSetId, by: i64) {
    for position in 0..tables.topology.label_sets[kind].groups.len() {
        let group = tables.topology.label_sets[kind].groups[position];
        if domains::counts_on(tables, placement, group, at) {
            for domain in domains::node_domains(tables, placement, group, at) {
                placement.count(group, domain, false, by);
            }
        }
    }
}

/// Takes a pod of a class that a pass has put on a node off the counters.
pub(crate) fn discount_placed(tables: &mut Tables, placement: &mut Placement, at: NodeId, class: PodClassId) {
    let label_set = tables.classes[class].label_set;
    count(tables, placement, at, label_set, -1);
    for position in 0..tables.classes[class].keeps_away.len() {
        let group = tables.classes[class].keeps_away[position];
        for domain in domains::node_domains(tables, placement, group, at) {
            placement.count(group, domain, true, -1);
        }
    }
}

/// Pods of deleting nodes, which need a place whatever is decided, by node.
pub(crate) fn of_deleting(tables: &Tables) -> Vec<Arc<Pod>> {
    let mut nodes: Vec<usize> = tables.deleting.iter().map(|at| tables.positions[at]).collect();
    nodes.sort_unstable();
    let pods = nodes.into_iter().flat_map(|node| tables.snapshot.nodes[node].pods.iter());
    let now = tables.snapshot.taken_at;
    pods.filter(|pod| tables.snapshot.is_currently_reschedulable(pod, now)).cloned().collect()
}
