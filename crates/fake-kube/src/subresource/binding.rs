//! `binding`: sets the node of a pod.

use serde_json::{Value, json};

use crate::cluster::{ClusterState, Part, Target, Write};
use crate::object;
use crate::status::{ApiError, Cause};
use crate::verbs::update;

/// Binds a pod to the node of the Binding.
///
/// # Errors
/// 404, 409 for a bound, terminating or gated pod, 422 for an invalid target.
pub(crate) fn bind(
    cluster: &mut ClusterState,
    target: &Target,
    binding: &Value,
    write: &Write,
) -> Result<(), ApiError> {
    let node = object::text(binding, &["target", "name"]);
    let kind = object::text(binding, &["target", "kind"]);
    let mut causes = Vec::new();
    if !matches!(kind, "" | "Node") {
        causes.push(Cause::not_supported("target.kind", &json!(kind), &["Node", "<empty>"]));
    }
    if node.is_empty() {
        causes.push(Cause::required("target.name", ""));
    }
    if !causes.is_empty() {
        return Err(ApiError::invalid("", "Binding", &target.name, &causes));
    }
    let old = cluster.find(target)?;
    let refuse = |why: String| Err(ApiError::conflict("", "pods/binding", &target.name, &why));
    let uid = object::uid(binding);
    if !uid.is_empty() && uid != object::uid(&old) {
        return refuse(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::uid(&old)
        ));
    }
    if object::deleting(&old) {
        return refuse(format!("pod {} is being deleted, cannot be assigned to a host", target.name));
    }
    let present = object::text(&old, &["spec", "nodeName"]);
    if !present.is_empty() {
        return refuse(format!("pod {} is already assigned to node {present:?}", target.name));
    }
    if !object::list(&old, &["spec", "schedulingGates"]).is_empty() {
        return refuse(format!("pod {} has non-empty .spec.schedulingGates", target.name));
    }
    let mut new = Value::clone(&old);
    object::put(&mut new, &["spec", "nodeName"], node);
    let annotations = object::at(binding, &["metadata", "annotations"]).and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        object::put(&mut new, &["metadata", "annotations", key], value.clone());
    }
    let now = cluster.now();
    set_condition(
        &mut new,
        &json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now }),
    );
    update::save(cluster, target, &old, new, &write.to(Part::Whole)).map(|_| ())
}

/// Replaces the condition of the same type.
pub(super) fn set_condition(value: &mut Value, condition: &Value) {
    let mut conditions = object::list(value, &["status", "conditions"]).to_vec();
    match conditions.iter_mut().find(|entry| entry["type"] == condition["type"]) {
        Some(entry) => *entry = condition.clone(),
        None => conditions.push(condition.clone()),
    }
    object::put(value, &["status", "conditions"], conditions);
}
