//! A repair that is interrupted before it deletes the NodeClaim leaves nothing behind on a node that recovers.

use serde_json::{Value, json};

use super::harness::Harness;

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";
const MARK: &str = "fleetwright.dev/repair-deadline";

/// Whether node `node-a` is ready, and since when.
fn ready(harness: &Harness, status: &str, since: &str) {
    harness.apply(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]},
    }));
}

fn annotation(harness: &Harness, key: &str) -> Value {
    harness.get_claim("a").map(|claim| claim["metadata"]["annotations"][key].clone()).unwrap_or_default()
}

/// A node whose repair wrote its deadline before the process was killed.
async fn cut_off() -> Harness {
    let harness = Harness::new().repairing().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.sleep(900).await;
    let harness = harness.crash();
    let written = harness.ctx.clocks.now().to_string();
    harness.apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a", "annotations": {DEADLINE: written, MARK: written}}}));
    ready(&harness, "False", "2019-01-01T00:00:00Z");
    harness
}

#[tokio::test(start_paused = true)]
async fn pods_are_protected_on_a_node_that_recovers() {
    let harness = cut_off().await;
    ready(&harness, "True", "2019-06-01T00:00:00Z");
    let harness = harness.run();
    harness.until("taken back", || annotation(&harness, DEADLINE).is_null()).await;
    assert!(annotation(&harness, MARK).is_null());
    harness.pod("p", "node-a", json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    harness.sleep(5).await;
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness.sleep(600).await;
    let pod = harness.server.get("v1", "Pod", "default", "p").expect("a pod");
    assert!(pod["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn pods_are_protected_on_a_node_that_is_tolerated_again() {
    let harness = cut_off().await;
    let now = harness.ctx.clocks.now();
    ready(&harness, "False", &now.to_string());
    let harness = harness.run();
    let took = harness.until("taken back", || annotation(&harness, DEADLINE).is_null()).await;
    assert!(took < 60, "{took}");
    let took = harness.until("repaired", || harness.get_claim("a").is_none()).await;
    assert!(took > 500, "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_still_unhealthy_is_repaired_by_the_next_process() {
    let harness = cut_off().await.run();
    let deleting = || !harness.get_claim("a").expect("a claim")["metadata"]["deletionTimestamp"].is_null();
    harness.until("deleted", deleting).await;
    assert!(annotation(&harness, DEADLINE).is_string());
    assert_eq!(
        annotation(&harness, DEADLINE),
        annotation(&harness, MARK),
        "the annotation marks the deadline of a repair"
    );
    harness.until("gone", || harness.get_claim("a").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_is_not_written_again() {
    let harness = Harness::new().repairing().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    let theirs = "2019-06-01T00:00:00Z";
    harness.apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a", "annotations": {DEADLINE: theirs}}}));
    ready(&harness, "False", "2019-01-01T00:00:00Z");
    let deleting = || !harness.get_claim("a").expect("a claim")["metadata"]["deletionTimestamp"].is_null();
    harness.until("deleted", deleting).await;
    assert_eq!(annotation(&harness, DEADLINE), theirs);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_another_writer_is_not_removed() {
    let harness = cut_off().await;
    let theirs = "2030-01-01T00:00:00Z";
    harness.apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a", "annotations": {DEADLINE: theirs}}}));
    ready(&harness, "True", "2019-06-01T00:00:00Z");
    let harness = harness.run();
    harness.until("taken back", || annotation(&harness, MARK).is_null()).await;
    assert_eq!(annotation(&harness, DEADLINE), theirs);
}
