//! Custom resources and kube-runtime: a controller with a finalizer, apply, scale, leases.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Outcome, start};
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::{Controller, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// A definition with defaults, pruning, a CEL rule, a keyed list, scale and status.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "fleets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": { "plural": "fleets", "kind": "Fleet", "shortNames": ["fl"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                } },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object",
                        "x-kubernetes-validations": [{ "rule": "self.replicas < 10", "message": "too many" }],
                        "properties": {
                            "replicas": { "type": "integer", "default": 1, "minimum": 0 },
                            "color": { "type": "string", "enum": ["red", "blue"] },
                            "parts": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                                "items": { "type": "object", "required": ["name"], "properties": {
                                    "name": { "type": "string" }, "size": { "type": "integer" } } } },
                        } },
                    "status": { "type": "object", "properties": { "replicas": { "type": "integer" }, "phase": { "type": "string" } } },
                } } },
            }],
        },
    })
}

fn fleets(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Fleet");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

fn fleet(spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Fleet", "metadata": { "name": "f" }, "spec": spec })
}

#[tokio::test(start_paused = true)]
async fn schemas_prune_default_and_refuse() -> Outcome {
    let (server, client) = start();
    let established = server.apply(definition())?;
    assert_eq!(established["status"]["conditions"][1]["type"], "Established");
    let fleets = fleets(&client);
    let create = |spec: Value| {
        let fleets = fleets.clone();
        async move {
            let object: DynamicObject =
                serde_json::from_value(fleet(spec)).map_err(kube::Error::SerdeError)?;
            fleets.create(&PostParams::default(), &object).await
        }
    };
    for (spec, refusal) in [
        (json!({ "replicas": 11 }), "too many"),
        (
            json!({ "color": "green" }),
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
    ] {
        let Err(kube::Error::Api(status)) = create(spec.clone()).await else {
            return Err(format!("{spec} must be refused").into());
        };
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
        assert!(status.message.starts_with("Fleet.example.com \"f\" is invalid: "), "{}", status.message);
        assert!(status.message.contains(refusal), "{} lacks {refusal}", status.message);
    }
    let created = create(json!({ "color": "red", "unknown": true })).await?;
    assert_eq!(created.data["spec"], json!({ "color": "red", "replicas": 1 }));

    let scaled = fleets
        .patch_scale("f", &PatchParams::default(), &Patch::Merge(json!({ "spec": { "replicas": 4 } })))
        .await?;
    assert_eq!(scaled.spec.and_then(|spec| spec.replicas), Some(4));
    let now = fleets.get("f").await?;
    assert_eq!((now.metadata.generation, &now.data["spec"]["replicas"]), (Some(2), &json!(4)));
    server.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "fleets.example.com")?;
    assert!(matches!(fleets.get("f").await, Err(kube::Error::Api(status)) if status.code == 404));
    assert!(
        server.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "fleets.example.com").is_none()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_status_is_pruned_and_changes_nothing_else() -> Outcome {
    let (server, client) = start();
    server.apply(definition())?;
    server.apply(fleet(json!({ "color": "red" })))?;
    let fleets = fleets(&client);
    let patch = |body: Value| {
        let fleets = fleets.clone();
        async move { fleets.patch_status("f", &PatchParams::default(), &Patch::Merge(body)).await }
    };
    let before = fleets.get("f").await?;
    let status = json!({ "phase": "New", "unknown": 1 });
    let ready = patch(
        json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "color": "blue" }, "status": status }),
    )
    .await?;
    assert_eq!(ready.data["status"], json!({ "phase": "New" }));
    assert_eq!(ready.data["spec"], json!({ "color": "red", "replicas": 1 }));
    assert_eq!((ready.labels().len(), ready.metadata.generation), (0, Some(1)));
    assert_ne!(ready.resource_version(), before.resource_version());
    let again = patch(json!({ "status": { "phase": "New" } })).await?;
    assert_eq!(again.resource_version(), ready.resource_version(), "nothing changed");
    let Err(kube::Error::Api(refused)) = patch(json!({ "status": { "phase": 1 } })).await else {
        return Err("a phase is a text".into());
    };
    assert_eq!(refused.code, 422);
    let none = patch(json!({ "status": null })).await?;
    assert_eq!(none.data.get("status"), None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn appliers_share_lists_and_refuse_each_other() -> Outcome {
    let (server, client) = start();
    server.apply(definition())?;
    let fleets = fleets(&client);
    let apply = |manager: &'static str, spec: Value, force: bool| {
        let fleets = fleets.clone();
        async move {
            let mut parameters = PatchParams::apply(manager);
            parameters.force = force;
            fleets.patch("f", &parameters, &Patch::Apply(fleet(spec))).await
        }
    };
    apply("a", json!({ "color": "red", "parts": [{ "name": "x", "size": 1 }] }), false).await?;
    let both = apply("b", json!({ "parts": [{ "name": "y", "size": 2 }] }), false).await?;
    assert_eq!(both.data["spec"]["parts"].as_array().map(Vec::len), Some(2));
    let again = apply("b", json!({ "parts": [{ "name": "y", "size": 2 }] }), false).await?;
    assert_eq!(again.resource_version(), both.resource_version(), "nothing changed");
    let Err(kube::Error::Api(status)) = apply("b", json!({ "color": "blue" }), false).await else {
        return Err("color belongs to a".into());
    };
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"a\": .spec.color");
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let forced = apply("b", json!({ "color": "blue" }), true).await?;
    assert_eq!(forced.data["spec"]["parts"], json!([{ "name": "x", "size": 1 }]), "b gave y up");
    let left = apply("a", json!({}), false).await?;
    assert_eq!(
        left.data["spec"],
        json!({ "color": "blue", "replicas": 1 }),
        "a gave everything up, b holds color"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_of_two_wins_a_lease() -> Outcome {
    let (_server, client) = start();
    let leases: Api<Lease> = Api::default_namespaced(client);
    let lease: Lease = serde_json::from_value(
        json!({ "metadata": { "name": "l" }, "spec": { "leaseDurationSeconds": 15 } }),
    )?;
    let free = leases.create(&PostParams::default(), &lease).await?;
    let claim = |holder: &str| {
        let mut mine = free.clone();
        if let Some(spec) = mine.spec.as_mut() {
            spec.holder_identity = Some(holder.to_owned());
        }
        let leases = leases.clone();
        async move { leases.replace("l", &PostParams::default(), &mine).await }
    };
    let (first, second) = tokio::join!(claim("a"), claim("b"));
    let won = [&first, &second].into_iter().filter(|result| result.is_ok()).count();
    assert_eq!(won, 1, "{first:?} {second:?}");
    let lost = first.err().or_else(|| second.err());
    assert!(matches!(lost, Some(kube::Error::Api(status)) if status.reason == "Conflict"));
    Ok(())
}

/// Sets `done` on an object and removes its finalizer at the end.
async fn reconcile(
    map: Arc<ConfigMap>,
    client: Arc<Client>,
) -> Result<Action, kube::runtime::finalizer::Error<kube::Error>> {
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::clone(&client));
    finalizer(&maps.clone(), "example.com/hold", map, |event| async move {
        if let Event::Apply(map) = event {
            let patch = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": map.name_any() }, "data": { "done": "yes" } });
            maps.patch(&map.name_any(), &PatchParams::apply("controller").force(), &Patch::Apply(patch)).await?;
        }
        Ok(Action::requeue(Duration::from_secs(300)))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_controller_with_a_finalizer_runs_in_virtual_time() -> Outcome {
    for streaming in [false, true] {
        let (server, client) = start();
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let config =
            if streaming { watcher::Config::default().streaming_lists() } else { watcher::Config::default() };
        let controller = Controller::new(maps.clone(), config)
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
            .for_each(|result| async move { assert!(result.is_ok(), "{result:?}") });
        let task = tokio::spawn(controller);
        server.apply(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } }))?;
        tokio::time::sleep(Duration::from_secs(3600 * 24)).await;
        let held = maps.get("m").await?;
        assert_eq!(held.data.and_then(|data| data.get("done").cloned()).as_deref(), Some("yes"));
        let version = held.metadata.resource_version;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            maps.get("m").await?.metadata.resource_version,
            version,
            "a quiet controller writes nothing"
        );
        maps.delete("m", &DeleteParams::default()).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(server.get("v1", "ConfigMap", "default", "m").is_none(), "streaming: {streaming}");
        task.abort();
    }
    Ok(())
}
