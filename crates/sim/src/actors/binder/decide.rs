//! The decision for one pod: a node, or the reasons why there is none. Pure.

use std::collections::BTreeMap;

use super::{
    filter::{self, No},
    node::ClusterView,
    pod::PodInfo,
    score::{self, Score, Wishes},
    topology::Topology,
    volume::{Claims, Wanted},
};
use crate::actors::cache::Key;

/// Where a pod goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the node in the view.
    pub(super) at: usize,
    /// What claims that wait for the pod get.
    pub(super) volumes: BTreeMap<Key, Wanted>,
}

/// Finds the best node for a pod.
///
/// # Errors
/// The message of the pod's condition, in kube-scheduler's form.
pub(super) fn decide(pod: &PodInfo, cluster: &ClusterView) -> Result<Place, String> {
    let all = cluster.nodes.len();
    if all == 0 {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let claims =
        Claims::new(pod, cluster).map_err(|reason| format!("0/{all} nodes are available: {reason}."))?;
    let topology = Topology::new(pod, cluster);
    let wishes = Wishes::new(pod, cluster);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(Score, usize)> = None;
    for (at, node) in cluster.nodes.iter().enumerate() {
        let verdict: Result<(), No> = filter::node_alone(pod, node)
            .and_then(|()| claims.check(node, cluster))
            .and_then(|()| topology.check(node));
        match verdict {
            Ok(()) => {
                let score = score::score(pod, node, &topology, &wishes);
                if best.is_none_or(|(known, _)| score > known) {
                    best = Some((score, at));
                }
            }
            Err(why) => {
                for reason in why {
                    let count = reasons.entry(reason).or_default();
                    *count = count.saturating_add(1);
                }
            }
        }
    }
    match best.and_then(|(_, at)| Some((at, cluster.nodes.get(at)?))) {
        Some((at, node)) => Ok(Place { at, volumes: claims.plan(node, cluster).unwrap_or_default() }),
        None => Err(message(all, &reasons)),
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
fn message(all: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    format!("0/{all} nodes are available: {}.", parts.join(", "))
}
