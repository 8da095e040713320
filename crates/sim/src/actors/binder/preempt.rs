//! Preemption: pods of lower priority whose removal lets an unschedulable pod fit on a node. As in kube-scheduler, the node with the
//! fewest victims is taken; PodDisruptionBudgets, topology and volumes are not considered.

use std::sync::Arc;

use super::{
    filter,
    node::{ClusterView, NodeInfo},
    pod::PodInfo,
};

/// A node and the pods that are to be deleted there.
pub(super) struct Preemption {
    /// The node.
    pub(super) node: String,
    /// The pods; none if those that block the pod are terminating already.
    pub(super) victims: Vec<Arc<PodInfo>>,
}

/// The preemption that makes room for `pod`.
pub(super) fn preempt(pod: &PodInfo, cluster: &ClusterView) -> Option<Preemption> {
    if cluster.lowest.is_none_or(|lowest| lowest >= pod.priority())
        || pod.spec()?.preemption_policy.as_deref() == Some("Never")
    {
        return None;
    }
    let on = |node: &NodeInfo| Some((victims(pod, node)?, node.name.clone()));
    let (victims, node) = cluster.nodes.iter().filter_map(on).min_by_key(|(victims, _)| victims.len())?;
    let victims = victims.into_iter().filter(|victim| !is_terminating(victim)).collect();
    Some(Preemption { node, victims })
}

/// The pods of lower priority without which `pod` fits on a node; those of the highest priority stay if they may.
fn victims(pod: &PodInfo, node: &NodeInfo) -> Option<Vec<Arc<PodInfo>>> {
    let (mut lower, higher): (Vec<_>, Vec<_>) =
        node.pods.iter().cloned().partition(|other| other.priority() < pod.priority());
    if lower.is_empty() {
        return None;
    }
    let mut rest = node.with_pods(higher);
    filter::node_fits(pod, &rest).ok()?;
    // Terminating pods leave in any case.
    lower.sort_by_key(|other| (is_terminating(other), std::cmp::Reverse(other.priority())));
    let mut victims = Vec::new();
    for other in lower {
        let mut with_it = rest.clone();
        with_it.add(other.clone());
        if !is_terminating(&other) && filter::node_fits(pod, &with_it).is_ok() {
            rest = with_it;
        } else {
            victims.push(other);
        }
    }
    Some(victims)
}

fn is_terminating(pod: &PodInfo) -> bool {
    pod.pod.metadata.deletion_timestamp.is_some()
}
