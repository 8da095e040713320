//! A cloud that does not do what it is asked while nodes end.

use std::time::Duration;

use fleetwright_core::cloud::CloudError;
use rstest::rstest;
use serde_json::json;

use super::World;

fn denied(action: &str) -> CloudError {
    CloudError::Unauthorized { action: action.into() }
}

fn throttled() -> CloudError {
    CloudError::RateLimited { after: Duration::from_secs(7) }
}

fn message(world: &World, claim: &str) -> String {
    let claim = world.get_claim(claim).expect("a claim");
    let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|known| known["type"] == "InstanceTerminating");
    found.and_then(|known| known["message"].as_str()).unwrap_or_default().to_owned()
}

fn told(world: &World, reason: &str) -> usize {
    world.events().iter().filter(|event| *event == reason).count()
}

#[rstest]
#[case::denied(denied("ec2:TerminateInstances"), 30, "not authorized to perform ec2:TerminateInstances")]
#[case::throttled(throttled(), 120, "throttled by the cloud")]
#[case::another(CloudError::Unavailable("down (request 1)".into()), 120, "down (request 1)")]
#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_ended_is_said_once(
    #[case] refusal: CloudError,
    #[case] seconds: u64,
    #[case] says: &str,
) {
    let world = World::new().run();
    world.grown("a", "node-a", json!({})).await;
    world.cloud.sky().refuses = Some(refusal.clone());
    world.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    world.sleep(seconds).await;
    assert_eq!(world.condition("a", "InstanceTerminating"), "Unknown/TerminationFailed");
    assert!(message(&world, "a").contains(says), "{}", message(&world, "a"));
    assert_eq!(told(&world, "TerminationFailed"), 1, "{:?}", world.events());
    let before = world.writes.lock().unwrap().len();
    if let CloudError::Unavailable(_) = refusal {
        world.cloud.sky().refuses = Some(CloudError::Unavailable("down (request 2)".into()));
    }
    world.sleep(600).await;
    assert_eq!(world.writes.lock().unwrap().len(), before, "the same refusal is no news");
    world.cloud.sky().refuses = None;
    world.until("gone", || world.get_claim("a").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn what_passes_within_a_minute_is_not_said() {
    let world = World::new().run();
    world.grown("a", "node-a", json!({})).await;
    world.cloud.sky().refuses = Some(throttled());
    world.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    world.sleep(40).await;
    assert_eq!(world.condition("a", "InstanceTerminating"), "");
    assert_eq!(told(&world, "TerminationFailed"), 0);
    world.cloud.sky().refuses = None;
    world.until("gone", || world.get_claim("a").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn another_refusal_is_said_too() {
    let world = World::new().run();
    world.grown("a", "node-a", json!({})).await;
    world.cloud.sky().refuses = Some(denied("ec2:DescribeInstances"));
    world.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    world.until("said", || message(&world, "a").contains("ec2:DescribeInstances")).await;
    world.cloud.sky().refuses = Some(denied("ec2:TerminateInstances"));
    world.until("said", || message(&world, "a").contains("ec2:TerminateInstances")).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_looked_up_is_said_until_it_can() {
    let world = World::new().run();
    world.grown("a", "node-a", json!({})).await;
    world.pod("p", "node-a", json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    let mut node = (*world.get("v1", "Node", "node-a").expect("a node")).clone();
    node["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
    world.apply(node);
    world.cloud.sky().refuses = Some(denied("ec2:DescribeInstances"));
    world.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    world.sleep(30).await;
    assert_eq!(world.condition("a", "InstanceTerminating"), "Unknown/InstanceLookupFailed");
    assert!(message(&world, "a").contains("ec2:DescribeInstances"), "{}", message(&world, "a"));
    assert_eq!(told(&world, "InstanceLookupFailed"), 1, "{:?}", world.events());
    world.cloud.sky().refuses = None;
    world.sleep(30).await;
    assert_eq!(world.condition("a", "InstanceTerminating"), "", "it is known now that it exists");
    assert_eq!(world.condition("a", "Drained"), "Unknown/Draining", "and the end goes on");
}

#[rstest]
#[case::denied(denied("ec2:DescribeInstances"), 1)]
#[case::throttled(throttled(), 0)]
#[tokio::test(start_paused = true)]
async fn a_node_without_a_claim_says_that_its_instance_cannot_be_looked_up(
    #[case] refusal: CloudError,
    #[case] times: usize,
) {
    let world = World::new().run();
    world.apply(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "lost", "finalizers": ["karpenter.sh/termination"],
            "labels": {"karpenter.kwok.sh/kwoknodeclass": "default"}},
        "spec": {"providerID": "test:///lost"},
    }));
    world.cloud.sky().refuses = Some(refusal);
    world.server.delete("v1", "Node", "", "lost").expect("deletes");
    world.sleep(300).await;
    assert_eq!(told(&world, "InstanceLookupFailed"), times, "{:?}", world.events());
    world.cloud.sky().refuses = None;
    world.until("gone", || world.get("v1", "Node", "lost").is_none()).await;
}
