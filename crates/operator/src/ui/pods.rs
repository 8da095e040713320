//! The pods of one node, for who selects it: the data of the page has their number alone.

use fleetwright_core::model::{Pod, StateNode};
use serde::Serialize;

use crate::fleet::ResourceUse;

/// The most pods that are listed. kubelet runs 110 by default, and at most some hundred where addresses allow it.
const MAX_PODS: usize = 500;

/// The pods of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodePods {
    /// How many there are.
    total: usize,
    /// At most [`MAX_PODS`] of them: those with the largest requests of CPU first, then by name.
    pods: Vec<NodePod>,
}

/// A pod of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePod {
    /// `namespace/name`.
    pod: String,
    /// `kind/name` of the controller that owns it.
    owner: Option<String>,
    /// What it requests; `allocatable` is 0.
    requests: Vec<ResourceUse>,
}

impl NodePods {
    /// Those of a node.
    pub(super) fn of(node: &StateNode) -> Self {
        let mut pods: Vec<&Pod> = node.pods.iter().map(|pod| &**pod).collect();
        pods.sort_by_key(|pod| (std::cmp::Reverse(pod.requests().cpu()), &pod.id));
        let total = pods.len();
        pods.truncate(MAX_PODS);
        let row = |pod: &Pod| NodePod {
            pod: pod.id.to_string(),
            owner: pod.owner.as_ref().map(|owner| format!("{}/{}", owner.plain_kind(), owner.name)),
            requests: ResourceUse::requests(pod.requests()),
        };
        Self { total, pods: pods.into_iter().map(row).collect() }
    }
}
