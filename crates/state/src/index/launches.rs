//! What the launch-loop breaker learns from pods and NodeClaims.

use std::sync::Arc;

use fleetwright_api::labels::LAUNCHED_FOR;
use fleetwright_core::{
    model::{ClaimName, NodeClaim, Pod, nodeclaim::ConditionType},
    safety::launch_loop::{Demand, Launch, LaunchHistory, LaunchOutcome, LoopPause, has_run},
};
use jiff::Timestamp;

use crate::{launch_loops, objects::Objects};

/// Follows a pod that leaves its node. `seen` is the time of the last snapshot.
pub(super) fn pod_changed(
    history: &mut LaunchHistory,
    objects: &Objects,
    before: Option<&Pod>,
    after: Option<&Pod>,
    seen: Option<Timestamp>,
) {
    let Some(pod) = before.filter(|pod| pod.node.is_some() && pod.is_active() && history.knows(pod)) else {
        return;
    };
    let after = after.filter(|after| after.uid == pod.uid);
    if after.is_some_and(Pod::is_active) {
        return;
    }
    // The deletion timestamp is the end of the grace period.
    let deleted = after.and_then(|after| after.deleting?.checked_sub(pod.spec.termination_grace_period).ok());
    let Some(left) = deleted.or(seen) else { return };
    if has_run(after.unwrap_or(pod), left) {
        let claim = pod.node.as_ref().and_then(|node| objects.claim_of_node(node)?.metadata.name.as_deref());
        history.ran(pod, claim.map(ClaimName::from).as_ref(), left);
    }
}

/// Follows a NodeClaim that is deleted. `seen` is the time of the last snapshot.
pub(super) fn claim_changed(
    history: &mut LaunchHistory,
    before: Option<&NodeClaim>,
    after: Option<&NodeClaim>,
    seen: Option<Timestamp>,
) {
    let Some(claim) = before.filter(|claim| claim.deleting.is_none()) else { return };
    let deleted = after.map_or(seen, |after| after.deleting);
    if let Some(at) = deleted {
        history.ended(&claim.name, claim.provider_id.is_some(), at);
    }
}

/// Takes over a NodeClaim that an earlier process created for pods, the first time that it is seen. The provisioner counts its own
/// NodeClaims.
pub(super) fn claim_seen(history: &mut LaunchHistory, claim: &NodeClaim) {
    let written = claim.annotations.get(LAUNCHED_FOR).map(|written| launch_loops::read_keys(written));
    let keys = written.unwrap_or_default();
    history.restore_launch(&claim.name, keys, claim.intended_pods.iter().cloned().collect(), claim.created);
    if let Some(at) = claim.deleting {
        history.ended(&claim.name, claim.provider_id.is_some(), at);
    }
}

/// The pause of the demand that a pod belongs to.
pub(super) fn pause(
    history: &mut LaunchHistory,
    objects: &Objects,
    pod: &Pod,
    now: Timestamp,
) -> Option<LoopPause> {
    if !history.knows(pod) {
        return None;
    }
    history.judge(pod, now, |demand, launch| outcome(objects, demand, launch, now));
    history.pause(pod, now)
}

/// What became of a launch, as far as its NodeClaim and the pods that exist show.
fn outcome(objects: &Objects, demand: &Demand, launch: &Launch, now: Timestamp) -> LaunchOutcome {
    // The NodeClaim of an earlier process names the pods of all its demands, and those that had a node, which a command or a deletion took.
    let had_node = |pod: &Pod| {
        launch.is_restored && pod.bound_since.is_some_and(|at| at.as_second() < launch.at.as_second())
    };
    let intended = || {
        let present = launch.pods.iter().filter_map(move |uid| Some((uid, objects.pod_by_uid(uid)?)));
        present.filter(move |(_, pod)| demand.includes(pod) && !had_node(pod))
    };
    let claim = objects.claim_model(&launch.claim);
    let node = claim.and_then(|claim| claim.node_name.as_ref());
    let on_node = || {
        node.into_iter().flat_map(move |node| objects.pods_on(node)).filter(move |pod| demand.includes(pod))
    };
    if intended().map(|(_, pod)| pod).chain(on_node()).any(|pod| has_run(pod, now)) {
        return LaunchOutcome::Answered;
    }
    if intended().any(|(_, pod)| pod.node.is_some() && pod.is_active()) {
        return LaunchOutcome::Open;
    }
    let missed = |missed: bool| if missed { LaunchOutcome::Missed } else { LaunchOutcome::Open };
    let Some(claim) = claim else { return missed(launch.ended.is_some()) };
    if on_node().any(|pod| pod.is_active()) {
        return LaunchOutcome::Open;
    }
    if claim.deleting.is_some() {
        return missed(launch.ended.is_some());
    }
    let waits = |(uid, pod): (_, &Arc<Pod>)| pod.is_active() && claim.intended_pods.contains(uid);
    missed(claim.is(ConditionType::Initialized) && !intended().any(waits))
}
