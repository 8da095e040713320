//! What a kubelet does next: pure decisions from what is seen and the time.

use std::time::Duration;

use fleetwright_core::model::labels::{NOT_READY_TAINT, UNREACHABLE_TAINT};
use jiff::{SignedDuration, Timestamp};

use super::{
    KubeletConfig,
    view::{NodeView, PodView},
};
use crate::api::{CloudInstance, Lifecycle, WireTaint};

/// The next step for an instance's node, or for a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next<A> {
    /// Do this now.
    Act(A),
    /// Look again at this time.
    At(Timestamp),
    /// Nothing, until something changes.
    Rest,
}

/// A call for a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeAct {
    /// The Node joins, not ready yet.
    Join,
    /// It becomes ready and posts what it has.
    BecomeReady,
    /// The not-ready taint goes, as the node lifecycle controller would see to.
    Untaint,
    /// The scripted taint appears.
    LateTaint(WireTaint),
    /// It shows that it is alive.
    Renew,
    /// Nobody has heard of it for a while: Ready becomes Unknown, and nothing new is scheduled to it.
    LoseContact,
    /// Its instance is gone and nothing holds it: it is removed, as a cloud-controller-manager would.
    Remove,
}

/// A call for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodAct {
    /// Its containers run.
    Start,
    /// Its containers have ended well.
    Succeed,
    /// It is gone from the node.
    Finish,
}

/// What a kubelet remembers of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeMemory {
    /// When the Node was first seen.
    pub seen_at: Option<Timestamp>,
    /// When it was last renewed.
    pub renewed_at: Option<Timestamp>,
    /// Whether the late taint was put on.
    pub late_tainted: bool,
    /// When the instance was first seen to end.
    pub silent_since: Option<Timestamp>,
}

pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
}

/// Acts where it is time, else waits for it.
fn when<A>(due: Timestamp, now: Timestamp, act: A) -> Next<A> {
    if due <= now { Next::Act(act) } else { Next::At(due) }
}

/// What to do for the node of `instance`.
pub(super) fn node(
    config: &KubeletConfig,
    instance: &CloudInstance,
    node: Option<&NodeView>,
    memory: &NodeMemory,
    now: Timestamp,
) -> Next<NodeAct> {
    let Some(node) = node else {
        // A kubelet registers once: a Node that somebody deletes does not come back.
        return match (instance.state, instance.joined, instance.joins_at) {
            (Lifecycle::Running, false, Some(at)) => when(at, now, NodeAct::Join),
            _ => Next::Rest,
        };
    };
    if instance.state >= Lifecycle::Terminating {
        return silent(config, instance.state, node, memory, now);
    }
    if instance.state == Lifecycle::Pending {
        return Next::Rest;
    }
    if node.is_broken {
        return renewal(config, memory, now);
    }
    let seen = memory.seen_at.unwrap_or(now);
    if !node.is_ready() || !node.has_allocatable {
        return when(later(seen, config.ready_after), now, NodeAct::BecomeReady);
    }
    let mut next = Next::Rest;
    let mut consider = |candidate: Next<NodeAct>| {
        next = match (&next, candidate) {
            (Next::Act(_), _) | (_, Next::Rest) => return,
            (_, Next::Act(act)) => Next::Act(act),
            (Next::At(a), Next::At(b)) => Next::At((*a).min(b)),
            (Next::Rest, Next::At(b)) => Next::At(b),
        };
    };
    if node.has_taint(NOT_READY_TAINT) || node.has_taint(UNREACHABLE_TAINT) {
        let since = node.ready.as_ref().and_then(|(_, since)| *since).unwrap_or(seen).min(now);
        consider(when(later(since, config.untaint_after), now, NodeAct::Untaint));
    }
    if let Some((taint, after_ms)) = instance.defects.late_taint.as_ref().filter(|_| !memory.late_tainted) {
        let due = later(seen, Duration::from_millis(*after_ms));
        consider(when(due, now, NodeAct::LateTaint(taint.clone())));
    }
    consider(renewal(config, memory, now));
    next
}

/// When the lease is renewed next.
fn renewal(config: &KubeletConfig, memory: &NodeMemory, now: Timestamp) -> Next<NodeAct> {
    let Some(interval) = config.lease_interval else { return Next::Rest };
    when(memory.renewed_at.map_or(now, |at| later(at, interval)), now, NodeAct::Renew)
}

/// A node whose instance is ending or gone: it is silent, and somebody notices.
fn silent(
    config: &KubeletConfig,
    state: Lifecycle,
    node: &NodeView,
    memory: &NodeMemory,
    now: Timestamp,
) -> Next<NodeAct> {
    let since = memory.silent_since.unwrap_or(now);
    if state == Lifecycle::Gone && !node.has_finalizers && !node.deleting {
        let due = later(since, config.remove_after);
        if due <= now {
            return Next::Act(NodeAct::Remove);
        }
    }
    if !node.is_unknown() || !node.has_taint(UNREACHABLE_TAINT) {
        return when(later(since, config.lost_after), now, NodeAct::LoseContact);
    }
    if state == Lifecycle::Gone && !node.has_finalizers && !node.deleting {
        return Next::At(later(since, config.remove_after));
    }
    Next::Rest
}

/// Where the node of a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// Its instance runs and its Node is ready.
    Ready,
    /// Its instance runs, but is not ready.
    NotReady,
    /// Its instance is gone, or it was ours and its Node is gone.
    Gone,
}

/// What a kubelet remembers of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodMemory {
    /// When the pod was first seen bound.
    pub bound_at: Timestamp,
    /// When it was first seen to be deleted.
    pub deleting_at: Option<Timestamp>,
    /// When its node was first seen to be gone.
    pub orphaned_at: Option<Timestamp>,
    /// When the last call to finish it succeeded.
    pub finished_at: Option<Timestamp>,
}

/// What to do for a pod.
pub(super) fn pod(
    config: &KubeletConfig,
    pod: &PodView,
    host: Host,
    memory: &PodMemory,
    now: Timestamp,
) -> Next<PodAct> {
    if let Some(finished) = memory.finished_at {
        // A finalizer keeps it: ask again now and then.
        return when(later(finished, config.retry_finish), now, PodAct::Finish);
    }
    if host == Host::Gone {
        // As the pod garbage collector would: at once where it is being deleted, else after a while.
        let wait = if pod.deleting { Duration::ZERO } else { config.orphan_after };
        return when(later(memory.orphaned_at.unwrap_or(now), wait), now, PodAct::Finish);
    }
    if pod.deleting {
        let takes = if pod.is_over() { Duration::ZERO } else { pod.grace.min(config.pod_stop) };
        return when(later(memory.deleting_at.unwrap_or(now), takes), now, PodAct::Finish);
    }
    if pod.is_over() || host == Host::NotReady {
        return Next::Rest;
    }
    if pod.phase != "Running" || !pod.ready {
        return when(later(memory.bound_at, config.pod_start), now, PodAct::Start);
    }
    match pod.run_for {
        Some(span) => when(later(pod.started.unwrap_or(memory.bound_at), span), now, PodAct::Succeed),
        None => Next::Rest,
    }
}
