//! What definitions of one field say beside its name: defaults, enumerations, bounds and rules.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The keywords that decide which values the API server accepts and what it writes where a field is absent.
const KEYWORDS: [&str; 17] = [
    "default",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "required",
    "type",
];
const RULES: &str = "x-kubernetes-validations";

/// The differences between two schemas in the fields that both have, as `spec.a: default "x" in place of "y"`.
pub(super) fn differences(theirs: &Value, ours: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(theirs, ours, "", &mut found);
    found
}

fn walk(theirs: &Value, ours: &Value, path: &str, found: &mut Vec<String>) {
    let at = if path.is_empty() { "the object" } else { path };
    for keyword in KEYWORDS {
        let (theirs, ours) = (canonical(keyword, theirs), canonical(keyword, ours));
        if theirs != ours {
            found.push(format!("{at}: {}", changed(keyword, &theirs, &ours)));
        }
    }
    let (before, after) = (rules(theirs), rules(ours));
    let lacks = after.iter().filter(|(rule, _)| !before.contains_key(*rule)).map(|(_, says)| ("lacks", says));
    let has = before.iter().filter(|(rule, _)| !after.contains_key(*rule)).map(|(_, says)| ("has", says));
    found.extend(lacks.chain(has).map(|(verb, says)| format!("{at}: {verb} the rule {says:?}")));
    for (field, theirs) in theirs["properties"].as_object().into_iter().flatten() {
        // The API server has the schema of metadata.
        let is_of_server = path.is_empty() && matches!(field.as_str(), "metadata" | "apiVersion" | "kind");
        if let Some(ours) = ours["properties"].get(field).filter(|_| !is_of_server) {
            let dot = if path.is_empty() { "" } else { "." };
            walk(theirs, ours, &format!("{path}{dot}{field}"), found);
        }
    }
    for (keyword, step) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let (Some(theirs), Some(ours)) = (theirs.get(keyword), ours.get(keyword)) {
            walk(theirs, ours, &format!("{path}{step}"), found);
        }
    }
}

/// The value of a keyword; that of a set in a stated order, and null where it is absent or says nothing.
fn canonical(keyword: &str, schema: &Value) -> Value {
    match (keyword, &schema[keyword]) {
        // Karpenter's definitions give them to lists, too.
        ("maxLength" | "minLength" | "pattern", _) if schema["type"] == "array" => Value::Null,
        ("enum" | "required", Value::Array(members)) => {
            let sorted: BTreeSet<String> = members.iter().map(Value::to_string).collect();
            sorted.into_iter().collect()
        }
        ("nullable" | "exclusiveMaximum" | "exclusiveMinimum", Value::Bool(false)) => Value::Null,
        // 1 and 1.0 are one bound.
        ("maximum" | "minimum", bound) => bound.as_f64().map_or(Value::Null, Value::from),
        (_, value) => value.clone(),
    }
}

fn changed(keyword: &str, theirs: &Value, ours: &Value) -> String {
    let shown = |value: &Value| match value {
        Value::Array(members) => {
            let members: Vec<&str> = members.iter().filter_map(Value::as_str).collect();
            members.join(", ")
        }
        value => value.to_string(),
    };
    match (theirs, ours) {
        (Value::Null, ours) => format!("lacks {keyword} {}", shown(ours)),
        (theirs, Value::Null) => format!("has {keyword} {}", shown(theirs)),
        (theirs, ours) => format!("{keyword} {} in place of {}", shown(theirs), shown(ours)),
    }
}

/// The CEL rules of a schema, each with its message, or the rule where it has none. The order of names in a list of a rule means nothing.
fn rules(schema: &Value) -> BTreeMap<String, String> {
    let rules = schema[RULES].as_array().into_iter().flatten();
    let pair = |rule: &Value| {
        let text = rule["rule"].as_str().unwrap_or_default();
        let says = rule["message"].as_str().unwrap_or(text).to_owned();
        (with_sorted_list(text), says)
    };
    rules.map(pair).collect()
}

fn with_sorted_list(rule: &str) -> String {
    let tidy = rule.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((start, rest)) = tidy.split_once(" in [") else { return tidy };
    let Some((names, end)) = rest.split_once(']') else { return tidy };
    let names: BTreeSet<&str> = names.split(',').map(str::trim).collect();
    format!("{start} in [{}]{end}", names.into_iter().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    //! Each keyword in turn.
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn between(theirs: &Value, ours: &Value) -> Vec<String> {
        let schema = |field: &Value| json!({"properties": {"spec": {"properties": {"a": field}}}});
        differences(&schema(theirs), &schema(ours))
    }

    #[rstest]
    #[case::default(json!({"default": "0s"}), json!({}), "spec.a: has default \"0s\"")]
    #[case::enumeration(json!({"enum": ["In"]}), json!({"enum": ["In", "Gt"]}), "spec.a: enum \"In\" in place of \"Gt\", \"In\"")]
    #[case::bound(json!({"minimum": 1}), json!({"minimum": 2}), "spec.a: minimum 1.0 in place of 2.0")]
    #[case::pattern(json!({}), json!({"pattern": "^a$"}), "spec.a: lacks pattern \"^a$\"")]
    #[case::required(json!({"required": ["x"]}), json!({"required": ["x", "y"]}), "spec.a: required \"x\" in place of \"x\", \"y\"")]
    #[case::rule_lacks(json!({}), json!({RULES: [{"rule": "self > 1", "message": "too few"}]}), "spec.a: lacks the rule \"too few\"")]
    #[case::rule_more(json!({RULES: [{"rule": "self > 1"}]}), json!({}), "spec.a: has the rule \"self > 1\"")]
    #[case::of_items(json!({"items": {"maxLength": 1}}), json!({"items": {}}), "spec.a[]: has maxLength 1")]
    #[case::of_values(json!({"additionalProperties": {"type": "string"}}), json!({"additionalProperties": {"type": "integer"}}),
        "spec.a{}: type \"string\" in place of \"integer\"")]
    fn one_difference(#[case] theirs: Value, #[case] ours: Value, #[case] expected: &str) {
        assert_eq!(between(&theirs, &ours), [expected]);
    }

    #[rstest]
    #[case::order(json!({"enum": ["a", "b"], "required": ["x", "y"]}), json!({"enum": ["b", "a"], "required": ["y", "x"]}))]
    #[case::numbers(json!({"minimum": 1}), json!({"minimum": 1.0}))]
    #[case::of_texts_only(json!({"type": "array", "maxLength": 63}), json!({"type": "array"}))]
    #[case::nothing_said(json!({"nullable": false}), json!({}))]
    #[case::texts(json!({"description": "one"}), json!({"description": "other"}))]
    #[case::lists_in_rules(json!({RULES: [{"rule": "self in [\"a\",\"b\"]"}]}), json!({RULES: [{"rule": "self in [\"b\", \"a\"]"}]}))]
    #[case::other_fields(json!({"properties": {"x": {"type": "string"}}}), json!({"properties": {"y": {"type": "string"}}}))]
    fn no_difference(#[case] theirs: Value, #[case] ours: Value) {
        assert_eq!(between(&theirs, &ours), [""; 0]);
    }
}
