//! A cloud that refuses calls while nodes terminate.

use std::time::Duration;

use fleetwright_core::cloud::CloudError;
use rstest::rstest;
use serde_json::{Value, json};

use super::Harness;
use crate::nodeclaim::families;

fn denied(action: &str) -> CloudError {
    CloudError::Unauthorized { action: action.into() }
}

fn throttled() -> CloudError {
    CloudError::RateLimited { after: Duration::from_secs(7) }
}

/// A Node of ours whose NodeClaim is gone.
fn lost_node(harness: &Harness, more: Value) {
    let labels = json!({
        "karpenter.kwok.sh/kwoknodeclass": "default", "karpenter.sh/nodepool": "default",
        "topology.kubernetes.io/zone": "zone-a",
    });
    let metadata = json!({"name": "lost", "finalizers": ["karpenter.sh/termination"], "labels": labels});
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
    for field in ["spec", "status"].into_iter().filter(|field| more[*field].is_object()) {
        node[field] = more[field].clone();
    }
    harness.apply(node);
}

fn message(harness: &Harness, claim: &str) -> String {
    let claim = harness.get_claim(claim).expect("a claim");
    let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|known| known["type"] == "InstanceTerminating");
    found.and_then(|known| known["message"].as_str()).unwrap_or_default().to_owned()
}

fn reported(harness: &Harness, reason: &str) -> usize {
    harness.events().iter().filter(|event| *event == reason).count()
}

#[rstest]
#[case::denied(denied("ec2:TerminateInstances"), 30, "not authorized to perform ec2:TerminateInstances")]
#[case::throttled(throttled(), 120, "throttled by the cloud")]
#[case::another(CloudError::Unavailable("down (request 1)".into()), 120, "down (request 1)")]
#[tokio::test(start_paused = true)]
async fn a_refused_termination_is_reported_once(
    #[case] refusal: CloudError,
    #[case] seconds: u64,
    #[case] says: &str,
) {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.cloud.state().refusal = Some(refusal.clone());
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness.sleep(seconds).await;
    assert_eq!(harness.condition("a", "InstanceTerminating"), "Unknown/TerminationFailed");
    assert!(message(&harness, "a").contains(says), "{}", message(&harness, "a"));
    assert_eq!(reported(&harness, "TerminationFailed"), 1, "{:?}", harness.events());
    let before = harness.writes.lock().unwrap().len();
    if let CloudError::Unavailable(_) = refusal {
        harness.cloud.state().refusal = Some(CloudError::Unavailable("down (request 2)".into()));
    }
    harness.sleep(600).await;
    assert_eq!(harness.writes.lock().unwrap().len(), before, "an equal refusal is not written again");
    harness.cloud.state().refusal = None;
    harness.until("gone", || harness.get_claim("a").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn errors_that_last_less_than_a_minute_are_not_reported() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.cloud.state().refusal = Some(throttled());
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness.sleep(40).await;
    assert_eq!(harness.condition("a", "InstanceTerminating"), "");
    assert_eq!(reported(&harness, "TerminationFailed"), 0);
    harness.cloud.state().refusal = None;
    harness.until("gone", || harness.get_claim("a").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn another_refusal_is_reported_too() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.cloud.state().refusal = Some(denied("ec2:DescribeInstances"));
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness.until("said", || message(&harness, "a").contains("ec2:DescribeInstances")).await;
    harness.cloud.state().refusal = Some(denied("ec2:TerminateInstances"));
    harness.until("said", || message(&harness, "a").contains("ec2:TerminateInstances")).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_lookup_is_reported_until_one_succeeds() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.pod("p", "node-a", json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    let mut node = (*harness.get("v1", "Node", "node-a").expect("a node")).clone();
    node["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
    harness.apply(node);
    harness.cloud.state().refusal = Some(denied("ec2:DescribeInstances"));
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness.sleep(30).await;
    assert_eq!(harness.condition("a", "InstanceTerminating"), "Unknown/InstanceLookupFailed");
    assert!(message(&harness, "a").contains("ec2:DescribeInstances"), "{}", message(&harness, "a"));
    assert_eq!(reported(&harness, "InstanceLookupFailed"), 1, "{:?}", harness.events());
    harness.cloud.state().refusal = None;
    harness.sleep(30).await;
    assert_eq!(harness.condition("a", "InstanceTerminating"), "", "the lookup succeeded");
    assert_eq!(harness.condition("a", "Drained"), "Unknown/Draining", "the drain continues");
}

#[rstest]
#[case::denied(denied("ec2:DescribeInstances"), 1)]
#[case::throttled(throttled(), 0)]
#[tokio::test(start_paused = true)]
async fn a_failed_lookup_for_a_node_without_a_claim_is_reported(
    #[case] refusal: CloudError,
    #[case] times: usize,
) {
    let harness = Harness::new().run();
    lost_node(&harness, json!({"spec": {"providerID": "test:///lost"}}));
    harness.cloud.state().refusal = Some(refusal);
    harness.server.delete("v1", "Node", "", "lost").expect("deletes");
    harness.sleep(300).await;
    assert_eq!(reported(&harness, "InstanceLookupFailed"), times, "{:?}", harness.events());
    harness.cloud.state().refusal = None;
    harness.until("gone", || harness.get("v1", "Node", "lost").is_none()).await;
}

/// Whoever removes the finalizer of a NodeClaim deletes its Node with it. New pods stay off, and those on it are evicted before the instance
/// is terminated. A Node that names no instance ends after its drain, ready or not.
#[rstest]
#[case::ready(json!({"spec": {"providerID": "test:///lost"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}))]
#[case::without_instance(json!({}))]
#[case::ready_without_instance(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}))]
#[tokio::test(start_paused = true)]
async fn a_deleted_node_without_a_claim_is_drained(#[case] more: Value) {
    let harness = Harness::new().run();
    lost_node(&harness, more);
    harness.pod("p", "lost", json!({}));
    harness.server.delete("v1", "Node", "", "lost").expect("deletes");
    let leaving = || {
        let pod = harness.server.get("v1", "Pod", "default", "p");
        pod.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_string())
    };
    harness.until("evicted", leaving).await;
    let node = harness.get("v1", "Node", "lost").expect("a node that drains");
    let taints = node["spec"]["taints"].as_array().expect("taints");
    assert!(taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted"), "{taints:?}");
    harness.end_pod("p").await;
    harness.until("gone", || harness.get("v1", "Node", "lost").is_none()).await;
    let terminated = harness.ctx.metrics.value(&families::NODES_TERMINATED, &["default", "zone-a"]);
    assert!((terminated - 1.0).abs() < f64::EPSILON, "{terminated}");
}
