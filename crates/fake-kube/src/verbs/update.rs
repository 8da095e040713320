//! Replacement of an object, and the rules of every update.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{create, shape};
use crate::cluster::{ClusterState, Part, Target, Write};
use crate::registry::Resource;
use crate::status::{ApiError, Cause};
use crate::{admission, crds, finalizers, gc, managed, object, validate};

/// Metadata that only the server sets.
const SERVER_OWNED: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "generateName",
    "resourceVersion",
];

/// Replaces an object.
///
/// # Errors
/// 400, 404, 409 or 422, with the API server's messages.
pub(crate) fn update(
    cluster: &mut ClusterState,
    target: &Target,
    body: Value,
    write: &Write,
) -> Result<Arc<Value>, ApiError> {
    let mut value = body;
    shape::check_type(&target.resource, &mut value)?;
    shape::check_identity(target, &mut value)?;
    let revision = object::text(&value, &["metadata", "resourceVersion"]);
    let old = match cluster.get(&target.place()) {
        Some(old) => old.clone(),
        None if admission::creates_on_update(&target.resource) && revision.is_empty() => {
            return create::create(cluster, target, value, write);
        }
        None => return Err(target.not_found()),
    };
    let uid = object::uid(&value);
    if !uid.is_empty() && uid != object::uid(&old) {
        return Err(target.conflict(&format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            target.name,
            object::uid(&old)
        )));
    }
    if revision.is_empty() && !admission::unconditional_update(&target.resource) {
        let info = &target.resource.info;
        let cause = Cause {
            field: "metadata.resourceVersion".to_owned(),
            reason: "FieldValueInvalid".to_owned(),
            message: "Invalid value: 0: must be specified for an update".to_owned(),
        };
        return Err(ApiError::invalid(&info.group, &info.kind, &target.name, &[cause]));
    }
    save(cluster, target, &old, value, write)
}

/// Stores a new version of an object after all checks; the caller has checked the identity. A resourceVersion in the new version must
/// be the current one.
///
/// # Errors
/// 400, 409 or 422.
pub(crate) fn save(
    cluster: &mut ClusterState,
    target: &Target,
    old: &Arc<Value>,
    new: Value,
    write: &Write,
) -> Result<Arc<Value>, ApiError> {
    let resource = target.resource.clone();
    let info = &resource.info;
    let given = object::text(&new, &["metadata", "resourceVersion"]);
    if !given.is_empty() && given != "0" && given != object::text(old, &["metadata", "resourceVersion"]) {
        return Err(ApiError::modified(&info.group, &info.plural, &target.name));
    }
    let mut new = isolate(&resource, old, new, write.part);
    // A status update keeps the old metadata.
    if write.part != Part::Status {
        for field in SERVER_OWNED {
            object::copy(old, &mut new, &["metadata", field]);
        }
    }
    if !managed::is_reset(&new) {
        object::copy(old, &mut new, &["metadata", "managedFields"]);
    }
    let mut new = match write.part {
        Part::Status => shape::decode_status(&resource, new, old, write.strict)?,
        Part::Main | Part::Whole => shape::decode(&resource, new, write.strict)?,
    };
    object::copy(old, &mut new, &["apiVersion"]);
    admission::admit_update(cluster, &resource, old, &mut new, write.part)?;
    bump_generation(&resource, old, &mut new);
    if crds::is_definition(&resource) && write.part == Part::Main {
        crds::accept(cluster, &mut new)?;
    }
    let mut causes = validate_finalizers(old, &new);
    causes.extend(validate::update(&resource, old, &new, write.part));
    if !causes.is_empty() {
        return Err(ApiError::invalid(&info.group, &info.kind, &target.name, &causes));
    }
    managed::on_write(cluster, &resource, Some(old), &mut new, write);
    if new == **old {
        return Ok(old.clone());
    }
    if write.dry_run {
        return Ok(Arc::new(new));
    }
    store_update(cluster, target, old, new)
}

fn store_update(
    cluster: &mut ClusterState,
    target: &Target,
    old: &Arc<Value>,
    new: Value,
) -> Result<Arc<Value>, ApiError> {
    let place = target.place();
    let stored = cluster.put(&place, new);
    if finalizers::is_deletion_over(&target.resource, &stored) {
        cluster.erase(&place);
        return Ok(stored);
    }
    gc::after_update(cluster, &target.resource, &place, old, &stored);
    Ok(cluster.get(&place).cloned().unwrap_or(stored))
}

/// Keeps the fields that a write of this part may not change.
fn isolate(resource: &Resource, old: &Value, new: Value, part: Part) -> Value {
    let has_status = resource.info.has("status");
    match part {
        Part::Main if has_status => {
            let mut kept = new;
            object::copy(old, &mut kept, &["status"]);
            if resource.is("", "Namespace") {
                object::copy(old, &mut kept, &["spec", "finalizers"]);
            }
            kept
        }
        Part::Status => {
            let mut new = new;
            let status = object::remove(&mut new, &["status"]);
            let mut kept = without_status(old);
            if let Some(status) = status {
                object::put(&mut kept, &["status"], status);
            }
            if resource.custom.is_none() {
                for field in ["labels", "annotations", "finalizers"] {
                    object::copy(&new, &mut kept, &["metadata", field]);
                }
            }
            if managed::is_reset(&new) {
                object::put(&mut kept, &["metadata", "managedFields"], json!([]));
            }
            kept
        }
        Part::Main | Part::Whole => new,
    }
}

fn without_status(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten().filter(|(key, _)| *key != "status");
    Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Increases the generation if anything besides metadata and status changed.
fn bump_generation(resource: &Resource, old: &Value, new: &mut Value) {
    if !admission::has_generation(resource) {
        return;
    }
    let ignores_status = resource.custom.is_none() || resource.info.has("status");
    let differs = |left: &Value, right: &Value| {
        left.as_object().into_iter().flatten().any(|(key, value)| {
            key != "metadata" && !(key == "status" && ignores_status) && right.get(key) != Some(value)
        })
    };
    if differs(old, new) || differs(new, old) {
        let generation = object::integer(old, &["metadata", "generation"]).unwrap_or(0);
        object::put(new, &["metadata", "generation"], generation.saturating_add(1));
    }
}

/// No finalizer may be added to a terminating object.
fn validate_finalizers(old: &Value, new: &Value) -> Vec<Cause> {
    if !object::deleting(old) {
        return Vec::new();
    }
    let added: Vec<String> = object::finalizers(new)
        .filter(|name| !object::finalizers(old).any(|known| known == *name))
        .map(|name| format!("{name:?}"))
        .collect();
    if added.is_empty() {
        return Vec::new();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    vec![Cause::forbidden("metadata.finalizers", &detail)]
}
