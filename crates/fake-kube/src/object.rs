//! Functions to read and write dynamic Kubernetes objects.

use serde_json::{Map, Value};

/// The value at a path of field names.
pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(*key))
}

/// The text at a path, or an empty text.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a path.
pub(crate) fn integer(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The list at a path, or an empty one.
pub(crate) fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Sets the value at a path; a value on the way that is not a map is replaced by one.
pub(crate) fn put(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let mut slot = object;
    for key in path {
        slot = entry(slot, key);
    }
    *slot = value.into();
}

/// Sets the value at a path if it is absent or null.
pub(crate) fn put_default(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    if at(object, path).is_none_or(Value::is_null) {
        put(object, path, value);
    }
}

/// The slot of one field, created if absent.
pub(crate) fn entry<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map.entry(key).or_insert(Value::Null),
        other => other,
    }
}

/// The slot at an existing path.
pub(crate) fn at_mut<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(object, |value, key| value.get_mut(*key))
}

/// Removes the value at a path.
pub(crate) fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    at_mut(object, parents)?.as_object_mut()?.remove(*last)
}

/// Copies the value at a path from one object into another, or removes it there.
pub(crate) fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    match at(from, path) {
        Some(value) => put(to, path, value.clone()),
        None => {
            remove(to, path);
        }
    }
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// `metadata.resourceVersion` as a number; 0 when absent.
pub(crate) fn revision(object: &Value) -> u64 {
    text(object, &["metadata", "resourceVersion"]).parse().unwrap_or(0)
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    list(object, &["metadata", "finalizers"]).iter().filter_map(Value::as_str)
}

/// `metadata.ownerReferences`.
pub(crate) fn owners(object: &Value) -> &[Value] {
    list(object, &["metadata", "ownerReferences"])
}

/// Whether the object is terminating.
pub(crate) fn deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|value| !value.is_null())
}

/// A time in the format of `metav1.Time`: whole seconds.
pub(crate) fn time(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
