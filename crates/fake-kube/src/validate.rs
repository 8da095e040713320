//! Validation of built-in kinds and of metadata: the most common mistakes, with the server's messages.

use serde_json::Value;

use crate::cluster::Part;
use crate::registry::Resource;
use crate::status::Cause;
use fleetwright_kube_schema::FieldError;

mod meta;
mod misc;
mod pod;
mod workload;

/// Errors of a new object.
pub(crate) fn create(resource: &Resource, value: &Value) -> Vec<Cause> {
    let mut causes = meta::check(resource, value);
    match &resource.custom {
        Some(custom) => causes.extend(custom.structural.validate(value, None).into_iter().map(cause)),
        None => causes.extend(content(resource, value)),
    }
    causes
}

/// Errors of an update.
pub(crate) fn update(resource: &Resource, old: &Value, new: &Value, part: Part) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old["metadata"] != new["metadata"] {
        causes.extend(meta::check(resource, new));
    }
    if let Some(custom) = &resource.custom {
        causes.extend(custom.structural.validate(new, Some(old)).into_iter().map(cause));
        return causes;
    }
    if old["spec"] != new["spec"] || resource.info.kind != "Pod" {
        causes.extend(content(resource, new));
    }
    if part == Part::Main {
        causes.extend(immutable(resource, old, new));
    }
    causes
}

fn cause(error: FieldError) -> Cause {
    Cause { field: error.path, reason: error.kind.cause().to_owned(), message: error.message }
}

fn content(resource: &Resource, value: &Value) -> Vec<Cause> {
    let kind = resource.info.kind.as_str();
    match (resource.info.group.as_str(), kind) {
        ("", "Pod") => pod::spec(&value["spec"], "spec", pod::Owner::Pod),
        ("apps" | "batch", _) => workload::check(kind, value),
        _ => misc::check(kind, value),
    }
}

fn immutable(resource: &Resource, old: &Value, new: &Value) -> Vec<Cause> {
    let kind = resource.info.kind.as_str();
    match (resource.info.group.as_str(), kind) {
        ("", "Pod") => pod::immutable(old, new),
        ("apps" | "batch", _) => workload::immutable(kind, old, new),
        _ => misc::immutable(kind, old, new),
    }
}
