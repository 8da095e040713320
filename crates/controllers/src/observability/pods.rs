//! `metrics.pod`: the state of pods, and how long they took to become bound and ready.
//!
//! A duration is observed only for a pod that this process saw before the transition: the times before its start are not
//! known precisely enough.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::model::{NamespacedName, Pod, PodPhase, PodUid, labels};
use fleetwright_state::{Change, Index, Key, WatchedKind};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use crate::{
    metrics::{Family, Metrics, pod_times::PodTimes, pods as families},
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Update interval of the metrics of a pending pod.
const UPDATE_INTERVAL: Duration = Duration::from_secs(10);
/// Gauges of pending pods.
const PENDING_GAUGES: [&Family; 5] = [
    &families::UNBOUND,
    &families::UNSTARTED,
    &families::PROVISIONING_UNBOUND,
    &families::PROVISIONING_UNSTARTED,
    &families::UNDECIDED,
];

/// Gauges and durations by pod.
pub(super) struct PodMetrics {
    cluster: Cluster,
    clocks: Clocks,
    pod_times: Arc<PodTimes>,
    metrics: Arc<Metrics>,
    exposed: Mutex<BTreeMap<Key, ExposedPod>>,
}

impl PodMetrics {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            pod_times: ctx.pod_times.clone(),
            metrics: ctx.metrics.clone(),
            exposed: Mutex::default(),
        }
    }
}

/// The exposed series of a pod.
#[derive(Clone, Debug)]
struct ExposedPod {
    uid: PodUid,
    /// The labels of its state.
    labels: Vec<String>,
    /// Whether it was seen before it was bound.
    unbound: bool,
    /// Whether it was seen before it was ready, and has not been since. One that is not ready later has started all the same.
    unstarted: bool,
}

#[async_trait]
impl Controller for PodMetrics {
    fn name(&self) -> &'static str {
        "metrics.pod"
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        if change.kind == WatchedKind::Pod { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let (pod, node) = {
            let index = self.cluster.index();
            let pod = index.pod(&NamespacedName::from(key)).cloned();
            let node = pod.as_ref().and_then(|pod| index.node(pod.node.as_deref()?).cloned());
            (pod, node)
        };
        let mut all = self.lock();
        let before = all.get(key).cloned();
        let Some(pod) = pod else {
            if let Some(before) = before {
                remove_series(&self.metrics, key, &before);
                self.pod_times.forget(&before.uid);
                all.remove(key);
            }
            return Ok(Requeue::No);
        };
        // Another pod of the same name has its own durations.
        let known = before.as_ref().filter(|before| before.uid == pod.uid);
        let labels = state_labels(&pod, node.as_deref());
        if let Some(before) = before.as_ref().filter(|before| before.labels != labels) {
            remove(&self.metrics, &families::STATE, &before.labels);
        }
        let refs: Vec<&str> = labels.iter().map(String::as_str).collect();
        self.metrics.set(&families::STATE, &refs, 1.0);
        let ended = pod.is_terminal();
        let unbound = pod.node.is_none() && !ended;
        let starts = pod.phase == PodPhase::Pending || known.is_some_and(|known| known.unstarted);
        let unstarted = starts && !pod.ready && !ended;
        if let Some(known) = known {
            observe(
                &self.clocks,
                &self.pod_times,
                &self.metrics,
                &pod,
                known.unbound && pod.node.is_some(),
                known.unstarted && pod.ready,
            );
        }
        update_pending_gauges(&self.clocks, &self.pod_times, &self.metrics, &pod, unbound, unstarted);
        if !unstarted {
            self.pod_times.forget(&pod.uid);
        }
        all.insert(key.clone(), ExposedPod { uid: pod.uid.clone(), labels, unbound, unstarted });
        Ok(if unbound || unstarted { Requeue::After(UPDATE_INTERVAL) } else { Requeue::No })
    }
}

impl PodMetrics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, ExposedPod>> {
        self.exposed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Observes the transitions of the pod.
fn observe(clocks: &Clocks, pod_times: &PodTimes, metrics: &Metrics, pod: &Pod, bound: bool, started: bool) {
    let placed = pod_times.of(&pod.uid).placed;
    let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64().max(0.0);
    if bound {
        let at = pod.bound_since.unwrap_or_else(|| clocks.now());
        metrics.observe(&families::BOUND, &[], seconds(pod.created, at));
        if let Some(placed) = placed {
            metrics.observe(&families::PROVISIONING_BOUND, &[], seconds(placed, at));
        }
    }
    if started {
        let at = pod.ready_since.unwrap_or_else(|| clocks.now());
        metrics.observe(&families::STARTUP, &[], seconds(pod.created, at));
        if let Some(placed) = placed {
            metrics.observe(&families::PROVISIONING_STARTUP, &[], seconds(placed, at));
        }
    }
}

/// Updates how long the pod has not been bound, ready or decided on.
fn update_pending_gauges(
    clocks: &Clocks,
    pod_times: &PodTimes,
    metrics: &Metrics,
    pod: &Pod,
    unbound: bool,
    unstarted: bool,
) {
    let times = pod_times.of(&pod.uid);
    let undecided = times.seen.filter(|_| times.decided.is_none());
    let since = [
        Some(pod.created).filter(|_| unbound),
        Some(pod.created).filter(|_| unstarted),
        times.placed.filter(|_| unbound),
        times.placed.filter(|_| unstarted),
        undecided.filter(|_| unbound),
    ];
    let labels = [&*pod.id.name, &*pod.id.namespace];
    for (family, since) in PENDING_GAUGES.into_iter().zip(since) {
        match since {
            Some(since) => {
                let waited = clocks.now().duration_since(since).as_secs_f64().max(0.0);
                metrics.set(family, &labels, waited);
            }
            None => metrics.remove(family, &labels),
        }
    }
}

fn remove_series(metrics: &Metrics, key: &Key, exposed: &ExposedPod) {
    remove(metrics, &families::STATE, &exposed.labels);
    for family in PENDING_GAUGES {
        metrics.remove(family, &[&key.name, &key.namespace]);
    }
}

fn remove(metrics: &Metrics, family: &Family, labels: &[String]) {
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    metrics.remove(family, &labels);
}

fn state_labels(pod: &Pod, node: Option<&Node>) -> Vec<String> {
    let of_node = |key: &str| {
        let labels = node.and_then(|node| node.metadata.labels.as_ref());
        labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
    };
    let pool = of_node(labels::NODEPOOL);
    vec![
        pod.id.name.to_string(),
        pod.id.namespace.to_string(),
        owner_link(pod),
        pod.node.as_ref().map(ToString::to_string).unwrap_or_default(),
        pod.node.is_some().to_string(),
        pool.clone(),
        of_node(labels::ZONE),
        of_node(labels::ARCH),
        of_node(labels::CAPACITY_TYPE),
        of_node(labels::INSTANCE_TYPE),
        phase(pod.phase).to_owned(),
        pod.ready.to_string(),
        (!pool.is_empty()).to_string(),
    ]
}

/// The path of the owner in Karpenter's format, without the group if the kind is unknown.
fn owner_link(pod: &Pod) -> String {
    let Some(owner) = &pod.owner else { return String::new() };
    let group = match &*owner.kind {
        "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Deployment" => "apps/v1/",
        "Job" | "CronJob" => "batch/v1/",
        "Node" | "ReplicationController" => "v1/",
        _ => "",
    };
    let kind = owner.plain_kind().to_lowercase();
    format!("/apis/{group}namespaces/{}/{kind}s/{}", pod.id.namespace, owner.name)
}

fn phase(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
        PodPhase::Unknown => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    //! From pending to ready to deleted.
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::testing::Harness;

    #[tokio::test(start_paused = true)]
    async fn series_of_a_pod_are_removed_with_it_and_its_times_are_observed() {
        let harness = Harness::new();
        let created = harness.ctx.clocks.now();
        let at = |seconds: u64| (created + Duration::from_secs(seconds)).to_string();
        harness.pending_pod("a", "1");
        let (_trigger, _task) = harness.run(vec![Arc::new(PodMetrics::new(&harness.ctx))]);
        harness.pass(5).await;
        let uid = harness.ctx.cluster.index().pods().next().unwrap().uid.clone();
        harness.ctx.pod_times.placed(&uid, created + Duration::from_secs(1));
        harness.pass(11).await;
        let text = harness.ctx.metrics.encode().unwrap();
        assert!(
            text.contains("karpenter_pods_unbound_time_seconds{name=\"a\",namespace=\"default\"}"),
            "{text}"
        );
        assert!(text.contains("karpenter_pods_provisioning_unbound_time_seconds{name=\"a\""), "{text}");
        let bound = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
            "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "a"}]},
            "status": {"phase": "Running", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(20)},
                {"type": "Ready", "status": "True", "lastTransitionTime": at(30)}]}
        });
        harness.server.delete("v1", "Pod", "default", "a").ok();
        harness.pass(1).await;
        assert!(!harness.ctx.metrics.encode().unwrap().contains("name=\"a\""));
        harness.pending_pod("a", "1");
        harness.pass(1).await;
        let born = harness.ctx.cluster.index().pods().next().unwrap().clone();
        harness.ctx.pod_times.placed(&born.uid, created + Duration::from_secs(19));
        // What loses its readiness has started once, and takes as long only once.
        let mut unready = bound.clone();
        unready["status"]["conditions"][1]["status"] = json!("False");
        for state in [&bound, &unready, &bound, &unready] {
            harness.server.apply(state.clone()).unwrap();
            harness.pass(1).await;
            assert!(!harness.ctx.metrics.encode().unwrap().contains("unstarted_time"));
        }
        harness.server.apply(bound).unwrap();
        harness.pass(1).await;
        let text = harness.ctx.metrics.encode().unwrap();
        for expected in [
            "karpenter_pods_state{arch=\"\",capacity_type=\"\",instance_type=\"\",managed=\"false\",name=\"a\",\
             namespace=\"default\",node=\"n\",nodepool=\"\",owner=\"\",phase=\"Running\",ready=\"true\",\
             scheduled=\"true\",zone=\"\"} 1\n",
            "karpenter_pods_provisioning_bound_duration_seconds_sum 1\n",
            "karpenter_pods_provisioning_startup_duration_seconds_sum 11\n",
            "karpenter_pods_bound_duration_seconds_count 1\n",
            "karpenter_pods_startup_duration_seconds_count 1\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert!(!text.contains("unbound_time"), "{text}");
        assert!(!text.contains("phase=\"Pending\""), "{text}");
    }
}
