//! Field managers.

use serde_json::Value;

use crate::object;
use crate::registry::Resource;
use crate::world::{World, Write};

/// Whether a write asks to forget all managers: `managedFields: [{}]` or an empty list.
pub(crate) fn is_reset(value: &Value) -> bool {
    object::at(value, &["metadata", "managedFields"])
        .and_then(Value::as_array)
        .is_some_and(|list| list.is_empty() || list.iter().all(|entry| entry == &serde_json::json!({})))
}

/// Records who wrote which fields.
pub(crate) fn on_write(
    _world: &World,
    _resource: &Resource,
    _old: Option<&Value>,
    _new: &mut Value,
    _write: &Write,
) {
}
