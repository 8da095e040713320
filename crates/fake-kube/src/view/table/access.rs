//! Reading values out of objects, and the text forms that several tables share.

use serde_json::{Value, json};

/// The text at a JSON pointer; empty if absent.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The text at a JSON pointer, or `otherwise` if it is absent or empty.
pub(super) fn text_or<'a>(object: &'a Value, pointer: &str, otherwise: &'a str) -> &'a str {
    Some(text(object, pointer)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

/// The whole number at a JSON pointer; zero if absent.
pub(super) fn int(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The list at a JSON pointer; empty if absent.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The number of entries of a map at a JSON pointer.
pub(super) fn size(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

/// The cell of a `Name` column.
pub(super) fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

/// The status of a condition, if the object has it.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let found =
        list(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind)?;
    Some(text(found, "/status"))
}

/// An integer or a string as text.
pub(super) fn int_or_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One field of each entry, joined by commas.
pub(super) fn joined(entries: &[Value], pointer: &str) -> String {
    entries.iter().map(|entry| text(entry, pointer)).collect::<Vec<_>>().join(",")
}

/// Labels as `k=v,k2=v2` in the order of their keys; `<none>` if there are none.
pub(super) fn labels(map: Option<&Value>) -> String {
    let pairs = label_pairs(map);
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

fn label_pairs(map: Option<&Value>) -> Vec<String> {
    let Some(map) = map.and_then(Value::as_object) else { return Vec::new() };
    let mut pairs: Vec<_> =
        map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.sort();
    pairs
}

/// A label selector as text; `<none>` if it selects everything.
pub(super) fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "<none>".to_owned() };
    let mut terms = label_pairs(selector.get("matchLabels"));
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<_> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        terms.push(match text(expression, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.sort();
    if terms.is_empty() { "<none>".to_owned() } else { terms.join(",") }
}

/// Names and images of the containers of a pod template.
pub(super) fn template_containers(object: &Value) -> [Value; 2] {
    let containers = list(object, "/spec/template/spec/containers");
    [json!(joined(containers, "/name")), json!(joined(containers, "/image"))]
}
