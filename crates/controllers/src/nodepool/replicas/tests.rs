//! Static NodePools with a cloud that launches nothing.

use std::sync::Arc;

use fleetwright_core::decisions::Choice;
use serde_json::json;

use crate::{
    all::claim_controllers,
    metrics::scheduling::NODECLAIMS_CREATED,
    provisioning,
    runtime::{Controller, decisions::DecisionQuery},
    testing::Harness,
};

fn controllers(harness: &Harness) -> Vec<Arc<dyn Controller>> {
    let mut all = provisioning::controllers(&harness.ctx);
    all.extend(claim_controllers(&harness.ctx, Vec::new()));
    all
}

/// Number of NodeClaims created so far.
fn created_count(harness: &Harness) -> f64 {
    harness.ctx.metrics.value(&NODECLAIMS_CREATED, &["provisioned", "fixed", "false"])
}

#[tokio::test(start_paused = true)]
async fn failing_claims_are_created_with_a_backoff() {
    let harness = Harness::gated(|gates| gates.static_capacity = true);
    harness.pool("fixed", json!({"replicas": 2}));
    let (stop, running) = harness.run(controllers(&harness));
    harness.pass(2).await;
    assert!(created_count(&harness) >= 4.0, "the first backoff is short: {}", created_count(&harness));
    // After 1, 2, 4, 8, 16, 32 seconds, and each minute from then on.
    harness.pass(598).await;
    let slowly = created_count(&harness);
    assert!((20.0..=34.0).contains(&slowly), "{slowly}");
    let reported = harness.events().into_iter().find(|event| event.contains("ReplicaCreationBackoff"));
    let reported = reported.expect("an event");
    assert!(reported.starts_with("NodePool/fixed ReplicaCreationBackoff: 2 node(s) missing"), "{reported}");
    // Another spec may be satisfiable.
    harness.pool("fixed", json!({"replicas": 3}));
    harness.pass(1).await;
    assert!(created_count(&harness) >= slowly + 3.0, "{}", created_count(&harness));
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn claim_creation_is_rate_limited() {
    let harness = Harness::gated(|gates| gates.static_capacity = true);
    *harness.ctx.limits.lock() = fleetwright_core::safety::Limits::with_rates((2, 1), (1, 1));
    harness.pool("fixed", json!({"replicas": 9, "limits": {"nodes": "9"}}));
    let mut all = provisioning::controllers(&harness.ctx);
    all.push(Arc::new(crate::nodepool::StaticProvisioning::new(&harness.ctx)));
    let _running = harness.run(all);
    for second in 1..=15_u32 {
        harness.pass(1).await;
        assert!(
            created_count(&harness) <= f64::from(2 + second),
            "{} within {second} s",
            created_count(&harness)
        );
    }
    assert_eq!(created_count(&harness), 9.0, "no reservation was kept for NodeClaims that had to wait");
}

#[tokio::test(start_paused = true)]
async fn deletion_of_a_surplus_nodeclaim_is_recorded() {
    let harness = Harness::gated(|gates| gates.static_capacity = true);
    harness.pool("fixed", json!({"replicas": 2, "limits": {"nodes": "2"}}));
    let mut all = provisioning::controllers(&harness.ctx);
    all.push(Arc::new(crate::nodepool::StaticProvisioning::new(&harness.ctx)));
    all.push(Arc::new(crate::nodepool::StaticDeprovisioning::new(&harness.ctx)));
    let _running = harness.run(all);
    harness.pass(2).await;
    harness.pool("fixed", json!({"replicas": 1, "limits": {"nodes": "2"}}));
    harness.pass(2).await;
    let query = DecisionQuery { kinds: vec!["deletion".into()], ..DecisionQuery::default() };
    let records = harness.ctx.decisions.ring().lock().read(&query);
    let [record] = &records[..] else { panic!("{records:?}") };
    let Choice::Deletion(choice) = &record.draft.choice else { panic!("{record:?}") };
    assert_eq!((choice.cause.as_str(), choice.node_pool.as_deref()), ("surplus", Some("fixed")));
}
