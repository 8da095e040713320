//! What a provider does before a node is registered.

use std::time::Duration;

use fleetwright_core::cloud::{CloudError, RegistrationHold};
use rstest::rstest;
use serde_json::json;

use super::harness::Harness;

/// What the cloud answers when it is asked whether a node may be registered.
#[derive(Clone)]
pub(super) enum HookAnswer {
    Hold(RegistrationHold),
    Fail(CloudError),
    /// It never answers.
    Hang,
}

const PENDING: &str = "Unknown/RegistrationHookPending";

fn hold(message: &str) -> HookAnswer {
    HookAnswer::Hold(RegistrationHold::new(message, Duration::from_secs(20)))
}

/// A NodeClaim with a joined node, about which the provider answers this.
async fn joined(answer: HookAnswer) -> Harness {
    let harness = Harness::new().run();
    harness.cloud.state().hook_answer = Some(answer);
    harness.claim("a", json!({}));
    harness.until("launched", || harness.condition("a", "Launched") == "True").await;
    harness.join("node-a", "a");
    harness
}

fn taints(harness: &Harness) -> Vec<String> {
    let node = harness.get("v1", "Node", "node-a").expect("a node");
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().map(|taint| taint["key"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The message of the condition `Registered`.
fn message(harness: &Harness) -> String {
    let claim = harness.get_claim("a").expect("a claim");
    let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|known| known["type"] == "Registered");
    found.map(|known| known["message"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_held_is_registered_once_the_provider_lets_it() {
    let harness = joined(hold("not in its load balancer")).await;
    harness.until("held", || harness.condition("a", "Registered") == PENDING).await;
    assert_eq!(message(&harness), "not in its load balancer");
    assert_eq!(taints(&harness), ["karpenter.sh/unregistered", "cni"]);
    let node = harness.get("v1", "Node", "node-a").expect("a node");
    assert_eq!(node["metadata"]["finalizers"], json!(["karpenter.sh/termination"]), "a deletion finds it");
    harness.sleep(300).await;
    assert_eq!(harness.condition("a", "Registered"), PENDING);
    harness.cloud.state().hook_answer = None;
    let took = harness.until("registered", || harness.condition("a", "Registered") == "True").await;
    assert!(took <= 21, "{took} s, and the provider wants to be asked every 20 s");
    assert_eq!(taints(&harness), ["cni"]);

    let asked = harness.cloud.state().hook_calls;
    harness.untaint("node-a", "cni");
    harness.until("initialized", || harness.condition("a", "Initialized") == "True").await;
    harness.sleep(900).await;
    assert_eq!(harness.cloud.state().hook_calls, asked, "a registered node is settled");
}

#[rstest]
#[case::failed(
    HookAnswer::Fail(CloudError::Unauthorized { action: "lb:Register".into() }),
    "the provider cannot say whether the node may be registered: "
)]
#[case::hung(
    HookAnswer::Hang,
    "the provider cannot say whether the node may be registered: the cloud returned an error"
)]
#[tokio::test(start_paused = true)]
async fn a_hook_without_an_answer_holds_the_node(#[case] answer: HookAnswer, #[case] shown: &str) {
    let harness = joined(answer).await;
    harness.until("held", || harness.condition("a", "Registered") == PENDING).await;
    assert!(message(&harness).starts_with(shown), "{}", message(&harness));
    assert_eq!(taints(&harness), ["karpenter.sh/unregistered", "cni"]);
    harness.cloud.state().hook_answer = None;
    harness.until("registered", || harness.condition("a", "Registered") == "True").await;
}

#[tokio::test(start_paused = true)]
async fn another_process_asks_again_and_a_node_that_is_held_for_too_long_goes() {
    let harness = joined(hold("not yet")).await;
    harness.until("held", || harness.condition("a", "Registered") == PENDING).await;
    let asked = harness.cloud.state().hook_calls;
    let harness = harness.crash().run();
    harness.until("asked again", || harness.cloud.state().hook_calls > asked).await;
    let took = harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert!((800..1000).contains(&took), "{took} s; a node has 15 minutes until it is registered");
    assert!(harness.cloud.state().instances.is_empty());
}

/// The rack of an instance: the catalogue does not know it, and pods may select it.
#[tokio::test(start_paused = true)]
async fn labels_that_only_the_launch_tells_are_on_the_node_before_pods_are() {
    let harness = Harness::new().run();
    harness.cloud.state().rack = Some("r7".to_owned());
    harness.cloud.state().hook_answer = Some(hold("not yet"));
    harness.claim("a", json!({}));
    harness.until("launched", || harness.condition("a", "Launched") == "True").await;
    let claim = harness.get_claim("a").expect("a claim");
    assert_eq!(claim["metadata"]["labels"]["example.com/rack"], "r7");
    harness.join("node-a", "a");
    harness.until("held", || harness.condition("a", "Registered") == PENDING).await;
    let rack = || {
        let node = harness.get("v1", "Node", "node-a").expect("a node");
        node["metadata"]["labels"]["example.com/rack"].clone()
    };
    assert_eq!(
        (rack(), taints(&harness)),
        (json!("r7"), vec!["karpenter.sh/unregistered".to_owned(), "cni".into()])
    );
    harness.cloud.state().hook_answer = None;
    harness.until("registered", || harness.condition("a", "Registered") == "True").await;
    assert_eq!(rack(), "r7");
}
