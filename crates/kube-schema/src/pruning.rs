//! Pruning of unknown fields, and their names for strict field validation.

use serde_json::{Map, Value};

use super::node::{Additional, Node};

const TYPE_AND_META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Fields of `meta/v1.ObjectMeta`.
const OBJECT_META: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Prunes an object, its metadata and embedded metadata.
pub(crate) fn prune(root: &Node, value: &mut Value) {
    known(root, value);
    drop_nulls(Some(root), value);
}

/// Keeps declared fields. The value of a preserved but undeclared field loses its own fields, unless the schema
/// preserves them.
fn known(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            if node.embedded {
                keep_meta(map);
            }
            map.retain(|name, value| {
                if node.embedded && TYPE_AND_META.contains(&name.as_str()) {
                    return true;
                }
                match (node.field(name), &node.additional) {
                    (Some(field), _) => known(field, value),
                    (None, _) if node.preserve_unknown => {}
                    (None, Additional::Open | Additional::Closed) => strip(value),
                    (None, _) => return false,
                }
                true
            });
        }
        Value::Array(items) => match &node.items {
            Some(schema) => items.iter_mut().for_each(|item| known(schema, item)),
            None if node.preserve_unknown => {}
            None => items.iter_mut().for_each(strip),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes all fields of a value without a schema.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => map.clear(),
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn keep_meta(map: &mut Map<String, Value>) {
    if let Some(Value::Object(meta)) = map.get_mut("metadata") {
        meta.retain(|name, _| OBJECT_META.contains(&name.as_str()));
    }
}

/// Removes nulls of fields that are neither nullable nor defaulted; entries of lists are kept.
pub(crate) fn drop_nulls(node: Option<&Node>, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let field = node.and_then(|node| node.field(name));
            if value.is_null() && field.is_some_and(|field| field.refuses_null() && field.default.is_none()) {
                return false;
            }
            drop_nulls(field, value);
            true
        }),
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls(schema, item));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Paths of all fields that pruning removes, sorted.
pub(crate) fn unknown_fields(root: &Node, value: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    collect(Some(root), value, "", &mut paths);
    paths.sort();
    paths
}

fn collect(node: Option<&Node>, value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let (Some(true), Some(Value::Object(meta))) = (node.map(|n| n.embedded), map.get("metadata")) {
                let unknown = meta.keys().filter(|name| !OBJECT_META.contains(&name.as_str()));
                paths.extend(unknown.map(|name| format!("{}.{name}", child(path, "metadata"))));
            }
            for (name, value) in map {
                let at = child(path, name);
                match node {
                    Some(node) if node.embedded && TYPE_AND_META.contains(&name.as_str()) => {}
                    Some(node) => match (node.field(name), &node.additional) {
                        (Some(field), _) => collect(Some(field), value, &at, paths),
                        (None, _) if node.preserve_unknown => {}
                        (None, Additional::Open | Additional::Closed) => collect(None, value, &at, paths),
                        (None, _) => paths.push(at),
                    },
                    None => paths.push(at),
                }
            }
        }
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            if schema.is_none() && node.is_some_and(|node| node.preserve_unknown) {
                return;
            }
            for (index, item) in items.iter().enumerate() {
                collect(schema, item, &format!("{path}[{index}]"), paths);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
