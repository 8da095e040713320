//! Events on pods: their nomination, or why they are unschedulable.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetwright_core::{
    disruption::static_new_claim,
    model::{NamespacedName, Pod, PoolName, Snapshot},
    scheduling::{Eliminated, Unplaced},
};
use fleetwright_state::WatchedKind;

use crate::{
    events::{Event, regarding, regarding_pod},
    log,
    runtime::{Cluster, Recorder, decisions::Decided},
};

/// How long an equal failure is suppressed.
const FAILED_DEDUPE_TIMEOUT: Duration = Duration::from_secs(300);
/// How long an equal event about a NodePool without instance types is suppressed.
const POOL_DEDUPE_TIMEOUT: Duration = Duration::from_secs(60);

/// Publishes that pods are nominated to `target` (`nodeclaim/x`, `node/y`) by a plan.
pub(super) fn nominated(recorder: &Recorder, pods: &[Arc<Pod>], target: &str, decision: &Decided) {
    for pod in pods.iter().filter(|pod| !pod.is_virtual) {
        let event =
            Event::normal(regarding_pod(pod), "Nominated", format!("Pod should schedule on: {target}"))
                .with_dedupe_values([pod.uid.as_str(), target])
                .about_decision(decision.recorded())
                .rate(5, 10);
        recorder.publish(event);
    }
}

/// Publishes that kube-scheduler keeps pods off `target`, where they fit by the plan: other pods that are on their way count there too.
pub(super) fn not_bound(recorder: &Recorder, pods: &[Arc<Pod>], target: &str) {
    for pod in pods {
        let why = pod.refusal.as_deref().unwrap_or("no reason is known");
        failed(recorder, pod, &format!("it fits {target}, and kube-scheduler does not bind it there: {why}"));
    }
}

/// Publishes why a pod is unschedulable.
pub(super) fn failed(recorder: &Recorder, pod: &Pod, why: &str) {
    publish_failure(recorder, pod, why, &[pod.uid.as_str()], None);
}

/// Publishes why no NodeClaim is created for a pod that the plan places.
pub(super) fn held(recorder: &Recorder, pod: &Pod, why: &str) {
    publish_failure(recorder, pod, why, &[pod.uid.as_str(), "held"], None);
}

/// Suppresses an equal failure, `dedupe_values`, for five minutes.
fn publish_failure(
    recorder: &Recorder,
    pod: &Pod,
    why: &str,
    dedupe_values: &[&str],
    decision: Option<&str>,
) {
    if pod.is_virtual {
        return;
    }
    let event =
        Event::warning(regarding_pod(pod), "FailedScheduling", format!("Failed to schedule pod, {why}"))
            .with_dedupe_values(dedupe_values.iter().copied())
            .with_dedupe_timeout(FAILED_DEDUPE_TIMEOUT)
            .about_decision(decision);
    recorder.publish(event);
}

/// Publishes why pods of a plan, which was recorded as `decision`, are unschedulable. Returns how many are ignored (a field is invalid, or an object that they
/// reference does not exist yet), and how many fit no NodePool.
pub(super) fn unschedulable(
    cluster: &Cluster,
    recorder: &Recorder,
    snapshot: &Snapshot,
    (pods, decision): (&[(Arc<Pod>, Unplaced)], &Decided),
) -> (usize, usize) {
    let (mut ignored, mut unschedulable) = (0, 0);
    let mut bare = BTreeSet::new();
    for (pod, why) in pods.iter().filter(|(pod, _)| !pod.is_virtual) {
        match why {
            Unplaced::Invalid(_) | Unplaced::Waiting(_) | Unplaced::Claims(_) => ignored += 1,
            // No result yet: the next pass schedules them.
            Unplaced::ReservedCapacityTaken | Unplaced::NotReached => continue,
            Unplaced::NoPools | Unplaced::NoPoolFits(_) => unschedulable += 1,
        }
        let text = why.to_string();
        log::could_not_schedule(&pod.id.namespace, &pod.id.name, &text);
        publish_failure(recorder, pod, &text, &[pod.uid.as_str()], decision.recorded());
        if let Unplaced::NoPoolFits(verdicts) = why {
            let lacking = verdicts.iter().filter(|verdict| leaves_no_instance_type(&verdict.eliminated));
            bare.extend(lacking.map(|verdict| verdict.pool.clone()));
        }
    }
    for name in bare.iter().filter(|name| has_no_instance_types(snapshot, name)) {
        let pool = cluster.index().pool(name).cloned();
        if let Some(pool) = pool {
            let text = "NodePool requirements filtered out all compatible available instance types";
            let event = Event::warning(regarding(&*pool), "NoCompatibleInstanceTypes", text)
                .with_dedupe_values([&**name])
                .with_dedupe_timeout(POOL_DEDUPE_TIMEOUT);
            recorder.publish(event);
        }
    }
    (ignored, unschedulable)
}

/// Whether the requirements of a pod and a NodePool leave no instance type.
fn leaves_no_instance_type(eliminated: &Eliminated) -> bool {
    matches!(eliminated, Eliminated::NoInstanceTypes(_) | Eliminated::InstanceTypes { allowed: 0, .. })
}

/// Whether the requirements of a NodePool leave no instance type to any pod.
fn has_no_instance_types(snapshot: &Snapshot, name: &PoolName) -> bool {
    let pool = snapshot.pools.iter().find(|pool| pool.name == *name);
    pool.is_some_and(|pool| static_new_claim(snapshot, pool).is_none())
}

/// Publishes why unbound pods are invalid; snapshots do not include them. Returns their number. An invalid pod that is bound blocks
/// the disruption of its node instead.
pub(super) fn invalid_pods(cluster: &Cluster, recorder: &Recorder) -> usize {
    let invalid: Vec<(k8s_openapi::api::core::v1::ObjectReference, String)> = {
        let index = cluster.index();
        let unbound = |key: &fleetwright_state::Key| index.pod(&NamespacedName::from(key)).is_none();
        let pods =
            index.invalid().iter().filter(|((kind, key), _)| *kind == WatchedKind::Pod && unbound(key));
        let reference = |key: &fleetwright_state::Key| k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            ..Default::default()
        };
        pods.map(|((_, key), why)| (reference(key), why.to_string())).collect()
    };
    let count = invalid.len();
    for (about, why) in invalid {
        let text = format!("Failed to schedule pod, {why}");
        recorder.publish(
            Event::warning(about, "FailedScheduling", text).with_dedupe_timeout(FAILED_DEDUPE_TIMEOUT),
        );
    }
    count
}
