//! Changes of objects and events that a provider's loop requests.

use fleetwright_api::{NodeClaim, NodePool};
use fleetwright_core::cloud::{Notice, Object, Write};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    events::{Event, regarding},
    runtime::{ApiClient, Cluster, ReconcileError, Recorder},
};

/// Makes a change: metadata first, because a status may refer to it.
pub(super) async fn change(
    client: &ApiClient,
    cluster: &Cluster,
    write: &Write,
) -> Result<(), ReconcileError> {
    let uid = uid_of(cluster, &write.object);
    let metadata = metadata(write, uid.as_deref());
    let status = write.status.as_deref().map(serde_json::from_str::<Value>);
    let status = status.and_then(Result::ok).map(|status| {
        // Writing the metadata changes the version of the object.
        let version = metadata.is_none().then(|| write.version.clone()).flatten();
        let mut meant = json!({"resourceVersion": version.as_deref()});
        if let Some(uid) = &uid {
            meant["uid"] = json!(uid);
        }
        json!({"metadata": meant, "status": status})
    });
    match &write.object {
        Object::NodeClaim(name) => {
            let api: Api<NodeClaim> = client.cluster();
            let patched = patch(client, &api, name, metadata, status).await?;
            patched.into_iter().for_each(|object| cluster.observe(object));
        }
        Object::Node(name) => {
            let api: Api<Node> = client.cluster();
            let patched = patch(client, &api, name, metadata, status).await?;
            patched.into_iter().for_each(|object| cluster.observe(object));
        }
        Object::NodePool(name) => {
            let api: Api<NodePool> = client.cluster();
            let patched = patch(client, &api, name, metadata, status).await?;
            patched.into_iter().for_each(|object| cluster.observe(object));
        }
        Object::NodeClass { class, version, .. } => {
            let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(&class.group, version, &class.kind));
            let api: Api<DynamicObject> = Api::all_with(client.client(), &kind);
            patch(client, &api, &class.name, metadata, status).await?;
        }
        other => tracing::warn!(object = ?other, "this release cannot change such an object"),
    }
    Ok(())
}

/// The patch of labels, annotations and finalizers; `None` if none changes.
fn metadata(write: &Write, uid: Option<&str>) -> Option<Value> {
    if write.annotations.is_empty() && write.labels.is_empty() && write.finalizers.is_none() {
        return None;
    }
    let mut metadata = json!({"annotations": texts(&write.annotations), "labels": texts(&write.labels)});
    if let Some(finalizers) = &write.finalizers {
        let all: Vec<&str> = finalizers.iter().map(|name| &**name).collect();
        metadata["finalizers"] = json!(all);
    }
    if let Some(version) = &write.version {
        metadata["resourceVersion"] = json!(&**version);
    }
    if let Some(uid) = uid {
        metadata["uid"] = json!(uid);
    }
    Some(json!({"metadata": metadata}))
}

/// UID of the object in the index, so that a later one with its name is not changed.
fn uid_of(cluster: &Cluster, object: &Object) -> Option<String> {
    let index = cluster.index();
    match object {
        Object::NodeClaim(name) => index.claim(name)?.metadata.uid.clone(),
        Object::Node(name) => index.node(name)?.metadata.uid.clone(),
        Object::NodePool(name) => index.pool(name)?.metadata.uid.clone(),
        _ => None,
    }
}

fn texts<'a>(
    all: impl IntoIterator<Item = (&'a std::sync::Arc<str>, &'a Option<std::sync::Arc<str>>)>,
) -> Value {
    all.into_iter().map(|(key, value)| (key.to_string(), json!(value.as_deref()))).collect()
}

async fn patch<K>(
    client: &ApiClient,
    api: &Api<K>,
    name: &str,
    metadata: Option<Value>,
    status: Option<Value>,
) -> Result<Option<K>, ReconcileError>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let params = PatchParams::default();
    let mut patched = None;
    if let Some(body) = metadata {
        let body = Patch::Merge(body);
        patched =
            Some(client.call("patch metadata for the provider", api.patch(name, &params, &body)).await?);
    }
    if let Some(body) = status {
        let body = Patch::Merge(body);
        patched =
            Some(client.call("patch status for the provider", api.patch_status(name, &params, &body)).await?);
    }
    Ok(patched)
}

/// Publishes an event about an object, if it still exists.
pub(super) fn publish(cluster: &Cluster, recorder: &Recorder, notice: &Notice) {
    let reference = match &notice.object {
        Object::NodeClaim(name) => cluster.index().claim(name).map(|claim| regarding(&**claim)),
        Object::Node(name) => cluster.index().node(name).map(|node| regarding(&**node)),
        Object::NodePool(name) => cluster.index().pool(name).map(|pool| regarding(&**pool)),
        Object::NodeClass { class, version, uid } => Some(ObjectReference {
            api_version: Some(format!("{}/{version}", class.group)),
            kind: Some(class.kind.to_string()),
            name: Some(class.name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        }),
        _ => None,
    };
    let Some(reference) = reference else { return };
    let event = match notice.warning {
        true => Event::warning(reference, notice.reason, &*notice.message),
        false => Event::normal(reference, notice.reason, &*notice.message),
    };
    recorder.publish(event);
}
