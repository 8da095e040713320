//! The decision for one pod: a node, or the reasons why no node fits. Pure.

use std::collections::BTreeMap;

use super::{
    filter::{self, Rejections},
    node::{ClusterView, NodeInfo},
    pod::PodInfo,
    score::{self, PreferredAffinity, Score},
    topology::Topology,
    volume::{ClaimVolume, Claims},
};
use crate::actors::cache::Key;

/// The placement of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodPlacement {
    /// Index of the node in the view.
    pub(super) at: usize,
    /// The volumes of its unbound claims.
    pub(super) volumes: BTreeMap<Key, ClaimVolume>,
}

/// The verdicts on equal pods in a round: pods that are bound take room from others, and free none.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// By signature: why no node fits, and whether a pod that is bound may change that.
    failed: BTreeMap<String, (String, bool)>,
    /// By signature: the indices of the nodes that fitted so far.
    fitting: BTreeMap<String, Vec<usize>>,
}

impl Verdicts {
    /// Finds the best node for a pod.
    ///
    /// # Errors
    /// The message of the pod's condition, in kube-scheduler's format.
    pub(super) fn decide(&mut self, pod: &PodInfo, cluster: &ClusterView) -> Result<PodPlacement, String> {
        let failed = self.failed.get(&pod.signature).filter(|_| cluster.nominated_node(pod).is_none());
        if let Some((message, _)) = failed {
            return Err(message.clone());
        }
        let all = || (0..cluster.nodes.len()).collect();
        let verdict = if pod.depends_on_pods || !pod.claims.is_empty() {
            decide(pod, cluster, &mut all())
        } else {
            decide(pod, cluster, self.fitting.entry(pod.signature.clone()).or_insert_with(all))
        };
        if let Err(message) = &verdict {
            self.failed.insert(pod.signature.clone(), (message.clone(), pod.depends_on_pods));
        }
        verdict
    }

    /// A pod was bound: it may satisfy the affinity of others.
    pub(super) fn pod_bound(&mut self) {
        self.failed.retain(|_, (_, depends_on_pods)| !*depends_on_pods);
    }
}

/// Finds the best of the nodes at the indices `fitting`, and removes those that do not fit.
fn decide(pod: &PodInfo, cluster: &ClusterView, fitting: &mut Vec<usize>) -> Result<PodPlacement, String> {
    let all = cluster.nodes.len();
    if all == 0 {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let claims =
        Claims::new(pod, cluster).map_err(|reason| format!("0/{all} nodes are available: {reason}."))?;
    let topology = Topology::new(pod, cluster);
    let preferred = PreferredAffinity::new(pod, cluster);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(Score, usize)> = None;
    let check = |node: &NodeInfo| -> Result<(), Rejections> {
        filter::node_fits(pod, node)
            .and_then(|()| claims.check(node, cluster))
            .and_then(|()| topology.check(node))
    };
    // As kube-scheduler does: the nominated node, if it fits, and no other.
    if let Some((at, node)) = cluster.nominated_node(pod)
        && check(node).is_ok()
    {
        return Ok(PodPlacement { at, volumes: claims.plan(node, cluster).unwrap_or_default() });
    }
    let tried = fitting.len();
    fitting.retain(|at| {
        let Some(node) = cluster.nodes.get(*at) else { return false };
        match check(node) {
            Ok(()) => {
                let score = score::score(pod, node, &topology, &preferred);
                if best.is_none_or(|(known, _)| score > known) {
                    best = Some((score, *at));
                }
                true
            }
            Err(why) => {
                for reason in why {
                    let count = reasons.entry(reason).or_default();
                    *count = count.saturating_add(1);
                }
                false
            }
        }
    });
    if best.is_none() && tried < all {
        // The message counts the nodes that did not fit earlier pods, too.
        return decide(pod, cluster, &mut (0..all).collect());
    }
    match best.and_then(|(_, at)| Some((at, cluster.nodes.get(at)?))) {
        Some((at, node)) => Ok(PodPlacement { at, volumes: claims.plan(node, cluster).unwrap_or_default() }),
        None => Err(message(all, &reasons)),
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
fn message(all: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    format!("0/{all} nodes are available: {}.", parts.join(", "))
}
