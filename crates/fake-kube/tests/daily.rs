//! A real `kube::Client` in daily use: objects, lists, watches, patches, finalizers, custom resources.

mod common;

use common::{Outcome, start};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

fn pod(name: &str) -> Result<Pod, serde_json::Error> {
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "main", "image": "web:1", "resources": { "limits": { "cpu": "0.5" } } }] },
    }))
}

#[tokio::test(start_paused = true)]
async fn objects_live_and_die() -> Outcome {
    let (_server, client) = start();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let created = pods.create(&PostParams::default(), &pod("a")?).await?;
    let spec = created.spec.clone().unwrap_or_default();
    assert_eq!(spec.scheduler_name.as_deref(), Some("default-scheduler"));
    assert_eq!(spec.tolerations.map(|list| list.len()), Some(2));
    let requests = spec.containers[0].resources.clone().and_then(|resources| resources.requests);
    assert_eq!(requests.and_then(|map| map.get("cpu").map(|cpu| cpu.0.clone())).as_deref(), Some("500m"));
    assert_eq!(created.status.and_then(|status| status.phase).as_deref(), Some("Pending"));

    let again = pods.create(&PostParams::default(), &pod("a")?).await;
    assert!(matches!(&again, Err(kube::Error::Api(status)) if status.reason == "AlreadyExists"), "{again:?}");

    let patch = Patch::Merge(json!({ "metadata": { "labels": { "tier": "front" } } }));
    let patched = pods.patch("a", &PatchParams::default(), &patch).await?;
    assert_eq!(patched.metadata.generation, Some(1), "labels are no new generation");
    let same = pods.patch("a", &PatchParams::default(), &patch).await?;
    assert_eq!(same.metadata.resource_version, patched.metadata.resource_version, "nothing changed");

    let status = Patch::Merge(json!({ "status": { "phase": "Running" }, "spec": { "priority": 5 } }));
    let running = pods.patch_status("a", &PatchParams::default(), &status).await?;
    assert_eq!(running.spec.and_then(|spec| spec.priority), Some(0), "the status part leaves the spec alone");

    let mut stale = patched.clone();
    stale.metadata.labels = None;
    let lost = pods.replace("a", &PostParams::default(), &stale).await;
    assert!(matches!(&lost, Err(kube::Error::Api(status)) if status.reason == "Conflict"), "{lost:?}");

    pods.delete("a", &DeleteParams::default()).await?;
    let gone = pods.get("a").await;
    let Err(kube::Error::Api(status)) = gone else { return Err("the pod is gone".into()) };
    assert_eq!((status.code, status.message.as_str()), (404, "pods \"a\" not found"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn bound_pods_wait_for_their_kubelet() -> Outcome {
    let (server, client) = start();
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(&PostParams::default(), &pod("a")?).await?;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "a" }, "target": { "kind": "Node", "name": "n" },
    });
    let _: Value = pods.create_subresource("binding", "a", &PostParams::default(), &binding).await?;
    let again: Result<Value, _> =
        pods.create_subresource("binding", "a", &PostParams::default(), &binding).await;
    assert!(matches!(again, Err(kube::Error::Api(status)) if status.code == 409));

    pods.delete("a", &DeleteParams::default()).await?;
    let ending = pods.get("a").await?;
    assert_eq!(ending.metadata.deletion_grace_period_seconds, Some(30));
    pods.delete("a", &DeleteParams::default().grace_period(0)).await?;
    assert!(server.get("v1", "Pod", "default", "a").is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn watches_see_what_selectors_let_through() -> Outcome {
    let (_server, client) = start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = |name: &str, app: &str| -> Result<ConfigMap, serde_json::Error> {
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "app": app } } }))
    };
    maps.create(&PostParams::default(), &map("a", "web")?).await?;
    let listed = maps.list(&ListParams::default()).await?;
    let revision = listed.metadata.resource_version.unwrap_or_default();
    let parameters = WatchParams::default().labels("app=web").timeout(100);
    let events = maps.watch(&parameters, &revision).await?;
    maps.create(&PostParams::default(), &map("b", "web")?).await?;
    maps.create(&PostParams::default(), &map("c", "db")?).await?;
    let relabel = |app: &str| Patch::Merge(json!({ "metadata": { "labels": { "app": app } } }));
    maps.patch("a", &PatchParams::default(), &relabel("db")).await?;
    maps.patch("c", &PatchParams::default(), &relabel("web")).await?;
    maps.delete("b", &DeleteParams::default()).await?;
    let seen: Vec<String> = events
        .try_filter_map(|event| async move {
            Ok(match event {
                WatchEvent::Added(map) => Some(format!("+{}", map.metadata.name.unwrap_or_default())),
                WatchEvent::Modified(map) => Some(format!("~{}", map.metadata.name.unwrap_or_default())),
                WatchEvent::Deleted(map) => Some(format!("-{}", map.metadata.name.unwrap_or_default())),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
            })
        })
        .try_collect()
        .await?;
    assert_eq!(seen, ["+b", "-a", "+c", "-b"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_old_revision_has_expired() -> Outcome {
    let (server, client) = start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["a", "b"] {
        server.apply(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } }))?;
    }
    server.compact();
    let mut events = maps.watch(&WatchParams::default(), "2").await?.boxed();
    let first = events.next().await;
    assert!(matches!(&first, Some(Ok(WatchEvent::Error(status))) if status.code == 410), "{first:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_consistent_pages() -> Outcome {
    let (server, client) = start();
    let nodes: Api<Node> = Api::all(client);
    for index in 0..5 {
        server.apply(
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": format!("n{index}") } }),
        )?;
    }
    let first = nodes.list(&ListParams::default().limit(2)).await?;
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(3)));
    server.delete("v1", "Node", "", "n3")?;
    let token = first.metadata.continue_.unwrap_or_default();
    let rest = nodes.list(&ListParams::default().continue_token(&token)).await?;
    let names: Vec<_> = rest.items.iter().filter_map(|node| node.metadata.name.clone()).collect();
    assert_eq!(names, ["n2", "n3", "n4"], "the pages show one moment");
    server.compact();
    let late = nodes.list(&ListParams::default().continue_token(&token)).await;
    assert!(matches!(&late, Err(kube::Error::Api(status)) if status.code == 410), "{late:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn owners_namespaces_and_definitions_take_their_own_along() -> Outcome {
    let (server, client) = start();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let team = serde_json::from_value(json!({ "metadata": { "name": "team" } }))?;
    namespaces.create(&PostParams::default(), &team).await?;
    let owner = server.apply(
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "o", "namespace": "team" } }),
    )?;
    let reference =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner["metadata"]["uid"] });
    server.apply(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "team", "ownerReferences": [reference] } }))?;
    let lost = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "nobody" });
    let orphan = server.apply(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "t", "namespace": "team", "ownerReferences": [lost] } }));
    assert_eq!(orphan.map_err(|error| error.code), Err(404), "its owner never existed");
    server.delete("v1", "ConfigMap", "team", "o")?;
    assert!(server.get("v1", "Secret", "team", "s").is_none());
    server.apply(
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "u", "namespace": "team" } }),
    )?;
    namespaces.delete("team", &DeleteParams::default()).await?;
    assert!(server.get("v1", "Namespace", "", "team").is_none());
    assert!(server.list("v1", "Secret", "team").is_empty());
    Ok(())
}
