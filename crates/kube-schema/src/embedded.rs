//! Embedded objects (`x-kubernetes-embedded-resource`).

use serde_json::{Map, Value};

use super::error::ShownValue;
use super::node::{Additional, Node};
use super::{FieldError, FieldErrorKind};

/// Requires `apiVersion` and `kind` of embedded resources. The caller checks the root.
pub(crate) fn check(root: &Node, value: &Value, errors: &mut Vec<FieldError>) {
    below(root, "", value, errors);
}

fn walk(node: &Node, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
    if let (true, Value::Object(map)) = (node.embedded, value) {
        for name in ["apiVersion", "kind"] {
            type_field(map, path, name, errors);
        }
    }
    below(node, path, value, errors);
}

fn below(node: &Node, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (name, property) in node.properties.iter().filter(|(_, property)| property.embedded_within) {
                if let Some(value) = map.get(name) {
                    let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    walk(property, &at, value, errors);
                }
            }
            if let Additional::Schema(schema) = &node.additional
                && schema.embedded_within
            {
                for (key, value) in map.iter().filter(|(key, _)| !node.properties.contains_key(*key)) {
                    walk(schema, &format!("{path}[{key}]"), value, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = node.items.as_ref().filter(|schema| schema.embedded_within) else { return };
            for (index, item) in items.iter().enumerate() {
                walk(schema, &format!("{path}[{index}]"), item, errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn type_field(map: &Map<String, Value>, path: &str, name: &str, errors: &mut Vec<FieldError>) {
    let at = format!("{path}.{name}");
    match map.get(name) {
        None => errors.push(FieldError::required(&at)),
        Some(Value::String(text)) if !text.is_empty() => {}
        Some(value) => {
            let detail = if value.is_string() { "must not be empty" } else { "must be a string" };
            errors.push(FieldError::new(&at, FieldErrorKind::Invalid, ShownValue::Value(value), detail));
        }
    }
}
