//! `scale`: desired and observed replicas, as `autoscaling/v1` Scale.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::{ClusterState, Part, Target, Write};
use crate::object;
use crate::patch::PatchKind;
use crate::registry::Resource;
use crate::selector::Labels;
use crate::status::{ApiError, Cause};
use crate::verbs::patch::patched;
use crate::verbs::update;

/// Paths of desired replicas, observed replicas and selector.
fn paths(resource: &Resource) -> Option<[Vec<String>; 3]> {
    let own = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
    match &resource.custom {
        Some(custom) => custom
            .scale
            .as_ref()
            .map(|scale| [scale.spec.clone(), scale.status.clone(), scale.selector.clone()]),
        None => Some([own(&["spec", "replicas"]), own(&["status", "replicas"]), own(&["spec", "selector"])]),
    }
}

fn path(parts: &[String]) -> Vec<&str> {
    parts.iter().map(String::as_str).collect()
}

/// The Scale of an object.
///
/// # Errors
/// 404 if the resource has none.
pub(crate) fn of(resource: &Resource, value: &Value) -> Result<Value, ApiError> {
    let [spec, status, selector] = paths(resource).ok_or_else(ApiError::no_such_route)?;
    let wanted = object::integer(value, &path(&spec)).unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": object::name(value), "uid": object::uid(value),
            "resourceVersion": value["metadata"]["resourceVersion"],
            "creationTimestamp": value["metadata"]["creationTimestamp"],
        },
        "spec": if wanted == 0 { json!({}) } else { json!({ "replicas": wanted }) },
        "status": { "replicas": object::integer(value, &path(&status)).unwrap_or(0) },
    });
    if !object::namespace(value).is_empty() {
        scale["metadata"]["namespace"] = object::namespace(value).into();
    }
    let text = match object::at(value, &path(&selector)) {
        Some(Value::String(text)) => Some(text.clone()),
        found if resource.is("", "ReplicationController") => {
            Labels::of_value(found.map(|labels| json!({ "matchLabels": labels })).as_ref())
                .map(|labels| labels.render())
        }
        found => Labels::of_value(found).map(|labels| labels.render()),
    };
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        scale["status"]["selector"] = text.into();
    }
    Ok(scale)
}

/// Replaces or patches the Scale of an object.
///
/// # Errors
/// As an update of the object; 422 for a negative number.
pub(crate) fn set_scale(
    cluster: &mut ClusterState,
    target: &Target,
    kind: Option<PatchKind>,
    body: &Value,
    write: &Write,
) -> Result<Arc<Value>, ApiError> {
    let old = cluster.find(target)?;
    let scale = of(&target.resource, &old)?;
    let new_scale = match kind {
        None => body.clone(),
        Some(PatchKind::Json) => crate::patch::json::apply(&scale, body)?,
        Some(PatchKind::Apply) => crate::patch::merge::apply(&scale, body)?,
        // A Scale has no lists: a strategic merge equals a plain merge.
        Some(PatchKind::Merge | PatchKind::Strategic) => {
            patched(&target.resource, PatchKind::Merge, &scale, body)?
        }
    };
    let replicas = object::integer(&new_scale, &["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        let detail = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", &json!(replicas), detail);
        return Err(ApiError::invalid("autoscaling", "Scale", &target.name, &[cause]));
    }
    let [spec, ..] = paths(&target.resource).ok_or_else(ApiError::no_such_route)?;
    let mut new = Value::clone(&old);
    object::put(&mut new, &path(&spec), replicas);
    let revision = object::text(&new_scale, &["metadata", "resourceVersion"]);
    if !revision.is_empty() {
        object::put(&mut new, &["metadata", "resourceVersion"], revision);
    }
    let stored = update::save(cluster, target, &old, new, &write.to(Part::Main))?;
    of(&target.resource, &stored).map(Arc::new)
}
