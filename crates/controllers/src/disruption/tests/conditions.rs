//! The condition DisruptionBlocked.

use super::*;

/// A node that consolidation would look at, were it not for its pods.
fn world(pods: &[&str]) -> World {
    let world = World::new();
    world.pool("default", json!({}));
    node(&world, "old", "Consolidatable");
    world.server.delete("v1", "Pod", "default", "p-old").unwrap();
    for pod in pods {
        protected(&world, pod);
    }
    world
}

/// A pod on the node that says do-not-disrupt.
fn protected(world: &World, name: &str) {
    world
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

fn gone(world: &World, name: &str) {
    world.server.delete("v1", "Pod", "default", name).unwrap();
}

fn blocked(world: &World, claim_name: &str) -> Value {
    let claim = claim(world, claim_name);
    let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|c| c["type"] == "DisruptionBlocked").unwrap_or_default()
}

/// The pods that the condition names.
fn named_pods(world: &World) -> Vec<String> {
    let blocked = blocked(world, "old");
    let message = blocked["message"].as_str().unwrap_or_default();
    let owners = message.split("[pod/default/").skip(1).filter_map(|rest| rest.split(']').next());
    owners.map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn it_follows_what_blocks_and_rests_while_that_stays() {
    let world = world(&["a"]);
    let mut controllers = crate::disruption::controllers(&world.ctx);
    controllers.push(std::sync::Arc::new(crate::provisioning::CatalogController::new(&world.ctx)));
    let (trigger, task) = world.run(controllers);
    world.pass(90).await;
    assert_eq!(named_pods(&world), ["a"], "{}", blocked(&world, "old"));
    let version = claim(&world, "old")["metadata"]["resourceVersion"].clone();
    world.pass(600).await;
    assert_eq!(claim(&world, "old")["metadata"]["resourceVersion"], version, "nothing changed");
    protected(&world, "b");
    world.pass(90).await;
    assert_eq!(named_pods(&world), ["a", "b"], "another one blocks too");
    gone(&world, "a");
    world.pass(90).await;
    assert_eq!(named_pods(&world), ["b"], "the first does not block any more");
    trigger.fire();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_carries_something_out_writes_it_too() {
    let world = world(&["a"]);
    let mut controllers = crate::disruption::controllers(&world.ctx);
    controllers.push(std::sync::Arc::new(crate::provisioning::CatalogController::new(&world.ctx)));
    let (trigger, task) = world.run(controllers);
    world.pass(55).await;
    assert_eq!(blocked(&world, "old"), Value::Null, "a minute after the start it is due");
    node(&world, "empty", "Consolidatable");
    gone(&world, "p-empty");
    world.pass(40).await;
    let empty = claim(&world, "empty");
    assert!(empty["metadata"]["deletionTimestamp"].is_string(), "that pass had a command: {empty:#}");
    assert_eq!(named_pods(&world), ["a"], "{}", claim(&world, "old"));
    trigger.fire();
    task.await.unwrap().unwrap();
}
