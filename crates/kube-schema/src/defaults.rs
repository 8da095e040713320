//! Defaulting.

use serde_json::Value;

use super::node::{Additional, Node};

/// Sets the defaults of `node` and its descendants, also within defaults that were just set.
pub(crate) fn apply(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in &node.properties {
                let Some(default) = &property.default else { continue };
                let absent = map.get(name).is_none_or(|value| value.is_null() && property.refuses_null());
                if absent {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(property) = node.properties.get(name) {
                    apply(property, value);
                } else if let Additional::Schema(schema) = &node.additional {
                    entry(schema, value);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for item in items {
                entry(schema, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// An entry of a map or a list: a null that is not allowed becomes the default; without one, validation rejects it.
fn entry(schema: &Node, value: &mut Value) {
    if value.is_null()
        && schema.refuses_null()
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
    apply(schema, value);
}
