//! Validation of built-in kinds and of metadata: the commonest mistakes, in the server's words.

use serde_json::{Value, json};

use crate::object;
use crate::registry::Resource;
use crate::status::Cause;
use crate::world::Part;

/// What is wrong with a new object.
pub(crate) fn create(resource: &Resource, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if object::name(value).is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    }
    let _ = (resource, json!(null));
    causes
}

/// What is wrong with a new form of an object.
pub(crate) fn update(_resource: &Resource, _old: &Value, _new: &Value, _part: Part) -> Vec<Cause> {
    Vec::new()
}
