//! Validation of a value by its schema, with the messages, paths and ratcheting of the API server.

mod combine;
mod scalar;

use serde_json::{Map, Value};

use super::error::ShownValue;
use super::node::{Additional, JsonType, ListType, Node};
use super::{FieldError, FieldErrorKind};

/// The result for one value. `matched` is the number of passed checks: `anyOf` and `oneOf` report the branch with
/// the most of them.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) errors: Vec<FieldError>,
    pub(crate) matched: usize,
}

impl Outcome {
    pub(crate) fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matched += other.matched;
    }

    pub(crate) const fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn invalid(&mut self, path: &str, shown: ShownValue<'_>, detail: &str) {
        self.errors.push(FieldError::new(path, FieldErrorKind::Invalid, shown, detail));
    }
}

/// Validates an object; errors of parts that are unchanged since `old` are ignored.
pub(crate) fn object(root: &Node, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    value(root, "", new, old).errors
}

/// Validates one value. `old` is the value that it replaces, if the two can be correlated.
pub(crate) fn value(node: &Node, path: &str, new: &Value, old: Option<&Value>) -> Outcome {
    // Errors of an unchanged value are ignored.
    if old.is_some_and(|old| node.unchanged(new, old)) {
        return Outcome::default();
    }
    check(node, path, new, old)
}

fn check(node: &Node, path: &str, new: &Value, old: Option<&Value>) -> Outcome {
    let mut outcome = Outcome::default();
    if !node.kinds.is_empty() || node.format.is_some() || new.is_null() {
        of_type(node, path, new, &mut outcome);
        outcome.matched += 1;
    }
    if !new.is_null() {
        outcome.merge(combine::check(node, path, new, old));
        outcome.matched += 1;
        match new {
            Value::String(text) => scalar::string(node, path, text, &mut outcome),
            Value::Number(number) => scalar::number(node, path, number, &mut outcome),
            Value::Array(items) => list(node, path, items, old, &mut outcome),
            Value::Object(_) | Value::Null | Value::Bool(_) => {}
        }
    }
    if !node.enumeration.is_empty() && !node.enumeration.iter().any(|allowed| scalar::equal(allowed, new)) {
        outcome.errors.push(FieldError::not_supported(path, new, &node.enumeration));
    }
    if let Value::Object(map) = new {
        fields(node, path, map, old, &mut outcome);
    }
    outcome.matched += 2;
    outcome
}

fn of_type(node: &Node, path: &str, new: &Value, outcome: &mut Outcome) {
    let actual = JsonType::of(new);
    let any_type = node.kinds.is_empty();
    if actual == JsonType::Null {
        if !any_type && !node.nullable && !node.kinds.contains(&JsonType::Null) {
            wrong_type(path, &expected(node), actual.name(), outcome);
        }
        return;
    }
    let numeric = node.kinds.iter().any(|kind| matches!(kind, JsonType::Integer | JsonType::Number));
    let matches = node.kinds.contains(&actual)
        || (actual == JsonType::Integer && node.kinds.contains(&JsonType::Number))
        || (node.kinds.contains(&JsonType::Integer) && scalar::is_whole(new));
    if let Some(format) = &node.format {
        let text_like = matches!(actual, JsonType::String | JsonType::Array);
        if !text_like && !matches {
            // The server's message contains the format and the width of the number.
            let width = match actual {
                JsonType::Integer => "int64",
                JsonType::Number => "float64",
                _ => "",
            };
            wrong_type(path, &format.name, width, outcome);
            return;
        }
        if text_like && !numeric {
            outcome.matched += 1;
            return;
        }
    }
    if matches || any_type {
        outcome.matched += 1;
    } else {
        wrong_type(path, &expected(node), actual.name(), outcome);
    }
}

fn expected(node: &Node) -> String {
    node.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
}

fn wrong_type(path: &str, expected: &str, actual: &str, outcome: &mut Outcome) {
    let detail = format!("{path} in body must be of type {expected}: \"{actual}\"");
    outcome.errors.push(FieldError::new(
        path,
        FieldErrorKind::TypeInvalid,
        ShownValue::Text(actual),
        &detail,
    ));
}

fn list(node: &Node, path: &str, items: &[Value], old: Option<&Value>, outcome: &mut Outcome) {
    if let Some(schema) = &node.items {
        let old = old.and_then(Value::as_array).filter(|_| node.list_type == Some(ListType::Map));
        for (index, item) in items.iter().enumerate() {
            let old = old.and_then(|old| node.same_entry(item, old));
            outcome.merge(value(schema, &format!("{path}[{index}]"), item, old));
        }
    }
    let size = items.len();
    if let Some(min) = node.limits.min_items.filter(|min| size < *min) {
        outcome.invalid(
            path,
            ShownValue::Count(size),
            &format!("{path} in body should have at least {min} items"),
        );
    }
    if let Some(max) = node.limits.max_items.filter(|max| size > *max) {
        outcome.errors.push(FieldError::too_many(path, size, max));
    }
    if node.limits.unique_items && items.iter().enumerate().any(|(at, item)| items[..at].contains(item)) {
        outcome.invalid(path, ShownValue::Text(""), &format!("{path} in body shouldn't contain duplicates"));
    }
    outcome.matched += 2;
}

fn fields(node: &Node, path: &str, map: &Map<String, Value>, old: Option<&Value>, outcome: &mut Outcome) {
    let size = map.len();
    if let Some(min) = node.limits.min_properties.filter(|min| size < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        outcome.invalid(path, ShownValue::Count(size), &detail);
    }
    if let Some(max) = node.limits.max_properties.filter(|max| size > *max) {
        outcome.errors.push(FieldError::too_many(path, size, max));
    }
    match &node.additional {
        Additional::Closed => {
            for name in undeclared(node, map) {
                let detail = format!("{path}.{name} in body is a forbidden property");
                outcome.invalid(path, ShownValue::Text(name), &detail);
            }
        }
        Additional::Schema(schema) => {
            for name in undeclared(node, map) {
                let old = old.and_then(|old| old.get(name));
                outcome.merge(value(schema, &format!("{path}.{name}"), &map[name], old));
            }
        }
        Additional::None | Additional::Open => {}
    }
    for (name, property) in &node.properties {
        if let Some(new) = map.get(name) {
            // The type fields are equal in both versions, so the server does not compare them.
            let untyped = path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
            let old = old.filter(|_| !untyped).and_then(|old| old.get(name));
            let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            outcome.merge(value(property, &at, new, old));
        }
    }
    for name in node.required.iter().filter(|name| !map.contains_key(*name)) {
        outcome.errors.push(FieldError::required(&format!("{path}.{name}")));
    }
}

/// Names of fields without a schema of their own, sorted.
fn undeclared<'a>(node: &Node, map: &'a Map<String, Value>) -> Vec<&'a String> {
    let mut names: Vec<_> = map.keys().filter(|name| !node.properties.contains_key(*name)).collect();
    names.sort();
    names
}
