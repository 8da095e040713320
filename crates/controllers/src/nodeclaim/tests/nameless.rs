//! Launches of several NodeClaims whose instances are tagged with the launch but not with a NodeClaim, interrupted before the
//! NodeClaims are tagged.

use rstest::rstest;
use serde_json::json;

use super::harness::{Harness, instance};

/// NodeClaims `a` and `b` of one call whose outcome was not recorded, and a number of its instances.
fn cut_off(instances: u32) -> Harness {
    let harness = Harness::new();
    for (name, position) in [("a", "0"), ("b", "1")] {
        let annotations = json!({
            "fleetwright.dev/batch-id": "plan-0", "fleetwright.dev/batch-position": position,
            "fleetwright.dev/attempt": "1", "fleetwright.dev/attempt-members": "0-1",
        });
        let metadata = json!({"finalizers": ["karpenter.sh/termination"], "annotations": annotations});
        harness.claim(name, json!({"metadata": metadata}));
    }
    for number in 1..=instances {
        let mut left = instance(&format!("left-{number}"), "", "plan-0", 1);
        left.claim = None;
        harness.cloud.state().instances.insert(left.provider_id.clone(), left);
    }
    harness
}

fn delete(harness: &Harness, claim: &str) {
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", claim).expect("deletes");
}

#[rstest]
#[case::none(0)]
#[case::fewer_than_claims(1)]
#[case::as_many(2)]
#[tokio::test(start_paused = true)]
async fn claims_deleted_together_leave_no_instance(#[case] instances: u32) {
    let harness = cut_off(instances);
    delete(&harness, "a");
    delete(&harness, "b");
    let harness = harness.run();
    let gone = || ["a", "b"].iter().all(|name| harness.get_claim(name).is_none());
    let took = harness.until("gone", gone).await;
    assert!((60..120).contains(&took), "{took} s: not before two lists show none");
    assert!(harness.cloud.state().instances.is_empty());
}

#[rstest]
#[case::fewer_than_claims(1)]
#[case::as_many(2)]
#[tokio::test(start_paused = true)]
async fn an_instance_that_another_claim_may_take_is_not_terminated(#[case] instances: u32) {
    let harness = cut_off(instances);
    delete(&harness, "a");
    let harness = harness.run();
    harness.until("launched", || harness.condition("b", "Launched") == "True").await;
    harness.until("gone", || harness.get_claim("a").is_none()).await;
    let state = harness.cloud.state();
    let left: Vec<String> = state.instances.keys().map(ToString::to_string).collect();
    assert_eq!(json!(left), json!([harness.get_claim("b").expect("a claim")["status"]["providerID"]]));
    assert!(state.instances.values().all(|left| !left.terminating && left.claim == Some("b".into())));
}
