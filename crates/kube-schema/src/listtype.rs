//! Uniqueness in lists of type `set` and `map`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::error::ShownValue;
use super::gotext;
use super::node::{Additional, ListType, Node};
use super::{FieldError, FieldErrorKind};

/// Returns duplicate entries of sets and keyed lists; the second occurrence is reported.
pub(crate) fn check(root: &Node, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, "", value, &mut errors);
    errors
}

fn walk(node: &Node, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
    if !node.lists_within {
        return;
    }
    match value {
        Value::Object(map) => {
            if let Additional::Schema(schema) = &node.additional
                && schema.lists_within
            {
                for (key, value) in map {
                    walk(schema, &format!("{path}[{key}]"), value, errors);
                }
            }
            for (name, property) in node.properties.iter().filter(|(_, property)| property.lists_within) {
                if let Some(value) = map.get(name) {
                    let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    walk(property, &at, value, errors);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type {
                Some(ListType::Set) => duplicates(path, items, items, errors),
                Some(ListType::Map) => keyed(node, path, items, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(schema) = node.items.as_ref().filter(|schema| schema.lists_within) {
                for (index, item) in items.iter().enumerate() {
                    walk(schema, &format!("{path}[{index}]"), item, errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn keyed(node: &Node, path: &str, items: &[Value], errors: &mut Vec<FieldError>) {
    let other = items.iter().position(|item| !item.is_null() && !item.is_object());
    if let Some(index) = other {
        let detail = "must be an object for an array of list-type map";
        let shown = ShownValue::Value(&items[index]);
        errors.push(FieldError::new(&format!("{path}[{index}]"), FieldErrorKind::Invalid, shown, detail));
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let fields = node.list_map_keys.iter();
            let key: Map<_, _> =
                fields.filter_map(|field| Some((field.clone(), item.get(field)?.clone()))).collect();
            Value::Object(key)
        })
        .collect();
    duplicates(path, &keys, &keys, errors);
}

fn duplicates(path: &str, items: &[Value], shown: &[Value], errors: &mut Vec<FieldError>) {
    if items.len() < 2 {
        return;
    }
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(items.len());
    for (index, (item, shown)) in items.iter().zip(shown).enumerate() {
        let times = seen.entry(gotext::json(item)).or_default();
        *times += 1;
        if *times == 2 {
            let at = format!("{path}[{index}]");
            errors.push(FieldError::new(&at, FieldErrorKind::Duplicate, ShownValue::Value(shown), ""));
        }
    }
}
