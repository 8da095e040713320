//! Launches for several claims whose instances say of which launch they are, and not for which claim, cut off before anybody
//! could write that on them.

use fleetwright_core::cloud::Instance;
use rstest::rstest;
use serde_json::json;

use super::world::{World, instance};

/// NodeClaims `a` and `b` of one call whose outcome was not recorded, and this number of instances of it.
fn cut_off(instances: u32) -> World {
    let world = World::new();
    for (name, position) in [("a", "0"), ("b", "1")] {
        let annotations = json!({
            "fleetwright.dev/batch-id": "plan-0", "fleetwright.dev/batch-position": position,
            "fleetwright.dev/attempt": "1", "fleetwright.dev/attempt-members": "0-1",
        });
        let metadata = json!({"finalizers": ["karpenter.sh/termination"], "annotations": annotations});
        world.claim(name, json!({"metadata": metadata}));
    }
    for number in 1..=instances {
        let left = Instance { claim: None, ..instance(&format!("left-{number}"), "", "plan-0", 1) };
        world.cloud.sky().instances.insert(left.provider_id.clone(), left);
    }
    world
}

fn delete(world: &World, claim: &str) {
    world.server.delete("karpenter.sh/v1", "NodeClaim", "", claim).expect("deletes");
}

#[rstest]
#[case::none(0)]
#[case::fewer_than_claims(1)]
#[case::as_many(2)]
#[tokio::test(start_paused = true)]
async fn claims_that_go_together_leave_nothing(#[case] instances: u32) {
    let world = cut_off(instances);
    delete(&world, "a");
    delete(&world, "b");
    let world = world.run();
    let gone = || ["a", "b"].iter().all(|name| world.get_claim(name).is_none());
    let took = world.until("gone", gone).await;
    assert!((60..120).contains(&took), "{took} s: not before two lists show none");
    assert!(world.cloud.sky().instances.is_empty());
}

#[rstest]
#[case::fewer_than_claims(1)]
#[case::as_many(2)]
#[tokio::test(start_paused = true)]
async fn what_another_claim_may_take_is_left_to_it(#[case] instances: u32) {
    let world = cut_off(instances);
    delete(&world, "a");
    let world = world.run();
    world.until("launched", || world.condition("b", "Launched") == "True").await;
    world.until("gone", || world.get_claim("a").is_none()).await;
    let sky = world.cloud.sky();
    let left: Vec<String> = sky.instances.keys().map(ToString::to_string).collect();
    assert_eq!(json!(left), json!([world.get_claim("b").expect("a claim")["status"]["providerID"]]));
    assert!(sky.instances.values().all(|left| !left.terminating && left.claim == Some("b".into())));
}
