//! Buffers in a small world: from the object to NodeClaims and back to its status.

use std::sync::Arc;

use serde_json::{Value, json};

use super::BufferController;
use crate::{provisioning, runtime::Controller, testing::World};

fn controllers(world: &World) -> Vec<Arc<dyn Controller>> {
    let mut all = provisioning::controllers(&world.ctx);
    all.push(Arc::new(BufferController::new(&world.ctx)));
    all
}

fn world() -> World {
    let world = World::gated(|gates| gates.capacity_buffer = true);
    world.pool("default", json!({}));
    world
}

fn template(world: &World, cpu: &str) {
    world
        .server
        .apply(json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "shape", "namespace": "default"},
            "template": {"spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}]}}}))
        .unwrap();
}

fn buffer(world: &World, spec: Value) {
    world
        .server
        .apply(json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"}, "spec": spec}))
        .unwrap();
}

fn status(world: &World) -> Value {
    let buffer =
        world.server.get("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "default", "spare").unwrap();
    buffer["status"].clone()
}

/// `status reason` of a condition.
fn condition(world: &World, type_: &str) -> String {
    let conditions = status(world)["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("status"), text("reason"))
}

fn claims(world: &World) -> usize {
    world.server.list("karpenter.sh/v1", "NodeClaim", "").len()
}

#[tokio::test(start_paused = true)]
async fn a_buffer_opens_nodes_once_and_gives_way_to_pods() {
    let world = world();
    template(&world, "1500m");
    buffer(&world, json!({"podTemplateRef": {"name": "shape"}, "replicas": 2}));
    let (stop, running) = world.run(controllers(&world));
    world.pass(4).await;
    assert_eq!(claims(&world), 1);
    assert_eq!(condition(&world, "ReadyForProvisioning"), "True Resolved");
    let seen = status(&world);
    assert_eq!((&seen["replicas"], &seen["podTemplateRef"]["name"]), (&json!(2), &json!("shape")));
    world.pass(120).await;
    assert_eq!(claims(&world), 1, "the room is there");
    assert_eq!(condition(&world, "Provisioning"), "True FitsExistingCapacity");
    let held: Vec<u32> =
        world.ctx.cluster.index().snapshot(world.ctx.clocks.now()).nodes.iter().map(|n| n.buffered).collect();
    assert_eq!(held, [2], "emptiness knows");
    // A pod of the cluster takes the room; the buffer gets another node.
    world.pending_pod("p", "3");
    world.pass(60).await;
    assert_eq!(claims(&world), 2);
    assert!(world.events().iter().all(|event| !event.contains("capacity-buffer")), "{:?}", world.events());
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_buffer_says_why_it_has_no_room() {
    let world = world();
    buffer(&world, json!({"podTemplateRef": {"name": "shape"}, "replicas": 0}));
    let (stop, running) = world.run(controllers(&world));
    world.pass(5).await;
    assert_eq!(condition(&world, "ReadyForProvisioning"), "False PodTemplateNotFound");
    assert_eq!(condition(&world, "Provisioning"), "False NotReadyForProvisioning");
    template(&world, "1");
    world.pass(40).await;
    assert_eq!(condition(&world, "ReadyForProvisioning"), "True Resolved");
    assert_eq!(condition(&world, "Provisioning"), "False BufferEmpty");
    world.server.delete("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "default", "spare").unwrap();
    buffer(&world, json!({"podTemplateRef": {"name": "shape"}, "replicas": 1}));
    world.server.delete("karpenter.sh/v1", "NodePool", "", "default").unwrap();
    world.pass(60).await;
    assert_eq!(condition(&world, "Provisioning"), "False RequiresNewCapacity");
    assert_eq!(claims(&world), 0);
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_workload_gives_shape_and_scale() {
    let world = world();
    world
        .server
        .apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 10, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                    {"name": "a", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}}}}))
        .unwrap();
    let reference = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    buffer(&world, json!({"scalableRef": reference, "percentage": 25}));
    let (stop, running) = world.run(controllers(&world));
    world.pass(60).await;
    assert_eq!(status(&world)["replicas"], 3);
    assert_eq!(claims(&world), 1);
    stop.fire();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn quotas_leave_fewer_chunks() {
    let world = world();
    template(&world, "1");
    let quota = |cpu: &str| {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"hard": {"requests.cpu": cpu}}, "status": {"used": {"requests.cpu": "2"}}});
        world.server.apply(quota).unwrap();
    };
    quota("4");
    buffer(&world, json!({"podTemplateRef": {"name": "shape"}, "replicas": 5}));
    let (stop, running) = world.run(controllers(&world));
    world.pass(60).await;
    assert_eq!(status(&world)["replicas"], 2);
    assert_eq!(condition(&world, "LimitedByQuotas"), "True LimitedByQuotas");
    assert_eq!(condition(&world, "ReadyForProvisioning"), "True Resolved");
    quota("40");
    world.pass(60).await;
    assert_eq!((&status(&world)["replicas"], &*condition(&world, "LimitedByQuotas")), (&json!(5), " "));
    stop.fire();
    running.await.unwrap().unwrap();
}
