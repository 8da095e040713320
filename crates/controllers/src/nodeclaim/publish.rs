//! Publishes the notices of `core::nodeclaim` as events.

use fleetwright_core::nodeclaim::Notice;

use super::claimed_node::ClaimedNode;
use crate::{
    events::{Event, regarding, regarding_pod},
    runtime::{Cluster, Recorder},
};

/// Publishes an event about the pod of the notice, otherwise about the NodeClaim and, if it concerns them, its Nodes.
pub(super) fn publish_notice(cluster: &Cluster, recorder: &Recorder, node: &ClaimedNode, notice: &Notice) {
    let (reason, message) = (notice.reason(), notice.message());
    let event = |object| {
        if notice.is_warning() {
            Event::warning(object, reason, message.clone())
        } else {
            Event::normal(object, reason, message.clone())
        }
    };
    if let Some(id) = notice.pod() {
        if let Some(pod) = node.pods.iter().find(|pod| pod.id == *id) {
            recorder.publish(event(regarding_pod(pod)));
        }
        return;
    }
    recorder.publish(event(regarding(&*node.raw)));
    if notice.concerns_node() {
        let index = cluster.index();
        let nodes: Vec<_> = node.nodes.iter().filter_map(|node| index.node(&node.name).cloned()).collect();
        drop(index);
        for node in nodes {
            recorder.publish(event(regarding(&*node)));
        }
    }
}
