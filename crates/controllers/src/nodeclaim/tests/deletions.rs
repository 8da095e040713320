//! Each deletion that is part of no disruption has a record: its cause, what was found, and what came of it.

use fleetwright_core::decisions::Choice;
use serde_json::json;

use super::harness::{Harness, instance};
use crate::runtime::decisions::DecisionQuery;

/// `object name cause status: reason` of each deletion.
fn deletions(harness: &Harness) -> Vec<String> {
    let query = DecisionQuery { kinds: vec!["deletion".into()], ..DecisionQuery::default() };
    let records = harness.ctx.decisions.ring().lock().read(&query);
    let line = |record: &std::sync::Arc<fleetwright_core::decisions::DecisionRecord>| {
        let Choice::Deletion(choice) = &record.draft.choice else { panic!("{record:?}") };
        let status = record.draft.outcome.as_ref().expect("an outcome").status.as_str();
        let why = &record.draft.reasons[0].message;
        let price = choice.price.as_ref().map(|price| format!(" ${price}/h")).unwrap_or_default();
        format!("{} {} {}{price} {status}: {why}", choice.of, choice.name, choice.cause)
    };
    records.iter().map(line).collect()
}

fn not_ready(harness: &Harness, node: &str) {
    harness.apply(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2019-01-01T00:00:00Z"}]},
    }));
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_node() {
    let harness = Harness::new().repairing().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    not_ready(&harness, "node-a");
    let found =
        "node condition Ready is False; the toleration of the repair policy ended at 2019-01-01T00:10:00Z";
    harness.until("deleted", || !deletions(&harness).is_empty()).await;
    assert_eq!(deletions(&harness), [format!("NodeClaim a unhealthy started: {found}")]);
    harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert_eq!(deletions(&harness), [format!("NodeClaim a unhealthy succeeded: {found}")]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_node_and_one_without_its_instance() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({"spec": {"expireAfter": "24h"}})).await;
    harness.initialized_node("b", "node-b", json!({})).await;
    harness.sleep(600).await;
    let id = harness.get_claim("b").expect("a claim")["status"]["providerID"].as_str().unwrap().to_owned();
    harness.cloud.state().instances.remove(id.as_str());
    not_ready(&harness, "node-b");
    harness.until("gone", || harness.get_claim("b").is_none()).await;
    harness.sleep(86_400).await;
    harness.until("gone", || harness.get_claim("a").is_none()).await;
    let [collected, expired] = &deletions(&harness)[..] else { panic!("{:?}", deletions(&harness)) };
    assert_eq!(
        *collected,
        format!("NodeClaim b garbage_collected succeeded: the cloud has no instance {id}")
    );
    assert!(expired.starts_with("NodeClaim a expired succeeded: created at "), "{expired}");
    assert!(expired.ends_with(", and older than its expireAfter of 24h"), "{expired}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_registers_and_one_that_somebody_deleted() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.server.delete("v1", "Node", "", "node-a").expect("deletes");
    harness.until("gone", || harness.get_claim("a").is_none()).await;
    harness.claim("b", json!({}));
    harness.until("gone", || harness.get_claim("b").is_none()).await;
    let [deleted, timeout] = &deletions(&harness)[..] else { panic!("{:?}", deletions(&harness)) };
    assert_eq!(*deleted, "NodeClaim a node_deleted succeeded: its Node was deleted by another client");
    assert!(
        timeout.starts_with("NodeClaim b registration_timeout succeeded: instance test:///"),
        "{timeout}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_by_a_user_is_no_decision() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    harness.until("gone", || harness.get_claim("a").is_none()).await;
    assert_eq!(deletions(&harness), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_no_nodeclaim_accounts_for() {
    let harness = Harness::new().run();
    harness.initialized_node("a", "node-a", json!({})).await;
    let mut orphan = instance("left-over", "gone", "batch", 1);
    orphan.cluster_uid = Some("cluster".into());
    harness.cloud.state().instances.insert(orphan.provider_id.clone(), orphan);
    harness.until("terminated", || !deletions(&harness).is_empty()).await;
    harness.sleep(1).await;
    let expected = "Instance test:///left-over orphaned succeeded: no NodeClaim accounts for the instance";
    assert_eq!(deletions(&harness), [expected]);
}
