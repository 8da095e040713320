//! From Rust types to the structural schemas that controller-gen would write for the same fields.
//!
//! schemars' derive gives names, types and descriptions. What only a CRD knows is declared beside each field with
//! `extend(...)`. Two conventions keep serde's leniency out of the CRD: the CRD default of a field is declared under
//! [`DEFAULT`] (serde's own defaults are dropped), and the required fields of a struct by `extend("required" = [...])`.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// Key under which a field declares its CRD default.
pub const DEFAULT: &str = "x-crd-default";

/// Label keys and taint keys: an optional DNS subdomain, a slash, a name.
pub(crate) const QUALIFIED_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// Label values.
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A positive Go duration in seconds, minutes and hours.
pub(crate) const DURATION: &str = r"^([0-9]+(s|m|h))+$";
/// The same, or `Never`.
pub(crate) const DURATION_OR_NEVER: &str = r"^(([0-9]+(s|m|h))+|Never)$";
/// Quantities in their string form.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// CEL rules as `x-kubernetes-validations`, from pairs of (rule, message).
pub fn rules(rules: &[(&str, &str)]) -> Value {
    rules.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect()
}

/// Schema of a map from resource names to quantities.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY,
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// Drops the format, for integers that Go declares as plain `int`.
pub fn no_format(schema: &mut Schema) {
    schema.remove("format");
}

/// The structural schema of `T`.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    structural(&mut schema);
    schema
}

/// Appends rules to those that a schema node already has.
pub(crate) fn append_rules(node: &mut Value, added: &[(&str, &str)]) {
    let Some(node) = node.as_object_mut() else { return };
    let all = node.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
    if let (Value::Array(all), Value::Array(added)) = (all, rules(added)) {
        all.extend(added);
    }
}

/// Rewrites one node and everything below it.
fn structural(node: &mut Value) {
    let Value::Object(map) = node else { return };
    drop_null(map);
    for key in ["title", "nullable", "default", "$schema"] {
        map.remove(key);
    }
    if let Some(Value::String(description)) = map.get_mut("description") {
        // Lines of a doc comment are wrapped for the source's sake.
        *description = description.replace('\n', " ");
    }
    if let Some(default) = map.remove(DEFAULT) {
        map.insert("default".to_owned(), default);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(structural);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = map.get_mut(key) {
            structural(child);
        }
    }
}

/// An optional field is one that may be absent, never one that may be null.
fn drop_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let inner = match map.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([Value::Object(inner), null]) if null == &json!({"type": "null"}) => inner.clone(),
        _ => return,
    };
    map.remove("anyOf");
    for (key, value) in inner {
        map.entry(key).or_insert(value);
    }
}
