//! What identifies an object of the input, and how a field of one is set.

use serde_json::{Value, json};

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

/// Sets the field of an object to which these keys lead. Objects on the way that are missing or null are created; where another type is on the way,
/// nothing is set.
pub(crate) fn set(object: &mut Value, keys: &[&str], value: Value) {
    let mut field = object;
    for key in keys {
        if field.is_null() {
            *field = json!({});
        }
        let Some(fields) = field.as_object_mut() else { return };
        field = fields.entry(*key).or_insert(Value::Null);
    }
    *field = value;
}

#[cfg(test)]
mod tests {
    //! Fields that are set.
    use super::*;

    #[test]
    fn fields_are_set_below_objects_alone() {
        for (before, after) in [
            (json!({}), json!({"a": {"b": 1}})),
            (json!({"a": null, "c": 2}), json!({"a": {"b": 1}, "c": 2})),
            (json!({"a": {"b": 0, "c": 2}}), json!({"a": {"b": 1, "c": 2}})),
            (json!({"a": "text"}), json!({"a": "text"})),
            (json!({"a": [0]}), json!({"a": [0]})),
            (json!(7), json!(7)),
        ] {
            let mut found = before.clone();
            set(&mut found, &["a", "b"], json!(1));
            assert_eq!(found, after, "{before}");
        }
    }
}
