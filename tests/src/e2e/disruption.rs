//! The judge of disruption: what became of the pods that commands evicted. It reads a record of what happened, and shares no code with what
//! decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::timeline::{ClaimLife, Timeline};

/// The time from an eviction to a binding where a node has room. The controller of the pod replaces it within a second. A pod that must not
/// run beside the one that terminates waits for its end: at most 10 s, as long as fake kubelets and grace periods take here. kube-scheduler
/// tries a refused pod again after at most 10 s. The fastest boot of the realistic cloud takes 25 s, so that no launch hides in it.
const MARGIN: Duration = Duration::from_secs(20);
/// How long no node may be launched for pods that consolidation moved.
const RETURN: Duration = Duration::from_secs(600);

/// What became of the evicted pods.
#[derive(Debug, Default)]
pub(crate) struct DisruptionVerdict {
    /// Commands that evicted a pod.
    pub(crate) commands: usize,
    /// Pods that they evicted.
    pub(crate) moved: usize,
    /// The longest time from an eviction to the binding of the pod that replaces it.
    pub(crate) longest: Duration,
    /// What must not have happened, a line each.
    pub(crate) faults: Vec<String>,
}

/// A pod that a command evicted, with the one that its controller created for it.
struct MovedPod<'a> {
    name: &'a str,
    from: &'a ClaimLife,
    command: &'a str,
    at: Duration,
    /// UID of the pod that replaces it; `None` if its controller wants fewer pods.
    successor: Option<&'a str>,
}

/// Judges what happened.
pub(crate) fn judge(timeline: &Timeline) -> DisruptionVerdict {
    let moved = moved(timeline);
    let commands: BTreeSet<&str> = moved.iter().map(|pod| pod.command).collect();
    let mut verdict =
        DisruptionVerdict { commands: commands.len(), moved: moved.len(), ..DisruptionVerdict::default() };
    for pod in &moved {
        let Some(successor) = pod.successor.and_then(|uid| timeline.pods.get(uid)) else { continue };
        let until = successor.bound.as_ref().map(|(at, _)| *at).or(successor.ended);
        let took = until.unwrap_or(timeline.now).saturating_sub(pod.at);
        verdict.longest = verdict.longest.max(took);
        let allowed = boot(timeline, pod.command) + MARGIN;
        if took > allowed {
            let (name, node, successor) = (pod.name, &pod.from.node, &successor.name);
            let seconds = took.as_secs();
            let end = if until.is_some() { "is bound" } else { "still waits" };
            verdict.faults.push(format!(
                "{name} was evicted from {node} by command {} ({}); {successor} in its place {end} after {seconds} s, at most {} s are allowed",
                pod.command, pod.from.reason, allowed.as_secs(),
            ));
        }
    }
    verdict.faults.extend(timeline.claims.values().filter_map(|claim| returned(claim, &moved)));
    verdict
}

/// A NodeClaim that was launched for pods which consolidation had moved.
fn returned(claim: &ClaimLife, moved: &[MovedPod<'_>]) -> Option<String> {
    if claim.replaces.is_some() {
        return None;
    }
    let is_for = |pod: &&MovedPod<'_>| {
        let since = claim.created.checked_sub(pod.at);
        pod.successor.is_some_and(|uid| claim.pods.iter().any(|wanted| wanted == uid))
            && since.is_some_and(|since| since < RETURN)
            && matches!(&*pod.from.reason, "Underutilized" | "Empty")
    };
    let pods: Vec<&MovedPod<'_>> = moved.iter().filter(is_for).collect();
    let first = pods.first()?;
    Some(format!(
        "NodeClaim {} was launched for {} pods that consolidation had moved, {} from {} by command {} {} s before",
        claim.name,
        pods.len(),
        first.name,
        first.from.node,
        first.command,
        claim.created.saturating_sub(first.at).as_secs(),
    ))
}

/// The longest time from creation to initialization of the replacements of a command; zero without any.
fn boot(timeline: &Timeline, command: &str) -> Duration {
    let replacements = timeline.claims.values().filter(|claim| claim.replaces.as_deref() == Some(command));
    let times = replacements.map(|claim| {
        claim.initialized.map_or(Duration::ZERO, |initialized| initialized.saturating_sub(claim.created))
    });
    times.max().unwrap_or_default()
}

/// The evicted pods of commands, each with its successor: of pods with one controller, the first created one belongs to the first eviction.
fn moved(timeline: &Timeline) -> Vec<MovedPod<'_>> {
    let by_node: BTreeMap<&str, &ClaimLife> =
        timeline.claims.values().map(|claim| (claim.node.as_str(), claim)).collect();
    let mut evictions: Vec<_> = timeline.pods.values().filter_map(|pod| Some((pod.evicted?, pod))).collect();
    evictions.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    let mut created: Vec<_> = timeline.pods.iter().collect();
    created.sort_by_key(|(_, pod)| pod.created);
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut moved = Vec::new();
    for (at, pod) in evictions {
        // Two watch events of one moment may be noted in either order.
        let is_next = |(uid, other): &&(&String, &super::timeline::PodLife)| {
            !pod.owner.is_empty()
                && other.owner == pod.owner
                && other.created + Duration::from_millis(500) >= at
                && !taken.contains(uid.as_str())
        };
        let successor = created.iter().find(is_next).map(|(uid, _)| uid.as_str());
        taken.extend(successor);
        let from = pod.bound.as_ref().and_then(|(_, node)| by_node.get(node.as_str()));
        let Some((from, command)) = from.and_then(|claim| Some((*claim, claim.command.as_deref()?))) else {
            continue;
        };
        moved.push(MovedPod { name: &pod.name, from, command, at, successor });
    }
    moved
}

#[cfg(test)]
mod tests {
    //! Pods that move well, wait for too long, or bring a node back.
    use super::super::timeline::PodLife;
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pod(name: &str, created: u64, bound: Option<(u64, &str)>, evicted: Option<u64>) -> (String, PodLife) {
        let life = PodLife {
            name: name.to_owned(),
            owner: "replica-set".to_owned(),
            created: seconds(created),
            bound: bound.map(|(at, node)| (seconds(at), node.to_owned())),
            evicted: evicted.map(seconds),
            ended: evicted.map(seconds),
        };
        (name.to_owned(), life)
    }

    fn claim(name: &str, created: u64, pods: &[&str]) -> ClaimLife {
        ClaimLife {
            name: name.to_owned(),
            created: seconds(created),
            initialized: Some(seconds(created + 40)),
            node: format!("node-{name}"),
            pods: pods.iter().map(|&pod| pod.to_owned()).collect(),
            ..ClaimLife::default()
        }
    }

    /// Pod `a` leaves node `old` at 100 s by a command; `b` in its place is bound at this time.
    fn timeline(bound: Option<u64>, replaced: bool) -> Timeline {
        let mut old = claim("old", 0, &["a"]);
        (old.command, old.reason) = (Some("x".to_owned()), "Underutilized".to_owned());
        let mut new = claim("new", 50, &[]);
        new.replaces = replaced.then(|| "x".to_owned());
        let pods = [
            pod("a", 0, Some((10, "node-old")), Some(100)),
            pod("b", 100, bound.map(|at| (at, "node-new")), None),
        ];
        let claims = [old, new].into_iter().map(|claim| (claim.name.clone(), claim)).collect();
        Timeline { pods: pods.into_iter().collect(), claims, now: seconds(1000) }
    }

    #[test]
    fn a_moved_pod_is_bound_within_the_boot_time_of_the_replacement() {
        for (bound, replaced, faults) in [
            (Some(120), false, 0),
            (Some(121), false, 1),
            (Some(160), true, 0),
            (Some(161), true, 1),
            (None, true, 1),
        ] {
            let verdict = judge(&timeline(bound, replaced));
            assert_eq!((verdict.commands, verdict.moved), (1, 1));
            assert_eq!(verdict.faults.len(), faults, "{bound:?}, {replaced}: {:?}", verdict.faults);
        }
    }

    #[test]
    fn no_node_is_launched_for_what_was_moved() {
        for (created, pods, replaces, faults) in [
            (110, "b", None, 1),
            (699, "b", None, 1),
            (700, "b", None, 0),
            (110, "c", None, 0),
            (110, "b", Some("y"), 0),
        ] {
            let mut timeline = timeline(Some(101), false);
            let mut claim = claim("back", created, &[pods]);
            claim.replaces = replaces.map(str::to_owned);
            timeline.claims.insert("back".to_owned(), claim);
            let found = judge(&timeline).faults;
            assert_eq!(found.len(), faults, "{created}, {pods}, {replaces:?}: {found:?}");
        }
    }

    #[test]
    fn evictions_and_pods_of_users_are_not_judged() {
        let mut without_command = timeline(None, false);
        without_command.claims.values_mut().for_each(|claim| claim.command = None);
        assert_eq!(judge(&without_command).moved, 0);
        let mut scaled_down = timeline(None, false);
        scaled_down.pods.remove("b");
        assert_eq!(judge(&scaled_down).faults, Vec::<String>::new());
    }
}
