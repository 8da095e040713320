//! The lifecycle of NodeClaims against the in-memory API server, in virtual time.

mod crash;
mod deletions;
mod harness;
mod hooks;
mod nameless;
mod one_by_one;
mod refused;
mod repair;

use std::time::Duration;

use fleetwright_core::cloud::LaunchError;
use harness::{Harness, LaunchFault, condition_of, instance};
use rstest::rstest;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_claim_is_launched_registered_initialized_and_terminated() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    let claim = harness.get_claim("a").expect("a claim");
    assert_eq!(harness.condition("a", "Ready"), "True");
    assert_eq!(claim["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    assert_eq!(claim["metadata"]["labels"]["node.kubernetes.io/instance-type"], "medium");
    assert_eq!(claim["metadata"]["annotations"]["fleetwright.dev/attempt"], "1");
    let status = &claim["status"];
    assert_eq!(status["nodeName"], "node-a");
    assert_eq!((&status["imageID"], &status["capacity"]["cpu"]), (&json!("image-1"), &json!("4")));
    let node = harness.get("v1", "Node", "node-a").expect("a node");
    assert_eq!(node["metadata"]["labels"]["karpenter.sh/initialized"], "true");
    assert_eq!(node["metadata"]["labels"]["karpenter.sh/nodepool"], "default");
    assert_eq!(node["metadata"]["ownerReferences"][0]["name"], "a");
    assert_eq!(node["spec"]["taints"], Value::Null, "{node:#?}");
    harness.pod("p", "node-a", json!({}));
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    let leaving = || {
        harness
            .server
            .get("v1", "Pod", "default", "p")
            .is_some_and(|p| p["metadata"]["deletionTimestamp"].is_string())
    };
    harness.until("evicted", leaving).await;
    assert_eq!(harness.condition("a", "Drained"), "Unknown/Draining");
    let node = harness.get("v1", "Node", "node-a").expect("a node that drains");
    assert_eq!(node["spec"]["taints"][0]["key"], "karpenter.sh/disrupted");
    assert_eq!(harness.cloud.state().terminations, 0, "no instance is terminated while a pod runs on it");
    harness.end_pod("p").await;
    harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert!(harness.get("v1", "Node", "node-a").is_none());
    assert!(harness.cloud.state().instances.is_empty());
    let events = harness.events();
    for reason in ["Evicted", "FailedDraining"] {
        assert!(events.iter().any(|event| event == reason), "{reason}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_status_write_reports_a_stage_and_what_the_next_one_waits_for() {
    let harness = Harness::new().run();
    harness.claim("a", json!({}));
    harness.until("launched", || harness.condition("a", "Launched") == "True").await;
    assert_eq!(harness.condition("a", "Registered"), "Unknown/NodeNotFound");
    harness.join("node-a", "a");
    harness.until("registered", || harness.condition("a", "Registered") == "True").await;
    assert_eq!(harness.condition("a", "Initialized"), "Unknown/StartupTaintsExist");
    harness.sleep(1).await;
    let writes = harness.writes.lock().expect("unpoisoned").clone();
    let of_status = writes.iter().filter(|write| *write == "patch nodeclaims/a status").count();
    assert_eq!(of_status, 2, "{writes:#?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_nothing_changes() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.pod("p", "node-a", json!({}));
    harness.sleep(120).await;
    harness.writes.lock().expect("unpoisoned").clear();
    harness.sleep(3600).await;
    assert_eq!(*harness.writes.lock().expect("unpoisoned"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_clock_is_fast_launches_claims() {
    let harness = Harness::new().ahead(jiff::SignedDuration::from_mins(10)).run();
    harness.initialized_node("a", "node-a", json!({})).await;
    assert_eq!(harness.cloud.state().launched, 1);
}

/// Annotations for a position in batch `plan-0`.
fn batch_position(position: u32) -> Value {
    let position = position.to_string();
    let annotations =
        json!({"fleetwright.dev/batch-id": "plan-0", "fleetwright.dev/batch-position": position});
    json!({"metadata": {"annotations": annotations}})
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_batch_are_launched_by_one_call() {
    let harness = Harness::new();
    for (name, position) in [("a", 0), ("b", 1), ("c", 2)] {
        harness.claim(name, batch_position(position));
    }
    let harness = harness.run();
    harness
        .until("launched", || {
            ["a", "b", "c"].iter().all(|name| harness.condition(name, "Launched") == "True")
        })
        .await;
    let calls = harness.cloud.state().calls.clone();
    let names = ["a", "b", "c"].map(Into::into).to_vec();
    assert_eq!(calls, [("plan-0".into(), 1, names)]);
    harness.claim("late", batch_position(3));
    harness.until("launched", || harness.condition("late", "Launched") == "True").await;
    let late = harness.cloud.state().calls.last().cloned().expect("a call");
    assert_eq!(late, ("plan-0".into(), 1004, vec!["late".into()]), "the next attempt");
    assert_eq!(harness.cloud.state().instances.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn claims_wait_while_their_batch_is_being_launched() {
    let harness = Harness::new();
    for (name, position) in [("a", 0), ("b", 1)] {
        harness.claim(name, batch_position(position));
    }
    harness.cloud.state().slow = Duration::from_secs(60);
    let harness = harness.run();
    harness.sleep(5).await;
    harness.claim("late", batch_position(2));
    harness.sleep(50).await;
    let requeued = ["nodeclaim.lifecycle", "requeue_after"];
    let reconciles = harness.ctx.metrics.value(&crate::metrics::runtime::RECONCILES, &requeued);
    assert!(reconciles < 10.0, "{reconciles} reconciles while the cloud does not respond");
    harness.cloud.state().slow = Duration::ZERO;
    let launched = |name: &str| harness.condition(name, "Launched") == "True";
    let took = harness.until("launched", || ["a", "b", "late"].into_iter().all(launched)).await;
    assert!(took < 12, "{took} s: the NodeClaim that was not part of the call is launched after it");
}

/// A large fleet answers after minutes: its answer is waited for, and the call is not repeated meanwhile.
#[tokio::test(start_paused = true)]
async fn a_launch_may_take_four_minutes() {
    let harness = Harness::new();
    harness.claim("a", json!({}));
    harness.cloud.state().slow = Duration::from_secs(240);
    let harness = harness.run();
    let took = harness.until("launched", || harness.condition("a", "Launched") == "True").await;
    assert!((240..250).contains(&took), "{took} s");
    assert_eq!(harness.cloud.state().calls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn claims_are_enqueued_once_their_batch_is_created() {
    let harness = Harness::new();
    for creation in ["b", "c"] {
        harness.ctx.cluster.index().create_in_batch(creation, "plan-0");
    }
    harness.claim("a", batch_position(0));
    let harness = harness.run();
    harness.sleep(5).await;
    harness.claim("b", batch_position(1));
    super::end_creation(&harness.ctx.cluster, "b");
    harness.sleep(50).await;
    let requeued = ["nodeclaim.lifecycle", "requeue_after"];
    let reconciles = harness.ctx.metrics.value(&crate::metrics::runtime::RECONCILES, &requeued);
    assert!(reconciles < 10.0, "{reconciles} reconciles while NodeClaim c is being created");
    assert!(harness.cloud.state().calls.is_empty(), "the batch is not complete");
    // NodeClaim c was not created after all.
    super::end_creation(&harness.ctx.cluster, "c");
    let launched = |name: &str| harness.condition(name, "Launched") == "True";
    let took = harness.until("launched", || ["a", "b"].into_iter().all(launched)).await;
    assert!(took < 2, "{took} s");
    assert_eq!(harness.cloud.state().calls, [("plan-0".into(), 1, vec!["a".into(), "b".into()])]);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_response_is_lost_is_repeated() {
    let harness = Harness::new();
    harness.cloud.state().launch_faults.push_back(LaunchFault::LoseResponse);
    let throttled = LaunchError::RateLimited { after: Duration::from_secs(7) };
    harness.cloud.state().launch_faults.push_back(LaunchFault::Refuse(throttled));
    let harness = harness.run();
    harness.claim("a", json!({}));
    harness.until("launched", || harness.condition("a", "Launched") == "True").await;
    let calls = harness.cloud.state().calls.clone();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| *call == calls[0]), "the same call again: {calls:?}");
    assert_eq!(harness.cloud.state().instances.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_launch_failure_is_reported_and_retried() {
    let harness = Harness::new();
    let failed = LaunchError::Failed { reason: "Denied".into(), message: "not allowed".into() };
    harness.cloud.state().launch_faults.push_back(LaunchFault::Refuse(failed));
    let harness = harness.run();
    harness.claim("a", json!({}));
    harness.until("failed", || harness.condition("a", "Launched") == "Unknown/Denied").await;
    harness.until("launched", || harness.condition("a", "Launched") == "True").await;
    let attempts: Vec<u32> = harness.cloud.state().calls.iter().map(|(_, attempt, _)| *attempt).collect();
    assert_eq!(attempts, [1, 1001]);
}

#[rstest]
#[case(LaunchError::InsufficientCapacity("none left".into()), "InsufficientCapacityError")]
#[case(LaunchError::NodeClassNotReady("no class".into()), "NodeClassNotReady")]
#[tokio::test(start_paused = true)]
async fn without_capacity_a_claim_is_deleted_at_once(#[case] refusal: LaunchError, #[case] reason: &str) {
    let harness = Harness::new();
    harness.cloud.state().launch_faults.push_back(LaunchFault::Refuse(refusal));
    let harness = harness.run();
    harness.claim("a", json!({}));
    let took = harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert!(took < 5, "{took}");
    harness.sleep(5).await;
    assert!(harness.events().iter().any(|event| event == reason), "{:?}", harness.events());
}

/// Creates a NodeClaim as after a crash between the call and the status write.
fn crashed(harness: &Harness) {
    harness.claim(
        "a",
        json!({"metadata": {
            "finalizers": ["karpenter.sh/termination"],
            "annotations": {
                "fleetwright.dev/batch-id": "plan-0", "fleetwright.dev/batch-position": "0",
                "fleetwright.dev/attempt": "1", "fleetwright.dev/attempt-members": "0",
            },
        }}),
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_same_launch_call_is_repeated() {
    let harness = Harness::new();
    crashed(&harness);
    let left = instance("left", "a", "plan-0", 1);
    harness.cloud.state().instances.insert(left.provider_id.clone(), left);
    harness.claim("b", batch_position(1));
    let harness = harness.run();
    harness
        .until("launched", || ["a", "b"].iter().all(|name| harness.condition(name, "Launched") == "True"))
        .await;
    assert_eq!(harness.get_claim("a").expect("a claim")["status"]["providerID"], "test:///left");
    let state = harness.cloud.state();
    assert_eq!(state.instances.len(), 2);
    let first: Vec<_> = state.calls.iter().filter(|(_, attempt, _)| *attempt == 1).collect();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].2, ["a".into()], "a call that may have been made is repeated unchanged");
}

#[tokio::test(start_paused = true)]
async fn an_unrecorded_launch_is_terminated_before_the_claim_is_removed() {
    let harness = Harness::new();
    crashed(&harness);
    let left = instance("left", "a", "plan-0", 1);
    harness.cloud.state().instances.insert(left.provider_id.clone(), left);
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    let harness = harness.run();
    harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert!(harness.cloud.state().instances.is_empty());
    assert!(harness.cloud.state().calls.is_empty(), "nothing is launched for a deleted NodeClaim");
}

#[tokio::test(start_paused = true)]
async fn proof_that_a_launch_left_no_instance_takes_a_minute() {
    let harness = Harness::new();
    crashed(&harness);
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    let harness = harness.run();
    let took = harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert!((60..70).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_disruption_budget_blocks_a_drain() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.pod("p", "node-a", json!({}));
    let budget = |allowed: u32| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1},
        })
    };
    harness.apply(budget(0));
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness.sleep(600).await;
    let pod = harness.server.get("v1", "Pod", "default", "p").expect("a pod");
    assert!(pod["metadata"]["deletionTimestamp"].is_null());
    assert!(harness.events().iter().any(|event| event == "FailedDraining"));
    let claim = harness.get_claim("a").expect("a claim");
    let conditions = claim["status"]["conditions"].as_array().expect("conditions");
    let drained = conditions.iter().find(|condition| condition["type"] == "Drained").expect("a condition");
    let text = drained["message"].as_str().unwrap_or_default();
    let holder = "default/p (poddisruptionbudget default/web allows no disruption)";
    assert!(text.contains(holder), "{text}");
    harness.apply(budget(1));
    harness
        .until("evicted", || {
            harness
                .server
                .get("v1", "Pod", "default", "p")
                .is_none_or(|p| p["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
    harness.end_pod("p").await;
    harness.until("gone", || harness.get_claim("a").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn do_not_disrupt_blocks_a_drain_until_the_deadline() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({"spec": {"terminationGracePeriod": "120s"}})).await;
    let protected = json!({
        "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "yes please"}},
        "spec": {"terminationGracePeriodSeconds": 20},
    });
    harness.pod("p", "node-a", protected);
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    let leaving = || {
        harness
            .server
            .get("v1", "Pod", "default", "p")
            .is_none_or(|p| p["metadata"]["deletionTimestamp"].is_string())
    };
    let took = harness.until("forced", leaving).await;
    assert!((98..=104).contains(&took), "{took}");
    harness.end_pod("p").await;
    harness.until("gone", || harness.get_claim("a").is_none()).await;
    harness.sleep(5).await;
    let events = harness.events();
    for reason in ["InvalidDoNotDisruptAnnotation", "TerminationGracePeriodExpiring", "Disrupted"] {
        assert!(events.iter().any(|event| event == reason), "{reason}: {events:?}");
    }
    let drained = harness.ctx.metrics.value(&super::families::PODS_DRAINED, &["Forceful Termination"]);
    assert_eq!(drained, 0.0, "a pod that is deleted is not evicted");
}

#[tokio::test(start_paused = true)]
async fn instances_of_other_clusters_are_not_terminated() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.cloud.state().foreign = true;
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness
        .until("reported", || harness.condition("a", "InstanceTerminating") == "False/InstanceNotOwned")
        .await;
    harness.sleep(600).await;
    assert_eq!(harness.cloud.state().instances.len(), 1);
    assert!(harness.get_claim("a").is_some());
    assert!(harness.events().iter().any(|event| event == "InstanceNotOwned"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_its_instance_is_garbage_collected() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.sleep(600).await;
    harness.cloud.state().instances.clear();
    harness.sleep(600).await;
    assert!(harness.get_claim("a").is_some(), "its node is ready");
    harness.apply(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2020-01-01T00:00:00Z"}]},
    }));
    let took = harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert!(took < 240, "{took}");
    assert!(harness.get("v1", "Node", "node-a").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_claim_is_terminated() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    let add = |name: &str, claim: &str, uid: &str| {
        let mut orphan = instance(name, claim, "batch", 1);
        orphan.cluster_uid = Some(uid.into());
        harness.cloud.state().instances.insert(orphan.provider_id.clone(), orphan);
    };
    add("left-over", "gone", "cluster");
    add("left-double", "a", "cluster");
    add("of-others", "gone", "another cluster");
    harness.apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-left"},
        "spec": {"providerID": "test:///left-over"}}));
    harness.sleep(240).await;
    assert_eq!(harness.cloud.state().instances.len(), 4, "not before the grace period of orphans");
    harness.sleep(400).await;
    let left = |harness: &Harness| {
        let state = harness.cloud.state();
        state
            .instances
            .values()
            .filter(|known| !known.terminating)
            .map(|known| known.provider_id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(left(&harness), ["test:///i-1", "test:///of-others"]);
    assert!(harness.get("v1", "Node", "node-left").is_none());
    assert!(harness.get("v1", "Node", "node-a").is_some());
}

#[tokio::test(start_paused = true)]
async fn claims_that_do_not_register_are_deleted() {
    let harness = Harness::new().run();
    harness.claim("a", json!({}));
    let took = harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert!((900..930).contains(&took), "{took}");
    assert!(harness.cloud.state().instances.is_empty());
    harness.claim("b", json!({}));
    harness.until("gone", || harness.get_claim("b").is_none()).await;
    let pool = harness.get("karpenter.sh/v1", "NodePool", "default").expect("a pool");
    assert_eq!(condition_of(&pool, "NodeRegistrationHealthy"), "False/RegistrationFailed");
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_launches_fail_names_the_reason() {
    let harness = Harness::new().run();
    let refusal = LaunchError::Failed { reason: "QuotaExceeded".into(), message: "no more".into() };
    harness.cloud.state().launch_faults.extend((0..500).map(|_| LaunchFault::Refuse(refusal.clone())));
    for name in ["a", "b"] {
        harness.claim(name, json!({}));
        harness.until("gone", || harness.get_claim(name).is_none()).await;
    }
    harness.sleep(5).await;
    let pool = harness.get("karpenter.sh/v1", "NodePool", "default").expect("a pool");
    assert_eq!(condition_of(&pool, "NodeRegistrationHealthy"), "False/QuotaExceeded");
}

/// Nor do those that found no capacity: the NodePool is as good as before.
#[tokio::test(start_paused = true)]
async fn claims_of_another_pool_say_nothing_of_one() {
    let harness = Harness::new();
    let refusal = LaunchError::Failed { reason: "QuotaExceeded".into(), message: "no more".into() };
    harness.cloud.state().launch_faults.extend((0..500).map(|_| LaunchFault::Refuse(refusal.clone())));
    let harness = harness.run();
    let mut other = (*harness.get("karpenter.sh/v1", "NodePool", "default").expect("a pool")).clone();
    other["metadata"] = json!({"name": "other"});
    harness.apply(other);
    let uid = harness.get("karpenter.sh/v1", "NodePool", "other").expect("a pool")["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "other", "uid": uid}]);
    for name in ["a", "b"] {
        harness.claim(name, json!({"metadata": {"ownerReferences": owner}}));
        let took = harness.until("gone", || harness.get_claim(name).is_none()).await;
        assert!(took >= 300, "by the launch timeout: {took}");
    }
    harness.cloud.state().launch_faults.clear();
    for name in ["c", "d"] {
        let none = LaunchError::InsufficientCapacity("none left".into());
        harness.cloud.state().launch_faults.push_back(LaunchFault::Refuse(none));
        harness.claim(name, json!({}));
        harness.until("gone", || harness.get_claim(name).is_none()).await;
    }
    harness.sleep(5).await;
    let pool = harness.get("karpenter.sh/v1", "NodePool", "default").expect("a pool");
    assert_eq!(condition_of(&pool, "NodeRegistrationHealthy"), "Unknown/AwaitingReconciliation");
}

#[tokio::test(start_paused = true)]
async fn expired_claims_are_deleted() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({"spec": {"expireAfter": "10m"}})).await;
    let took = harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert!((590..630).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_pool_is_written() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.sleep(10).await;
    let pool = harness.get("karpenter.sh/v1", "NodePool", "default").expect("a pool");
    for condition in ["ValidationSucceeded", "NodeClassReady", "Ready", "NodeRegistrationHealthy"] {
        assert_eq!(condition_of(&pool, condition), "True", "{condition}: {pool:#?}");
    }
    let annotations = &pool["metadata"]["annotations"];
    assert_eq!(annotations["karpenter.sh/nodepool-hash"], "12745407319442031341");
    assert_eq!(annotations["karpenter.sh/nodepool-hash-version"], "v3");
    assert_eq!(pool["status"]["nodes"], 1);
    let resources = &pool["status"]["resources"];
    assert_eq!(
        (&resources["cpu"], &resources["nodes"], &resources["ephemeral-storage"]),
        (&json!("4"), &json!("1"), &json!("0"))
    );
    assert_eq!(harness.condition("a", "Consolidatable"), "True");
    assert_eq!(harness.condition("a", "ConsistentStateFound"), "True");
    harness.apply(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"taints": [{"key": "a", "value": "x", "effect": "NoSchedule"}]}}},
    }));
    harness.until("drifted", || harness.condition("a", "Drifted") == "True").await;
    harness.server.delete("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", "", "default").expect("deletes");
    let unready = || {
        let pool = harness.get("karpenter.sh/v1", "NodePool", "default").expect("a pool");
        condition_of(&pool, "NodeClassReady") == "False/NodeClassNotFound"
    };
    harness.until("class missed", unready).await;
}

#[tokio::test(start_paused = true)]
async fn evictions_are_rate_limited() {
    let harness = Harness::new();
    *harness.ctx.limits.lock() = fleetwright_core::safety::Limits::with_rates((9, 9), (2, 1));
    let harness = harness.run();
    harness.initialized_node("a", "node-a", json!({})).await;
    let pods: Vec<String> = (0..10).map(|n| format!("p{n}")).collect();
    pods.iter().for_each(|pod| harness.pod(pod, "node-a", json!({})));
    harness.sleep(2).await;
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    let evicted = || {
        let is_evicted = |pod: &&String| {
            let pod = harness.server.get("v1", "Pod", "default", pod);
            pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string())
        };
        pods.iter().filter(is_evicted).count()
    };
    for second in 1..=20 {
        harness.sleep(1).await;
        assert!(evicted() <= 2 + second, "{} within {second} s", evicted());
    }
    assert_eq!(evicted(), 10, "all are evicted");
}

#[tokio::test(start_paused = true)]
async fn pods_blocked_by_a_budget_use_no_tokens_of_other_evictions() {
    let harness = Harness::new();
    *harness.ctx.limits.lock() = fleetwright_core::safety::Limits::with_rates((9, 9), (2, 1));
    let harness = harness.run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.initialized_node("b", "node-b", json!({})).await;
    (0..60).for_each(|n| harness.pod(&format!("kept-{n}"), "node-a", json!({})));
    let of_others = json!({"metadata": {"labels": {"app": "other"}}});
    (0..4).for_each(|n| harness.pod(&format!("p{n}"), "node-b", of_others.clone()));
    harness.apply(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 60, "desiredHealthy": 60, "expectedPods": 60, "observedGeneration": 1},
    }));
    harness.sleep(2).await;
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness.sleep(300).await;
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "b").expect("deletes");
    let evicted = || {
        let is_evicted = |n: &u32| {
            let pod = harness.server.get("v1", "Pod", "default", &format!("p{n}"));
            pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string())
        };
        (0..4).filter(is_evicted).count()
    };
    let took = harness.until("evicted", || evicted() == 4).await;
    assert!((1..=5).contains(&took), "{took} s: only the rate limit delays them");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_does_not_delay_a_launch() {
    let (harness, clock) = Harness::new().settable();
    let harness = harness.run();
    let refusal = LaunchError::Failed { reason: "Broken".into(), message: "try later".into() };
    harness.cloud.state().launch_faults.push_back(LaunchFault::Refuse(refusal));
    harness.claim("a", json!({}));
    harness.until("refused", || harness.condition("a", "Launched") == "Unknown/Broken").await;
    clock.store(-3600, std::sync::atomic::Ordering::Relaxed);
    let took = harness.until("launched", || harness.condition("a", "Launched") == "True").await;
    assert!(took <= 5, "{took} s");
}
