//! Reports an invalid object: an event, a log line and, if the kind has conditions, a condition. All other objects are
//! unaffected.

use fleetwright_api::{
    self as api,
    condition::Condition,
    conditions::{ConditionSet, ConditionTypes, HasConditions},
    labels::condition::{CONSISTENT_STATE_FOUND, VALIDATION_SUCCEEDED},
};
use fleetwright_state::WatchedKind;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Resource,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};

use super::Ctx;
use crate::events::Event;

/// The condition reason of an invalid NodeClaim.
pub(crate) const UNREADABLE: &str = "Unreadable";
/// The condition reason of an invalid NodePool.
pub(crate) const INVALID_POOL: &str = "NodePoolValidationFailed";

/// The condition and event that are written for invalid objects of a kind.
struct InvalidObjectReport {
    types: ConditionTypes,
    condition: &'static str,
    reason: &'static str,
    event: &'static str,
}

fn report_for(kind: WatchedKind) -> Option<InvalidObjectReport> {
    match kind {
        WatchedKind::NodePool => Some(InvalidObjectReport {
            types: api::NodePool::TYPES,
            condition: VALIDATION_SUCCEEDED,
            reason: INVALID_POOL,
            event: INVALID_POOL,
        }),
        WatchedKind::NodeClaim => Some(InvalidObjectReport {
            types: api::NodeClaim::TYPES,
            condition: CONSISTENT_STATE_FOUND,
            reason: UNREADABLE,
            event: "FailedConsistencyCheck",
        }),
        _ => None,
    }
}

/// Reports that an object cannot be read, and why. Writes nothing if the condition is already set.
pub(super) async fn report(
    ctx: &Ctx,
    kind: WatchedKind,
    resource: &ApiResource,
    object: &DynamicObject,
    why: &str,
) {
    let meta = &object.metadata;
    let (name, namespace) = (meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref());
    tracing::error!(%kind, namespace, name, why, "ignoring invalid object");
    let Some(invalid) = report_for(kind) else { return };
    let message = format!("cannot be read: {why}");
    let regarding = ObjectReference {
        api_version: Some(resource.api_version.clone()),
        kind: Some(resource.kind.clone()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        ..ObjectReference::default()
    };
    ctx.recorder.publish(Event::warning(regarding, invalid.event, message.clone()));
    let Some(conditions) = changed_conditions(ctx, object, &invalid, &message) else { return };
    let body = Patch::Merge(json!({
        "metadata": {"resourceVersion": meta.resource_version},
        "status": {"conditions": conditions},
    }));
    let all = Api::<DynamicObject>::all_with(ctx.client.client(), resource);
    let written =
        ctx.client.call("write condition", all.patch_status(name, &PatchParams::default(), &body)).await;
    if let Err(error) = written {
        // The next list retries.
        tracing::warn!(%kind, name, %error, "failed to set the condition of an invalid object");
    }
}

/// The conditions to write; `None` if they are already set, or if the present conditions cannot be read.
fn changed_conditions(
    ctx: &Ctx,
    object: &DynamicObject,
    invalid: &InvalidObjectReport,
    message: &str,
) -> Option<Vec<Condition>> {
    let written = object.data.pointer("/status/conditions").cloned().unwrap_or(Value::Array(Vec::new()));
    let mut conditions: Vec<Condition> = serde_json::from_value(written).ok()?;
    let before = conditions.clone();
    let mut set = ConditionSet::new(invalid.types, object.meta(), &mut conditions, ctx.clocks.now());
    set.set_false(invalid.condition, invalid.reason, message);
    (conditions != before).then_some(conditions)
}
