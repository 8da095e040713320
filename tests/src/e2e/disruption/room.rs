//! Whether a pod would have had a node by its requests: CPU and memory, and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::timeline::{NodeLife, PodLife, Timeline};

/// Whether a node had room for `pod` at a time, other than those of `removed` and those that another command removes. A pod takes room
/// from its binding until it terminates.
pub(super) fn had_room(timeline: &Timeline, pod: &PodLife, at: Duration, removed: &[&str]) -> bool {
    let is_there = |(name, node): &(&String, &NodeLife)| {
        node.ready <= at && node.ended.is_none_or(|ended| ended > at) && !removed.contains(&name.as_str())
    };
    let nodes = timeline.nodes.iter().filter(is_there);
    let mut free: BTreeMap<&str, [i64; 2]> =
        nodes.map(|(name, node)| (name.as_str(), node.allocatable)).collect();
    for other in timeline.pods.values() {
        let Some((bound, node)) = &other.bound else { continue };
        if *bound <= at
            && other.ended.is_none_or(|ended| ended > at)
            && let Some(room) = free.get_mut(node.as_str())
        {
            *room = [room[0] - other.requests[0], room[1] - other.requests[1]];
        }
    }
    free.values().any(|room| room[0] >= pod.requests[0] && room[1] >= pod.requests[1])
}
