//! Finalizers and conditions of a provider's own: the object is read, changed entry by entry, and written at the version that was read.

use fleetwright_api::labels::TERMINATION_FINALIZER;
use fleetwright_core::{
    cloud::{ConditionWrite, Object, Write},
    model::{ConditionStatus, nodeclaim::ConditionType},
};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::runtime::{ApiClient, ReconcileError};

/// Maximum number of attempts, each on a newer version of the object.
const MAX_ATTEMPTS: usize = 5;

/// Changes finalizers and conditions of an object. Writes nothing if nothing changes.
pub(super) async fn merge(client: &ApiClient, write: &Write, now: Timestamp) -> Result<(), ReconcileError> {
    let Some((kind, name)) = address(&write.object) else { return Ok(()) };
    let api: Api<DynamicObject> = Api::all_with(client.client(), &kind);
    for _ in 0..MAX_ATTEMPTS {
        match once(client, &api, &name, write, now).await {
            Err(error) if error.is_conflict() => {}
            result => return result,
        }
    }
    Err(ReconcileError::Conflict { what: "write for a loop of the provider" })
}

async fn once(
    client: &ApiClient,
    api: &Api<DynamicObject>,
    name: &str,
    write: &Write,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let mut object = client.call("get for the provider", api.get(name)).await?;
    let params = PatchParams::default();
    if let Some(finalizers) = finalizers(&object, write) {
        let meta = json!({"resourceVersion": object.resource_version(), "finalizers": finalizers});
        let body = Patch::Merge(json!({"metadata": meta}));
        object = client.call("patch finalizers for the provider", api.patch(name, &params, &body)).await?;
    }
    if let Some(conditions) = conditions(&object, write, now) {
        let meta = json!({"resourceVersion": object.resource_version()});
        let body = Patch::Merge(json!({"metadata": meta, "status": {"conditions": conditions}}));
        client.call("patch conditions for the provider", api.patch_status(name, &params, &body)).await?;
    }
    Ok(())
}

/// The finalizers after the change; `None` if they do not change.
fn finalizers(object: &DynamicObject, write: &Write) -> Option<Vec<String>> {
    let before = object.finalizers();
    let mut all = before.to_vec();
    for (name, wanted) in write.finalizer_changes.iter().filter(|(name, _)| &***name != TERMINATION_FINALIZER)
    {
        all.retain(|known| **known != **name);
        if *wanted {
            // Kubernetes adds no finalizer to an object that is being deleted.
            let may_be_added =
                before.iter().any(|known| **known == **name) || object.metadata.deletion_timestamp.is_none();
            all.extend(may_be_added.then(|| name.to_string()));
        }
    }
    let as_set = |names: &[String]| names.iter().cloned().collect::<std::collections::BTreeSet<_>>();
    (as_set(&all) != as_set(before)).then_some(all)
}

/// The conditions after the change; `None` if they do not change. Conditions that Karpenter's controllers set are left alone; those of a
/// NodeClass are all the provider's.
fn conditions(object: &DynamicObject, write: &Write, now: Timestamp) -> Option<Vec<Value>> {
    let stored = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let before = stored.cloned().unwrap_or_default();
    let mut all = before.clone();
    let is_own = |condition: &&ConditionWrite| {
        let kind = &*condition.kind;
        let of_karpenter = kind == "Ready" || ConditionType::ALL.iter().any(|known| known.as_str() == kind);
        matches!(write.object, Object::NodeClass { .. }) || !of_karpenter
    };
    for condition in write.conditions.iter().filter(is_own) {
        let known = all.iter().position(|known| known["type"] == *condition.kind);
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        let since = known.map(|position| &all[position]).filter(|known| known["status"] == status);
        let since = since.and_then(|known| known["lastTransitionTime"].as_str()).map(str::to_owned);
        let written = json!({
            "type": &*condition.kind, "status": status, "reason": &*condition.reason,
            "message": &*condition.message,
            "lastTransitionTime": since.unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        });
        match known {
            Some(position) => {
                // What the controllers keep beside these fields, such as the generation, stays.
                if let (Some(stored), Some(written)) = (all[position].as_object_mut(), written.as_object()) {
                    stored.extend(written.clone());
                }
            }
            None => all.push(written),
        }
    }
    (all != before).then_some(all)
}

/// Kind and name of an object.
fn address(object: &Object) -> Option<(ApiResource, String)> {
    let of = |group: &str, version: &str, kind: &str, name: &str| {
        (ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)), name.to_owned())
    };
    Some(match object {
        Object::NodeClaim(name) => of("karpenter.sh", "v1", "NodeClaim", name),
        Object::NodePool(name) => of("karpenter.sh", "v1", "NodePool", name),
        Object::Node(name) => of("", "v1", "Node", name),
        Object::NodeClass { class, version, .. } => of(&class.group, version, &class.kind, &class.name),
        _ => return None,
    })
}
