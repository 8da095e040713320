//! What identifies an object of the input.

use serde_json::Value;

/// The namespace of an object, `default` where it has none.
pub(super) fn namespace_of(value: &Value) -> String {
    let written = value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    if written.is_empty() { "default".to_owned() } else { written.to_owned() }
}

/// Namespace and name of an object.
pub(super) fn id_of(value: &Value) -> (String, String) {
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    (namespace_of(value), name.to_owned())
}
