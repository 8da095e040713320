//! What a command did to pods, for the reader of a fault.

use std::collections::BTreeSet;

use super::super::timeline::Timeline;
use super::MovedPod;

/// Lines of a story at most.
const LINES_MAX: usize = 60;

/// The nodes that `command` removed, its replacements, where each of its pods went, and which other pods were bound meanwhile.
pub(super) fn tell(timeline: &Timeline, moved: &[MovedPod<'_>], command: &str) -> Vec<String> {
    let own: Vec<&MovedPod<'_>> = moved.iter().filter(|pod| pod.command == command).collect();
    let removed: BTreeSet<&str> = own.iter().map(|pod| pod.from.node.as_str()).collect();
    let replacements: Vec<&str> = timeline
        .claims
        .values()
        .filter(|claim| claim.replaces.as_deref() == Some(command))
        .map(|claim| claim.node.as_str())
        .collect();
    let removed: Vec<&str> = removed.into_iter().collect();
    let mut lines = vec![format!(
        "command {command} removed [{}], replacements [{}]",
        removed.join(", "),
        replacements.join(", ")
    )];
    let successor = |pod: &MovedPod<'_>| pod.successor.and_then(|uid| timeline.pods.get(uid));
    for pod in &own {
        let from = &pod.from.node;
        let begin = format!("  at {} s {} left {from}", pod.at.as_secs(), pod.name);
        lines.push(match successor(pod).map(|next| (next, next.bound.as_ref())) {
            None => format!("{begin}, and no pod came in its place"),
            Some((next, None)) => format!("{begin}: {} waits", next.name),
            Some((next, Some((at, node)))) => {
                format!("{begin}: {} on {node} after {} s", next.name, at.saturating_sub(pod.at).as_secs())
            }
        });
    }
    let begin = own.iter().map(|pod| pod.at).min().unwrap_or_default();
    let end = own.iter().filter_map(|pod| successor(pod)?.bound.as_ref().map(|(at, _)| *at)).max();
    let expected: BTreeSet<&str> = own.iter().filter_map(|pod| pod.successor).collect();
    for (_, other) in timeline.pods.iter().filter(|(uid, _)| !expected.contains(uid.as_str())) {
        let Some((at, node)) = other.bound.as_ref().filter(|(at, _)| *at >= begin) else { continue };
        if end.is_none_or(|end| *at <= end) && !other.is_daemon {
            lines.push(format!(
                "  at {} s {} was bound to {node}, by another cause",
                at.as_secs(),
                other.name
            ));
        }
    }
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("  and {more} more lines"));
    }
    lines
}
