//! The next action of a kubelet: pure decisions from the observed state and the time.

use std::time::Duration;

use fleetwright_core::model::labels::{NOT_READY_TAINT, UNREACHABLE_TAINT};
use jiff::Timestamp;

use super::{
    KubeletConfig,
    view::{NodeView, PodView},
};
use crate::api::{CloudInstance, Lifecycle, WireTaint};
use crate::time::later;

/// The next action for an instance's node, or for a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NextAction<A> {
    /// Act now.
    Act(A),
    /// Decide again at this time.
    At(Timestamp),
    /// Wait for a change.
    Rest,
}

/// An action for a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeAct {
    /// Create the Node, not ready yet.
    Join,
    /// Become ready and report capacity.
    BecomeReady,
    /// Remove the not-ready taint, in place of the node lifecycle controller.
    Untaint,
    /// Add the scripted taint.
    LateTaint(WireTaint),
    /// Renew the lease.
    Renew,
    /// Set Ready to Unknown after missed leases; nothing new is scheduled to the node.
    LoseContact,
    /// Delete the Node, whose instance is gone, in place of a cloud-controller-manager.
    Remove,
}

/// An action for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodAct {
    /// Start its containers, or report whether they are ready.
    Start,
    /// Its containers succeed.
    Succeed,
    /// Its containers fail.
    Fail,
    /// Remove it from the node.
    Finish,
}

/// A kubelet's memory of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeMemory {
    /// When the Node was first seen.
    pub seen_at: Option<Timestamp>,
    /// When its lease was last renewed.
    pub renewed_at: Option<Timestamp>,
    /// Whether the late taint was added.
    pub late_tainted: bool,
    /// When the instance was first seen terminating.
    pub silent_since: Option<Timestamp>,
}

/// Acts if due, else waits.
fn when<A>(due: Timestamp, now: Timestamp, act: A) -> NextAction<A> {
    if due <= now { NextAction::Act(act) } else { NextAction::At(due) }
}

/// The next action for the node of `instance`.
pub(super) fn node(
    config: &KubeletConfig,
    instance: &CloudInstance,
    node: Option<&NodeView>,
    memory: &NodeMemory,
    now: Timestamp,
) -> NextAction<NodeAct> {
    let Some(node) = node else {
        // A kubelet registers once: a deleted Node is not recreated.
        return match (instance.state, instance.joined, instance.joins_at) {
            (Lifecycle::Running, false, Some(at)) => when(at, now, NodeAct::Join),
            _ => NextAction::Rest,
        };
    };
    if instance.state >= Lifecycle::Terminating {
        return silent(config, instance.state, node, memory, now);
    }
    if instance.state == Lifecycle::Pending {
        return NextAction::Rest;
    }
    if node.is_broken || node.is_unhealthy {
        return renewal(config, memory, now);
    }
    let seen = memory.seen_at.unwrap_or(now);
    if !node.is_ready() || !node.has_allocatable {
        return when(later(seen, config.ready_after), now, NodeAct::BecomeReady);
    }
    let mut next = NextAction::Rest;
    let mut consider = |candidate: NextAction<NodeAct>| {
        next = match (&next, candidate) {
            (NextAction::Act(_), _) | (_, NextAction::Rest) => return,
            (_, NextAction::Act(act)) => NextAction::Act(act),
            (NextAction::At(a), NextAction::At(b)) => NextAction::At((*a).min(b)),
            (NextAction::Rest, NextAction::At(b)) => NextAction::At(b),
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
fn renewal(config: &KubeletConfig, memory: &NodeMemory, now: Timestamp) -> NextAction<NodeAct> {
    let Some(interval) = config.lease_interval else { return NextAction::Rest };
    when(memory.renewed_at.map_or(now, |at| later(at, interval)), now, NodeAct::Renew)
}

/// The node of an instance that is terminating or gone: it stops renewing its lease and is then lost.
fn silent(
    config: &KubeletConfig,
    state: Lifecycle,
    node: &NodeView,
    memory: &NodeMemory,
    now: Timestamp,
) -> NextAction<NodeAct> {
    let since = memory.silent_since.unwrap_or(now);
    if state == Lifecycle::Terminated && !node.has_finalizers && !node.deleting {
        let due = later(since, config.remove_after);
        if due <= now {
            return NextAction::Act(NodeAct::Remove);
        }
    }
    if !node.is_unknown() || !node.has_taint(UNREACHABLE_TAINT) {
        return when(later(since, config.lost_after), now, NodeAct::LoseContact);
    }
    if state == Lifecycle::Terminated && !node.has_finalizers && !node.deleting {
        return NextAction::At(later(since, config.remove_after));
    }
    NextAction::Rest
}

/// The state of a pod's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodNode {
    /// Its instance runs and the Node is ready.
    Ready,
    /// Its instance runs, but the Node is not ready.
    NotReady,
    /// Its instance is gone, or its Node was deleted.
    Gone,
}

/// A kubelet's memory of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodMemory {
    /// When the pod was first seen bound.
    pub bound_at: Timestamp,
    /// When its deletion was first seen.
    pub deleting_at: Option<Timestamp>,
    /// When its node was first seen to be gone.
    pub orphaned_at: Option<Timestamp>,
    /// When the last call to remove it succeeded.
    pub finished_at: Option<Timestamp>,
}

/// The next action for a pod.
pub(super) fn pod(
    config: &KubeletConfig,
    pod: &PodView,
    host: PodNode,
    memory: &PodMemory,
    now: Timestamp,
) -> NextAction<PodAct> {
    if let Some(finished) = memory.finished_at {
        // A finalizer holds it: retry.
        return when(later(finished, config.retry_finish), now, PodAct::Finish);
    }
    if host == PodNode::Gone {
        // As the pod garbage collector: at once if it is being deleted, else after a delay.
        let wait = if pod.deleting { Duration::ZERO } else { config.orphan_after };
        return when(later(memory.orphaned_at.unwrap_or(now), wait), now, PodAct::Finish);
    }
    if pod.deleting {
        let stops = pod.pre_stop.saturating_add(config.pod_stop);
        let takes = if pod.is_over() { Duration::ZERO } else { pod.grace.min(stops) };
        // A second deletion may have shortened the grace period.
        let due = later(memory.deleting_at.unwrap_or(now), takes);
        return when(pod.delete_by.map_or(due, |by| due.min(by)), now, PodAct::Finish);
    }
    if pod.is_over() || host == PodNode::NotReady {
        return NextAction::Rest;
    }
    if pod.phase != "Running" || pod.ready == pod.is_unhealthy {
        return when(later(memory.bound_at, config.pod_start), now, PodAct::Start);
    }
    let started = pod.started.unwrap_or(memory.bound_at);
    match (pod.fails_after, pod.run_for) {
        (Some(span), _) => when(later(started, span), now, PodAct::Fail),
        (None, Some(span)) => when(later(started, span), now, PodAct::Succeed),
        (None, None) => NextAction::Rest,
    }
}
