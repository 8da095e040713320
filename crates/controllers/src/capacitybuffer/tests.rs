//! CapacityBuffers, from the object to NodeClaims and back to its status.

use std::sync::{Arc, Mutex};

use fleetwright_fake_kube::{Answer, ApiError, Fault, Faults, Request};
use rstest::rstest;
use serde_json::{Value, json};

use super::BufferController;
use crate::{
    metrics::runtime::FEATURE_OFF,
    provisioning,
    runtime::Controller,
    testing::{Harness, Refusals},
};

fn controllers(harness: &Harness) -> Vec<Arc<dyn Controller>> {
    let mut all = provisioning::controllers(&harness.ctx);
    all.push(Arc::new(BufferController::new(&harness.ctx)));
    all
}

fn harness() -> Harness {
    let harness = Harness::gated(|gates| gates.capacity_buffer = true);
    harness.pool("default", json!({}));
    harness
}

fn template(harness: &Harness, cpu: &str) {
    harness
        .server
        .apply(json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "shape", "namespace": "default"},
            "template": {"spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}]}}}))
        .unwrap();
}

fn buffer(harness: &Harness, spec: Value) {
    harness
        .server
        .apply(json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"}, "spec": spec}))
        .unwrap();
}

/// The Deployment `web`, with a number of replicas.
fn scale(harness: &Harness, replicas: u32) {
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                {"name": "a", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}}}});
    harness.server.apply(web).unwrap();
}

/// A quarter of `web`.
fn of_web() -> Value {
    json!({"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "percentage": 25})
}

fn status(harness: &Harness) -> Value {
    let buffer =
        harness.server.get("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "default", "spare").unwrap();
    buffer["status"].clone()
}

/// `status reason` of a condition.
fn condition(harness: &Harness, type_: &str) -> String {
    let conditions = status(harness)["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("status"), text("reason"))
}

/// The message of a condition.
fn message(harness: &Harness, type_: &str) -> String {
    let conditions = status(harness)["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    found["message"].as_str().unwrap_or_default().to_owned()
}

/// Counts calls, and refuses watches of one resource.
#[derive(Default)]
struct Calls {
    made: Mutex<Vec<String>>,
    refused: Mutex<Option<(&'static str, u16)>>,
}

impl Calls {
    /// Number of calls of a verb on a resource so far.
    fn count(&self, verb: &str, resource: &str) -> usize {
        let call = format!("{verb} {resource}");
        self.made.lock().unwrap().iter().filter(|made| **made == call).count()
    }
}

impl Faults for Calls {
    fn decide(&self, request: &Request) -> Fault {
        self.made.lock().unwrap().push(format!("{} {}", request.verb, request.resource));
        let refused = *self.refused.lock().unwrap();
        let Some((_, code)) =
            refused.filter(|(resource, _)| request.verb == "watch" && request.resource == *resource)
        else {
            return Fault::default();
        };
        let why = if code == 403 {
            ApiError::new(403, "Forbidden", format!("{} is forbidden: no RBAC rule", request.resource))
        } else {
            ApiError::no_such_route()
        };
        Fault { answer: Answer::Refuse(why), ..Fault::default() }
    }
}

fn counted() -> (Harness, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let harness = Harness::faulty(calls.clone(), |settings| settings.gates.capacity_buffer = true);
    harness.pool("default", json!({}));
    (harness, calls)
}

fn claims(harness: &Harness) -> usize {
    harness.server.list("karpenter.sh/v1", "NodeClaim", "").len()
}

#[tokio::test(start_paused = true)]
async fn a_buffer_creates_nodes_once_and_yields_to_pods() {
    let harness = harness();
    template(&harness, "1500m");
    buffer(&harness, json!({"podTemplateRef": {"name": "shape"}, "replicas": 2}));
    let (stop, running) = harness.run(controllers(&harness));
    harness.pass(4).await;
    assert_eq!(claims(&harness), 1);
    assert_eq!(condition(&harness, "ReadyForProvisioning"), "True Resolved");
    let seen = status(&harness);
    assert_eq!((&seen["replicas"], &seen["podTemplateRef"]["name"]), (&json!(2), &json!("shape")));
    harness.pass(120).await;
    assert_eq!(claims(&harness), 1, "the chunks fit");
    assert_eq!(condition(&harness, "Provisioning"), "True FitsExistingCapacity");
    let held: Vec<u32> = harness
        .ctx
        .cluster
        .index()
        .snapshot(harness.ctx.clocks.now())
        .nodes
        .iter()
        .map(|n| n.buffered)
        .collect();
    assert_eq!(held, [2], "emptiness knows");
    // A pod uses the capacity of the buffer; the buffer gets another node.
    harness.pending_pod("p", "3");
    harness.pass(60).await;
    assert_eq!(claims(&harness), 2);
    assert!(
        harness.events().iter().all(|event| !event.contains("capacity-buffer")),
        "{:?}",
        harness.events()
    );
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_condition_names_why_chunks_do_not_fit() {
    let harness = harness();
    buffer(&harness, json!({"podTemplateRef": {"name": "shape"}, "replicas": 0}));
    let (stop, running) = harness.run(controllers(&harness));
    harness.pass(5).await;
    assert_eq!(condition(&harness, "ReadyForProvisioning"), "False PodTemplateNotFound");
    assert_eq!(condition(&harness, "Provisioning"), "False NotReadyForProvisioning");
    template(&harness, "1");
    harness.pass(5).await;
    assert_eq!(condition(&harness, "ReadyForProvisioning"), "True Resolved");
    assert_eq!(condition(&harness, "Provisioning"), "False BufferEmpty");
    harness.server.delete("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "default", "spare").unwrap();
    buffer(&harness, json!({"podTemplateRef": {"name": "shape"}, "replicas": 1}));
    harness.server.delete("karpenter.sh/v1", "NodePool", "", "default").unwrap();
    harness.pass(60).await;
    assert_eq!(condition(&harness, "Provisioning"), "False RequiresNewCapacity");
    assert_eq!(claims(&harness), 0);
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_workload_provides_template_and_replicas() {
    let harness = harness();
    let scale = |replicas| scale(&harness, replicas);
    buffer(&harness, of_web());
    let (stop, running) = harness.run(controllers(&harness));
    harness.pass(7).await;
    assert_eq!(condition(&harness, "ReadyForProvisioning"), "False ScalableRefNotFound");
    scale(10);
    harness.pass(5).await;
    assert_eq!(status(&harness)["replicas"], 3);
    harness.pass(60).await;
    assert_eq!(claims(&harness), 1);
    scale(4);
    harness.pass(5).await;
    assert_eq!(status(&harness)["replicas"], 1);
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn quotas_reduce_the_chunks() {
    let harness = harness();
    template(&harness, "1");
    let quota = |cpu: &str| {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"hard": {"requests.cpu": cpu}}, "status": {"used": {"requests.cpu": "2"}}});
        harness.server.apply(quota).unwrap();
    };
    quota("4");
    buffer(&harness, json!({"podTemplateRef": {"name": "shape"}, "replicas": 5}));
    let (stop, running) = harness.run(controllers(&harness));
    harness.pass(60).await;
    assert_eq!(status(&harness)["replicas"], 2);
    assert_eq!(condition(&harness, "LimitedByQuotas"), "True LimitedByQuotas");
    assert_eq!(condition(&harness, "ReadyForProvisioning"), "True Resolved");
    quota("40");
    harness.pass(5).await;
    assert_eq!((&status(&harness)["replicas"], &*condition(&harness, "LimitedByQuotas")), (&json!(5), " "));
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_buffer_get_the_defaults_of_limit_ranges() {
    let harness = Harness::set(|settings| {
        settings.gates.capacity_buffer = true;
        settings.limit_range_defaults = true;
    });
    let default = |namespace: &str, cpu: &str| {
        let range = json!({"apiVersion": "v1", "kind": "LimitRange",
            "metadata": {"name": "defaults", "namespace": namespace},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": cpu}}]}});
        harness.server.apply(range).unwrap();
    };
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate",
        "metadata": {"name": "shape", "namespace": "default"},
        "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}});
    harness.server.apply(template).unwrap();
    default("default", "2");
    default("kube-system", "7");
    buffer(&harness, json!({"podTemplateRef": {"name": "shape"}, "limits": {"cpu": "8"}}));
    let (stop, running) = harness.run(controllers(&harness));
    harness.pass(5).await;
    assert_eq!(status(&harness)["replicas"], 4);
    default("default", "4");
    harness.pass(2).await;
    assert_eq!(status(&harness)["replicas"], 2, "a LimitRange that changes is noticed by watch");
    stop.fire();
    running.await.unwrap().unwrap();
}

#[rstest]
#[case("Deployment", "deployments")]
#[case("StatefulSet", "statefulsets")]
#[case("ReplicaSet", "replicasets")]
#[case("PodTemplate", "podtemplates")]
#[tokio::test(start_paused = true)]
async fn the_condition_names_a_forbidden_workload(#[case] kind: &str, #[case] plural: &str) {
    let refusals = Arc::new(Refusals::default());
    refusals.set(&[plural], 403);
    let harness = Harness::faulty(refusals.clone(), |settings| settings.gates.capacity_buffer = true);
    harness.pool("default", json!({}));
    if kind == "PodTemplate" {
        buffer(&harness, json!({"podTemplateRef": {"name": "web"}, "replicas": 1}));
    } else {
        let reference = json!({"apiGroup": "apps", "kind": kind, "name": "web"});
        buffer(&harness, json!({"scalableRef": reference, "percentage": 25}));
    }
    let _running = harness.run(controllers(&harness));
    harness.pass(5).await;
    assert_eq!(condition(&harness, "ReadyForProvisioning"), "False Forbidden");
    refusals.set(&[], 0);
    harness.pass(40).await;
    let missing = if kind == "PodTemplate" { "PodTemplateNotFound" } else { "ScalableRefNotFound" };
    assert_eq!(condition(&harness, "ReadyForProvisioning"), format!("False {missing}"));
}

#[tokio::test(start_paused = true)]
async fn without_quotas_a_buffer_is_not_limited() {
    let refusals = Arc::new(Refusals::default());
    refusals.set(&["resourcequotas"], 403);
    let harness = Harness::faulty(refusals.clone(), |settings| settings.gates.capacity_buffer = true);
    harness.pool("default", json!({}));
    template(&harness, "1");
    buffer(&harness, json!({"podTemplateRef": {"name": "shape"}, "replicas": 2}));
    let _running = harness.run(controllers(&harness));
    harness.pass(5).await;
    assert_eq!(claims(&harness), 1);
    let off = || harness.ctx.metrics.value(&FEATURE_OFF, &["resource-quotas", "resourcequotas", "Forbidden"]);
    assert_eq!(off(), 1.0);
    refusals.set(&[], 0);
    harness.pass(40).await;
    assert_eq!(off(), 0.0);
}

#[rstest]
#[case(
    "deployments",
    403,
    "deployments.apps is forbidden (403): add the rule apiGroups: [\"apps\"], resources: [\"deployments\"], verbs: [\"get\", \"list\", \"watch\"] to the controller's ClusterRole"
)]
#[case(
    "deployments",
    404,
    "deployments.apps is not served (404): install its CustomResourceDefinition, or enable the API group"
)]
#[case(
    "resourcequotas",
    403,
    "resourcequotas is forbidden (403): add the rule apiGroups: [\"\"], resources: [\"resourcequotas\"], verbs: [\"get\", \"list\", \"watch\"] to the controller's ClusterRole"
)]
#[tokio::test(start_paused = true)]
async fn what_may_not_be_watched_is_polled_and_the_condition_says_so(
    #[case] resource: &'static str,
    #[case] code: u16,
    #[case] why: &str,
) {
    let (harness, calls) = counted();
    *calls.refused.lock().unwrap() = Some((resource, code));
    buffer(&harness, of_web());
    let _running = harness.run(controllers(&harness));
    let said = format!("changes are noticed within 30s, not by watch: {why}");
    harness.pass(5).await;
    if resource == "deployments" {
        let missing = message(&harness, "ReadyForProvisioning");
        assert_eq!(missing, format!("Deployment web does not exist: create it; {said}"));
    }
    scale(&harness, 10);
    harness.pass(32).await;
    assert_eq!(condition(&harness, "ReadyForProvisioning"), "True Resolved");
    assert_eq!(message(&harness, "ReadyForProvisioning"), said);
    assert_eq!(status(&harness)["replicas"], 3);
    let asked = calls.count("watch", resource);
    harness.pass(600).await;
    assert!(calls.count("watch", resource) - asked <= 20, "a refused watch is tried again every 30 s");
    // The permission comes.
    *calls.refused.lock().unwrap() = None;
    harness.pass(40).await;
    assert_eq!(message(&harness, "ReadyForProvisioning"), "");
    scale(&harness, 20);
    harness.pass(5).await;
    assert_eq!(status(&harness)["replicas"], 5);
}

#[tokio::test(start_paused = true)]
async fn only_what_buffers_refer_to_is_watched() {
    let (harness, calls) = counted();
    let _running = harness.run(controllers(&harness));
    let watched = || {
        let kinds = ["deployments", "statefulsets", "replicasets", "podtemplates", "resourcequotas"];
        kinds.map(|kind| calls.count("watch", kind))
    };
    harness.pass(300).await;
    assert_eq!(watched(), [0; 5]);
    scale(&harness, 10);
    buffer(&harness, of_web());
    harness.pass(10).await;
    assert_eq!(watched(), [1, 0, 0, 0, 1]);
    // Status updates of a workload are not read once its generation is known, and the usage of a quota at most every two seconds.
    let read = || calls.count("get", "deployments");
    let before = read();
    for used in 0..150_u32 {
        let mut web = (*harness.server.get("apps/v1", "Deployment", "default", "web").unwrap()).clone();
        web["status"] = json!({"replicas": used});
        harness.server.apply(web).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(read(), before + 1, "15 s of changed status");
    let before = read();
    for used in 0..200_u32 {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"hard": {"requests.cpu": "100"}}, "status": {"used": {"requests.cpu": used.to_string()}}});
        harness.server.apply(quota).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let reads = read() - before;
    assert!((9..=12).contains(&reads), "{reads} reads in 20 s of changed usage");
    assert_eq!(status(&harness)["replicas"], 0, "the quota leaves nothing");
    // Without the buffer the watches end.
    harness.server.delete("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "default", "spare").unwrap();
    harness.pass(120).await;
    let last = watched();
    harness.pass(300).await;
    assert_eq!(watched(), last);
}
