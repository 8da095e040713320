//! CapacityBuffers, from the object to NodeClaims and back to its status.

use std::sync::Arc;

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
    harness.pass(40).await;
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
    harness
        .server
        .apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 10, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                    {"name": "a", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}}}}))
        .unwrap();
    let reference = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    buffer(&harness, json!({"scalableRef": reference, "percentage": 25}));
    let (stop, running) = harness.run(controllers(&harness));
    harness.pass(60).await;
    assert_eq!(status(&harness)["replicas"], 3);
    assert_eq!(claims(&harness), 1);
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
    harness.pass(60).await;
    assert_eq!((&status(&harness)["replicas"], &*condition(&harness, "LimitedByQuotas")), (&json!(5), " "));
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
