//! A repair that is cut off before it has deleted the claim leaves nothing behind on a node that goes on living.

use serde_json::{Value, json};

use super::world::World;

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";
const MARK: &str = "fleetwright.dev/repair-deadline";

/// Whether node `node-a` is ready, and since when.
fn ready(world: &World, status: &str, since: &str) {
    world.apply(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]},
    }));
}

fn annotation(world: &World, key: &str) -> Value {
    world.get_claim("a").map(|claim| claim["metadata"]["annotations"][key].clone()).unwrap_or_default()
}

/// A node whose repair wrote its deadline, and nothing else: then the process ended.
async fn cut_off() -> World {
    let world = World::new().repairing().run();
    world.grown("a", "node-a", json!({})).await;
    world.sleep(900).await;
    let world = world.crash();
    let written = world.ctx.clocks.now().to_string();
    world.apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a", "annotations": {DEADLINE: written, MARK: written}}}));
    ready(&world, "False", "2019-01-01T00:00:00Z");
    world
}

#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_keeps_the_protection_of_its_pods() {
    let world = cut_off().await;
    ready(&world, "True", "2019-06-01T00:00:00Z");
    let world = world.run();
    world.until("taken back", || annotation(&world, DEADLINE).is_null()).await;
    assert!(annotation(&world, MARK).is_null());
    world.pod("p", "node-a", json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    world.sleep(5).await;
    world.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
    world.sleep(600).await;
    let pod = world.server.get("v1", "Pod", "default", "p").expect("a pod");
    assert!(pod["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_tolerated_again_keeps_the_protection_of_its_pods() {
    let world = cut_off().await;
    let now = world.ctx.clocks.now();
    ready(&world, "False", &now.to_string());
    let world = world.run();
    let took = world.until("taken back", || annotation(&world, DEADLINE).is_null()).await;
    assert!(took < 60, "{took}");
    let took = world.until("repaired", || world.get_claim("a").is_none()).await;
    assert!(took > 500, "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_broken_is_repaired_by_the_next_process() {
    let world = cut_off().await.run();
    let deleting = || !world.get_claim("a").expect("a claim")["metadata"]["deletionTimestamp"].is_null();
    world.until("deleted", deleting).await;
    assert!(annotation(&world, DEADLINE).is_string());
    assert_eq!(annotation(&world, DEADLINE), annotation(&world, MARK), "it says whose deadline it is");
    world.until("gone", || world.get_claim("a").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_somebody_else_set_stays() {
    let world = cut_off().await;
    let theirs = "2030-01-01T00:00:00Z";
    world.apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a", "annotations": {DEADLINE: theirs}}}));
    ready(&world, "True", "2019-06-01T00:00:00Z");
    let world = world.run();
    world.until("taken back", || annotation(&world, MARK).is_null()).await;
    assert_eq!(annotation(&world, DEADLINE), theirs);
}
