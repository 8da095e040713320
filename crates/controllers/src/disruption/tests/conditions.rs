//! The condition DisruptionBlocked.

use super::*;

/// A node that only its pods keep from consolidation.
fn harness(pods: &[&str]) -> Harness {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    node(&harness, "old", "Consolidatable");
    harness.server.delete("v1", "Pod", "default", "p-old").unwrap();
    for pod in pods {
        protected(&harness, pod);
    }
    harness
}

/// Adds a pod with do-not-disrupt to the node.
fn protected(harness: &Harness, name: &str) {
    harness
        .server
        .apply(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
                "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
            "spec": {"nodeName": "old", "containers": [
                {"name": "a", "image": "a", "resources": {"requests": {"cpu": "500m"}}}]},
            "status": {"phase": "Running", "conditions": [condition("Ready")]},
        }))
        .unwrap();
}

fn delete_pod(harness: &Harness, name: &str) {
    harness.server.delete("v1", "Pod", "default", name).unwrap();
}

fn blocked(harness: &Harness, claim_name: &str) -> Value {
    let claim = claim(harness, claim_name);
    let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|c| c["type"] == "DisruptionBlocked").unwrap_or_default()
}

/// The pods that the condition names.
fn blocking_pods(harness: &Harness) -> Vec<String> {
    let blocked = blocked(harness, "old");
    let message = blocked["message"].as_str().unwrap_or_default();
    let owners = message.split("[pod/default/").skip(1).filter_map(|rest| rest.split(']').next());
    owners.map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn the_condition_follows_the_blockers_and_is_not_rewritten() {
    let harness = harness(&["a"]);
    let (trigger, task) = harness.run(controllers(&harness));
    harness.pass(90).await;
    assert_eq!(blocking_pods(&harness), ["a"], "{}", blocked(&harness, "old"));
    let version = claim(&harness, "old")["metadata"]["resourceVersion"].clone();
    harness.pass(600).await;
    assert_eq!(claim(&harness, "old")["metadata"]["resourceVersion"], version, "nothing changed");
    protected(&harness, "b");
    harness.pass(90).await;
    assert_eq!(blocking_pods(&harness), ["a", "b"], "the second pod blocks too");
    delete_pod(&harness, "a");
    harness.pass(90).await;
    assert_eq!(blocking_pods(&harness), ["b"], "the first pod does not block any more");
    trigger.fire();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pass_with_commands_updates_the_condition_too() {
    let harness = harness(&["a"]);
    let (trigger, task) = harness.run(controllers(&harness));
    harness.pass(55).await;
    assert_eq!(blocked(&harness, "old"), Value::Null, "the first update is due a minute after the start");
    node(&harness, "empty", "Consolidatable");
    delete_pod(&harness, "p-empty");
    harness.pass(40).await;
    let empty = claim(&harness, "empty");
    assert!(empty["metadata"]["deletionTimestamp"].is_string(), "the pass had a command: {empty:#}");
    assert_eq!(blocking_pods(&harness), ["a"], "{}", claim(&harness, "old"));
    trigger.fire();
    task.await.unwrap().unwrap();
}
