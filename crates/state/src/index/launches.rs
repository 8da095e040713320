//! What the launch-loop breaker learns from pods and NodeClaims.

use fleetwright_core::{
    model::{NodeClaim, Pod, nodeclaim::ConditionType},
    safety::launch_loop::{Demand, FREE, Launch, LaunchHistory, LoopPause, has_run},
};
use jiff::Timestamp;

use crate::objects::Objects;

/// Follows a pod that leaves its node. `seen` is the time of the last snapshot.
pub(super) fn pod_changed(
    history: &mut LaunchHistory,
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
    let (Some(left), Some(bound)) = (deleted.or(seen), pod.bound_since) else { return };
    if has_run(after.unwrap_or(pod), left) {
        history.ran(pod, bound);
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
    let count = |history: &mut LaunchHistory| {
        history.count_missed(pod, now, |demand, launch| is_missed(objects, demand, launch))
    };
    if count(history) < FREE {
        return None;
    }
    // Pods that run on any node since answer the launches before them.
    let demand = Demand::of(pod);
    let running =
        objects.pods().filter(|other| other.node.is_some() && other.is_active() && demand.includes(other));
    for other in running.filter(|other| has_run(other, now)) {
        history.ran(other, other.bound_since.unwrap_or(now));
    }
    count(history);
    history.pause(pod, now)
}

/// Whether a launch is missed, as far as its NodeClaim and the pods that exist show.
fn is_missed(objects: &Objects, demand: &Demand, launch: &Launch) -> bool {
    let intended = || launch.pods.iter().filter_map(|uid| Some((uid, objects.pod_by_uid(uid)?)));
    if intended().any(|(_, pod)| pod.node.is_some() && pod.is_active()) {
        return false;
    }
    let Some(claim) = objects.claim_model(&launch.claim) else { return launch.ended.is_some() };
    let mut on_node = claim.node_name.iter().flat_map(|node| objects.pods_on(node));
    if on_node.any(|pod| pod.is_active() && demand.includes(pod)) {
        return false;
    }
    if claim.deleting.is_some() {
        return launch.ended.is_some();
    }
    let waits = |(uid, pod): (_, &std::sync::Arc<Pod>)| pod.is_active() && claim.intended_pods.contains(uid);
    claim.is(ConditionType::Initialized) && !intended().any(waits)
}
