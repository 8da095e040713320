//! The judge of disruption: what became of the pods that commands evicted. It reads a record of what happened, and shares no code with what
//! decides.

mod room;
mod story;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::timeline::{ClaimLife, PodLife, Timeline};

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
    /// What must not have happened.
    pub(crate) faults: Vec<DisruptionFault>,
    /// What the commands of faults did to pods, a line each.
    pub(crate) stories: Vec<String>,
}

/// Something that must not have happened to moved pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DisruptionFault {
    pub(crate) class: FaultClass,
    /// The command that moved the pod.
    pub(crate) command: String,
    /// Who waited for what, in a line.
    pub(crate) story: String,
}

impl fmt::Display for DisruptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.name(), self.story)
    }
}

/// What stood in the way of a moved pod, as far as the record shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultClass {
    /// Pods that the command did not move were bound to its replacements.
    ReplacementTaken,
    /// A node had room for the pod when the command began to move pods, by its requests. Other pods were bound to it.
    RoomTaken,
    /// No node had room for the pod, by its requests.
    NoRoom,
    /// kube-scheduler refused the pod, and room was not among its reasons.
    Refused,
    /// kube-scheduler said nothing against the pod.
    Silent,
    /// A NodeClaim was launched for pods that were bound at that time: a further command is about to remove their node.
    StillBound,
}

impl FaultClass {
    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReplacementTaken => "replacement taken by others",
            Self::RoomTaken => "room taken by others",
            Self::NoRoom => "no room",
            Self::Refused => "refused",
            Self::Silent => "without a refusal",
            Self::StillBound => "launched for bound pods",
        }
    }
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
            let story = format!(
                "{name} was evicted from {node} by command {} ({}); {successor} in its place {end} after {seconds} s, at most {} s are allowed{}",
                pod.command,
                pod.from.reason,
                allowed.as_secs(),
                reason(timeline, pod),
            );
            verdict.faults.push(DisruptionFault {
                class: class(timeline, &moved, pod),
                command: pod.command.to_owned(),
                story,
            });
        }
    }
    verdict.faults.extend(timeline.claims.values().filter_map(|claim| returned(timeline, claim, &moved)));
    let at_fault: BTreeSet<&str> = verdict.faults.iter().map(|fault| fault.command.as_str()).collect();
    verdict.stories =
        at_fault.into_iter().flat_map(|command| story::tell(timeline, &moved, command)).collect();
    verdict
}

/// What kube-scheduler last said against the pod in place of a moved one.
fn refusal<'a>(timeline: &'a Timeline, pod: &MovedPod<'_>) -> &'a str {
    let successor = pod.successor.and_then(|uid| timeline.pods.get(uid));
    successor.map_or("", |successor| successor.refusal.as_str())
}

fn reason(timeline: &Timeline, pod: &MovedPod<'_>) -> String {
    match refusal(timeline, pod) {
        "" => String::new(),
        refusal => format!("; kube-scheduler said: {refusal}"),
    }
}

/// What stood in the way of the pod in place of a moved one.
fn class(timeline: &Timeline, moved: &[MovedPod<'_>], pod: &MovedPod<'_>) -> FaultClass {
    let replacements: BTreeSet<&str> = timeline
        .claims
        .values()
        .filter(|claim| claim.replaces.as_deref() == Some(pod.command))
        .map(|claim| claim.node.as_str())
        .collect();
    let expected: BTreeSet<&str> = moved
        .iter()
        .filter(|other| other.command == pod.command)
        .filter_map(|other| other.successor)
        .collect();
    let is_other = |(uid, other): (&String, &PodLife)| {
        let node = other.bound.as_ref().map(|(_, node)| node.as_str());
        !other.is_daemon
            && !expected.contains(uid.as_str())
            && node.is_some_and(|node| replacements.contains(node))
    };
    let refusal = refusal(timeline, pod);
    if timeline.pods.iter().any(is_other) {
        FaultClass::ReplacementTaken
    } else if refusal.contains("Insufficient") || refusal.contains("Too many pods") {
        let of_command = || moved.iter().filter(|other| other.command == pod.command);
        let removed: Vec<&str> = of_command().map(|other| other.from.node.as_str()).collect();
        let begin = of_command().map(|other| other.at).min().unwrap_or(pod.at);
        let successor = pod.successor.and_then(|uid| timeline.pods.get(uid));
        // What is evicted first is bound elsewhere within a moment.
        let before = begin.saturating_sub(Duration::from_millis(1));
        let had_room = successor.is_some_and(|next| room::had_room(timeline, next, before, &removed));
        if had_room { FaultClass::RoomTaken } else { FaultClass::NoRoom }
    } else if refusal.is_empty() {
        FaultClass::Silent
    } else {
        FaultClass::Refused
    }
}

/// A NodeClaim that was launched for pods which consolidation had moved.
fn returned(timeline: &Timeline, claim: &ClaimLife, moved: &[MovedPod<'_>]) -> Option<DisruptionFault> {
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
    let story = format!(
        "NodeClaim {} was launched for {} pods that consolidation had moved, {} from {} by command {} {} s before{}",
        claim.name,
        pods.len(),
        first.name,
        first.from.node,
        first.command,
        claim.created.saturating_sub(first.at).as_secs(),
        reason(timeline, first),
    );
    let is_bound = |pod: &&MovedPod<'_>| {
        let successor = pod.successor.and_then(|uid| timeline.pods.get(uid));
        let has_ended = |pod: &PodLife| pod.ended.is_some_and(|at| at <= claim.created);
        successor.is_some_and(|pod| {
            pod.bound.as_ref().is_some_and(|(at, _)| *at < claim.created) && !has_ended(pod)
        })
    };
    let class =
        if pods.iter().all(is_bound) { FaultClass::StillBound } else { class(timeline, moved, first) };
    Some(DisruptionFault { class, command: first.command.to_owned(), story })
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
    // A pod of a DaemonSet goes with its node, and the next one of it belongs to another node.
    let movable = timeline.pods.values().filter(|pod| !pod.is_daemon);
    let mut evictions: Vec<_> = movable.filter_map(|pod| Some((pod.evicted?, pod))).collect();
    evictions.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    let mut created: Vec<_> = timeline.pods.iter().collect();
    created.sort_by_key(|(_, pod)| pod.created);
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut moved = Vec::new();
    for (at, pod) in evictions {
        // Two watch events of one moment may be noted in either order.
        let is_next = |(uid, other): &&(&String, &PodLife)| {
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
    use super::super::timeline::NodeLife;
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
            ..PodLife::default()
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
        let nodes =
            [("node-old".to_owned(), NodeLife { allocatable: [4000, 0], ..NodeLife::default() })].into();
        Timeline { pods: pods.into_iter().collect(), claims, nodes, now: seconds(1000) }
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
            assert!(found.iter().all(|fault| fault.class == FaultClass::StillBound), "{found:?}");
            timeline.pods.get_mut("b").unwrap().bound = None;
            let is_bound = |fault: &DisruptionFault| fault.class == FaultClass::StillBound;
            assert!(!judge(&timeline).faults.iter().any(is_bound));
        }
    }

    #[test]
    fn evictions_and_pods_of_users_are_not_judged() {
        let mut without_command = timeline(None, false);
        without_command.claims.values_mut().for_each(|claim| claim.command = None);
        assert_eq!(judge(&without_command).moved, 0);
        let mut of_daemon_set = timeline(None, false);
        of_daemon_set.pods.values_mut().for_each(|pod| pod.is_daemon = true);
        assert_eq!(judge(&of_daemon_set).moved, 0);
        let mut scaled_down = timeline(None, false);
        scaled_down.pods.remove("b");
        assert_eq!(judge(&scaled_down).faults, Vec::new());
    }

    #[test]
    fn what_stood_in_the_way_is_told_apart() {
        let other = || pod("other", 120, Some((130, "node-new")), None);
        let daemon = || {
            let (name, life) = other();
            (name, PodLife { is_daemon: true, ..life })
        };
        let no_room = "0/2 nodes are available: 2 Insufficient cpu.";
        for (refusal, taker, expected) in [
            ("", None, FaultClass::Silent),
            (no_room, None, FaultClass::NoRoom),
            ("0/2 nodes are available: 2 Too many pods.", None, FaultClass::NoRoom),
            ("0/2 nodes are available: 2 node(s) didn't have free ports.", None, FaultClass::Refused),
            (no_room, Some(daemon()), FaultClass::NoRoom),
            (no_room, Some(other()), FaultClass::ReplacementTaken),
        ] {
            let mut timeline = timeline(None, true);
            timeline.pods.get_mut("b").unwrap().refusal = refusal.to_owned();
            timeline.pods.get_mut("b").unwrap().requests = [1000, 0];
            timeline.pods.extend(taker);
            let faults = judge(&timeline).faults;
            assert_eq!(faults.iter().map(|fault| fault.class).collect::<Vec<_>>(), [expected], "{refusal}");
            assert!(faults[0].story.contains(refusal));
        }
    }

    #[test]
    fn room_that_others_take_is_told_apart_from_room_that_was_never_there() {
        for (allocatable, used_before, ended, expected) in [
            (1900, 900, None, FaultClass::RoomTaken),
            (1900, 900, Some(seconds(99)), FaultClass::NoRoom),
            (1900, 901, None, FaultClass::NoRoom),
            (900, 0, None, FaultClass::NoRoom),
        ] {
            let mut timeline = timeline(None, false);
            let other = NodeLife { allocatable: [allocatable, 0], ended, ..NodeLife::default() };
            timeline.nodes.insert("other".to_owned(), other);
            let next = timeline.pods.get_mut("b").unwrap();
            (next.requests, next.refusal) = ([1000, 0], "1 Insufficient cpu.".to_owned());
            for (name, at, cpu) in [("before", 50, used_before), ("later", 101, 900)] {
                let (name, mut life) = pod(name, at, Some((at, "other")), None);
                (life.owner, life.requests) = ("another".to_owned(), [cpu, 0]);
                timeline.pods.insert(name, life);
            }
            let faults = judge(&timeline).faults;
            assert_eq!(faults[0].class, expected, "{allocatable}, {used_before}");
        }
    }

    #[test]
    fn the_story_of_a_fault_says_where_pods_went() {
        let mut timeline = timeline(None, true);
        timeline.pods.extend([pod("c", 100, Some((130, "node-new")), None)]);
        assert_eq!(
            judge(&timeline).stories,
            [
                "command x removed [node-old], replacements [node-new]",
                "  at 100 s a left node-old: b waits",
                "  at 130 s c was bound to node-new, by another cause",
            ]
        );
    }
}
