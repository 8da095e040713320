//! Strategic merge patch: a merge that knows the keys of lists and a few directives.
//!
//! Semantics: apimachinery's `strategicpatch` package.

use serde_json::{Map, Value};

use super::keys::{self, ListRule};
use crate::status::ApiError;

/// Directive within a map or a list entry: `delete`, `replace` or `merge`.
const PATCH: &str = "$patch";
/// Directive that keeps only the named fields of a map.
const RETAIN: &str = "$retainKeys";
/// Prefix of the directive that orders a list.
const ORDER: &str = "$setElementOrder/";
/// Prefix of the directive that deletes scalars from a set.
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Applies a patch to an object of a built-in kind.
///
/// # Errors
/// 400 for a patch that is not an object, 422 for a list entry without its merge key.
pub(crate) fn apply(_kind: &str, object: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request(
            "error decoding patch: the strategic merge patch is not an object",
        ));
    }
    let mut merged = object.clone();
    merge(&mut merged, patch, &mut Vec::new())?;
    Ok(merged)
}

fn merge<'p>(object: &mut Value, patch: &'p Value, path: &mut Vec<&'p str>) -> Result<(), ApiError> {
    let Some(changes) = patch.as_object() else {
        *object = patch.clone();
        return Ok(());
    };
    match changes.get(PATCH).and_then(Value::as_str) {
        Some("replace") => {
            *object = without_directives(changes);
            return Ok(());
        }
        Some("delete") => {
            *object = Value::Object(Map::new());
            return Ok(());
        }
        _ => {}
    }
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(fields) = object.as_object_mut() else { return Ok(()) };
    if let Some(retained) = changes.get(RETAIN).and_then(Value::as_array) {
        fields.retain(|key, _| retained.iter().any(|kept| kept.as_str() == Some(key)));
    }
    for (key, change) in changes {
        if let Some(list) = key.strip_prefix(DELETE) {
            delete_scalars(fields.get_mut(list), change);
        }
    }
    for (key, change) in changes.iter().filter(|(key, _)| !key.starts_with('$')) {
        path.push(key);
        merge_field(fields, key, change, path)?;
        path.pop();
    }
    for (key, order) in changes {
        if let Some(list) = key.strip_prefix(ORDER) {
            path.push(list);
            let rule = keys::strategic(path);
            path.pop();
            reorder(fields.get_mut(list), order, &rule);
        }
    }
    Ok(())
}

fn merge_field<'p>(
    fields: &mut Map<String, Value>,
    key: &str,
    change: &'p Value,
    path: &mut Vec<&'p str>,
) -> Result<(), ApiError> {
    match change {
        Value::Null => {
            fields.remove(key);
        }
        Value::Object(map) if map.get(PATCH).and_then(Value::as_str) == Some("delete") => {
            fields.remove(key);
        }
        Value::Object(_) => {
            merge(fields.entry(key).or_insert_with(|| Value::Object(Map::new())), change, path)?
        }
        Value::Array(entries) => match keys::strategic(path) {
            ListRule::Atomic => {
                fields.insert(key.to_owned(), Value::Array(entries.iter().map(clean).collect()));
            }
            ListRule::Set => {
                merge_set(fields.entry(key).or_insert_with(|| Value::Array(Vec::new())), entries)
            }
            ListRule::Map(names) => {
                let list = fields.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                merge_list(list, entries, names.first().map_or("", String::as_str), path)?;
            }
        },
        scalar => {
            fields.insert(key.to_owned(), scalar.clone());
        }
    }
    Ok(())
}

fn merge_set(list: &mut Value, entries: &[Value]) {
    if let Value::Array(present) = list {
        for entry in entries {
            if !present.contains(entry) {
                present.push(entry.clone());
            }
        }
    }
}

fn delete_scalars(list: Option<&mut Value>, gone: &Value) {
    if let (Some(Value::Array(present)), Some(gone)) = (list, gone.as_array()) {
        present.retain(|entry| !gone.contains(entry));
    }
}

fn merge_list<'p>(
    list: &mut Value,
    entries: &'p [Value],
    key: &str,
    path: &mut Vec<&'p str>,
) -> Result<(), ApiError> {
    let replaces = |entry: &Value| entry.get(PATCH).and_then(Value::as_str) == Some("replace");
    if entries.iter().any(|entry| replaces(entry) && entry.get(key).is_none()) {
        let kept = entries.iter().filter(|entry| !replaces(entry)).map(clean).collect();
        *list = Value::Array(kept);
        return Ok(());
    }
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Some(present) = list.as_array_mut() else { return Ok(()) };
    for entry in entries {
        let Some(name) = entry.get(key) else {
            let detail = format!("map: {entry} does not contain declared merge key: {key}");
            return Err(ApiError::unprocessable(&detail));
        };
        let index = present.iter().position(|other| other.get(key) == Some(name));
        match (entry.get(PATCH).and_then(Value::as_str), index) {
            (Some("delete"), _) => present.retain(|other| other.get(key) != Some(name)),
            (_, Some(index)) => merge(&mut present[index], entry, path)?,
            (_, None) => present.push(clean(entry)),
        }
    }
    Ok(())
}

/// Brings the entries that the directive names into its order; the others keep their places after them.
fn reorder(list: Option<&mut Value>, order: &Value, rule: &ListRule) {
    let (Some(Value::Array(present)), Some(order)) = (list, order.as_array()) else { return };
    let key = match rule {
        ListRule::Map(names) => names.first().cloned(),
        _ => None,
    };
    let rank = |entry: &Value| {
        order
            .iter()
            .position(|wanted| match &key {
                Some(key) => wanted.get(key) == entry.get(key),
                None => wanted == entry,
            })
            .unwrap_or(usize::MAX)
    };
    present.sort_by_key(rank);
}

/// A copy without directives.
fn clean(value: &Value) -> Value {
    match value {
        Value::Object(map) => without_directives(map),
        Value::Array(list) => Value::Array(list.iter().map(clean).collect()),
        other => other.clone(),
    }
}

fn without_directives(map: &Map<String, Value>) -> Value {
    let kept = map.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    Value::Object(kept.map(|(key, value)| (key.clone(), clean(value))).collect())
}
