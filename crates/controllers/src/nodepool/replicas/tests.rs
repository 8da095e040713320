//! Static pools in a small world whose cloud has nothing to give.

use std::sync::Arc;

use serde_json::json;

use crate::{
    all::claim_controllers, metrics::scheduling::NODECLAIMS_CREATED, provisioning, runtime::Controller,
    testing::World,
};

fn controllers(world: &World) -> Vec<Arc<dyn Controller>> {
    let mut all = provisioning::controllers(&world.ctx);
    all.extend(claim_controllers(&world.ctx, Vec::new()));
    all
}

/// How many claims were made so far.
fn made(world: &World) -> f64 {
    world.ctx.metrics.value(&NODECLAIMS_CREATED, &["provisioned", "fixed", "false"])
}

#[tokio::test(start_paused = true)]
async fn claims_that_come_to_nothing_are_made_at_a_slower_pace() {
    let world = World::gated(|gates| gates.static_capacity = true);
    world.pool("fixed", json!({"replicas": 2}));
    let (stop, running) = world.run(controllers(&world));
    world.pass(2).await;
    assert!(made(&world) >= 4.0, "the first pause is short: {}", made(&world));
    // After 1, 2, 4, 8, 16, 32 seconds, and each minute from then on.
    world.pass(598).await;
    let slowly = made(&world);
    assert!((20.0..=34.0).contains(&slowly), "{slowly}");
    let told = world.events().into_iter().find(|event| event.contains("ReplicaCreationBackoff"));
    let told = told.expect("people hear of it");
    assert!(told.starts_with("NodePool/fixed ReplicaCreationBackoff: 2 node(s) missing"), "{told}");
    // Another spec may be one that can be had.
    world.pool("fixed", json!({"replicas": 3}));
    world.pass(1).await;
    assert!(made(&world) >= slowly + 3.0, "{}", made(&world));
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_claims_is_spread() {
    let world = World::gated(|gates| gates.static_capacity = true);
    *world.ctx.limits.lock() = fleetwright_core::safety::Limits::with_rates((2, 1), (1, 1));
    world.pool("fixed", json!({"replicas": 9, "limits": {"nodes": "9"}}));
    let mut all = provisioning::controllers(&world.ctx);
    all.push(Arc::new(crate::nodepool::StaticProvisioning::new(&world.ctx)));
    let _running = world.run(all);
    for second in 1..=15_u32 {
        world.pass(1).await;
        assert!(made(&world) <= f64::from(2 + second), "{} within {second} s", made(&world));
    }
    assert_eq!(made(&world), 9.0, "no room was kept for what had to wait");
}
