//! What to write where an object breaks the definition of its kind: one rule for what `plan` leaves out and what `lint` reports.

use std::borrow::Cow;

use fleetwright_core::{model::Quantity, suggest};
use fleetwright_kube_schema::{FieldError, FieldErrorKind, Structural};
use serde_json::Value;

use super::invalid::{Invalid, one_of};

/// Words for the units of durations, and how many of Go's units one is.
const UNITS: [(&str, u64, &str); 20] = [
    ("", 1, "s"),
    ("s", 1, "s"),
    ("sec", 1, "s"),
    ("secs", 1, "s"),
    ("second", 1, "s"),
    ("seconds", 1, "s"),
    ("m", 1, "m"),
    ("min", 1, "m"),
    ("mins", 1, "m"),
    ("minute", 1, "m"),
    ("minutes", 1, "m"),
    ("h", 1, "h"),
    ("hr", 1, "h"),
    ("hrs", 1, "h"),
    ("hour", 1, "h"),
    ("hours", 1, "h"),
    ("d", 24, "h"),
    ("day", 24, "h"),
    ("days", 24, "h"),
    ("w", 168, "h"),
];

/// A definition of a kind, offline.
pub(crate) struct Definition {
    schema: Structural,
    /// As it was parsed, for the names and forms of its fields.
    written: Value,
}

impl Definition {
    /// Parses an OpenAPI schema.
    ///
    /// # Errors
    /// If it is not structural.
    pub(crate) fn parse(written: Value) -> anyhow::Result<Self> {
        Ok(Self { schema: Structural::parse(&written)?, written })
    }

    /// The fields of an object that the definition does not have, each with what to do. `others` are kinds beside it that may have them.
    pub(crate) fn unknown_fields(&self, value: &Value, others: &[(&str, &Self)]) -> Vec<(String, String)> {
        let fix = |path: &str| {
            let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
            let known = node(&self.written, parent)["properties"].as_object();
            match suggest::nearest(name, known.into_iter().flatten().map(|(key, _)| key.as_str())) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => elsewhere(&self.written, name, "")
                    .or_else(|| others.iter().find_map(|(kind, other)| other.place_of(name, kind)))
                    .map_or_else(|| "remove it".to_owned(), |place| format!("the field belongs to {place}")),
            }
        };
        let paths = self.schema.unknown_fields(value);
        paths.into_iter().map(|path| (path.to_string(), fix(&path))).collect()
    }

    /// Where objects of the definition have a field that another kind lacks.
    fn place_of(&self, name: &str, kind: &str) -> Option<String> {
        let has = |path: &&&str| node(&self.written, path)["properties"][name].is_object();
        ["spec", "spec.template.spec"].iter().find(has).map(|path| format!("{path} of {kind}"))
    }

    /// Prunes nulls and applies defaults as the API server does. Returns why the API server would refuse the object.
    pub(crate) fn admit(&self, value: &mut Value) -> Vec<Invalid> {
        self.schema.prune_nulls(value);
        self.schema.default(value);
        self.refused(value)
    }

    /// Why the API server would refuse an object of the definition, without the fields that it does not have.
    pub(crate) fn problems(&self, value: &Value) -> Vec<Invalid> {
        let mut value = value.clone();
        self.schema.prune(&mut value);
        self.admit(&mut value)
    }

    fn refused(&self, value: &Value) -> Vec<Invalid> {
        let errors = self.schema.validate(value, None);
        // Without a path, the API server says that CEL rules wait for the other errors.
        let named = errors.iter().filter(|error| error.path != "<nil>");
        let invalid = |error: &FieldError| Invalid {
            path: error.path.clone(),
            message: error.message.clone(),
            fix: fix(error, node(&self.written, &error.path), at(value, &error.path)),
        };
        named.map(invalid).collect()
    }
}

/// The parts of a path: names, and indices or keys in brackets.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).filter(|part| !part.is_empty())
}

/// The part of a definition at a path such as `spec.template.spec`. A key of a map with dots is one of its values.
fn node<'a>(definition: &'a Value, path: &str) -> &'a Value {
    steps(path).fold(definition, |at, part| {
        let (items, values) = (&at["items"], &at["additionalProperties"]);
        match part.strip_suffix(']') {
            Some(_) if items.is_object() => items,
            None if at["properties"][part].is_object() => &at["properties"][part],
            _ if values.is_object() => values,
            // The rest of a key with dots.
            _ if !at["properties"].is_object() => at,
            _ => &Value::Null,
        }
    })
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    steps(path).fold(value, |at, part| {
        let part = part.strip_suffix(']').unwrap_or(part);
        part.parse::<usize>().ok().filter(|_| at.is_array()).map_or(&at[part], |index| &at[index])
    })
}

/// The place in a definition where a field of this name is.
fn elsewhere(at: &Value, name: &str, path: &str) -> Option<String> {
    let members = at["properties"].as_object()?;
    let here = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if members.contains_key(name) {
        return Some(if path.is_empty() { "the object".to_owned() } else { path.to_owned() });
    }
    let members = members.iter().filter(|(key, _)| *key != "status");
    members.into_iter().find_map(|(key, member)| elsewhere(member, name, &here(key)))
}

/// What to write at a field.
fn fix(error: &FieldError, form: &Value, written: &Value) -> Cow<'static, str> {
    let text = written.as_str().unwrap_or_default();
    let choices: Vec<&str> =
        form["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_required = error.kind == FieldErrorKind::Required;
    if !choices.is_empty() && (is_required || error.kind == FieldErrorKind::NotSupported) {
        return one_of(text, &choices).into();
    }
    if error.kind == FieldErrorKind::TypeInvalid {
        let of_number = || of_pattern(form["pattern"].as_str()?, &written.as_u64()?.to_string());
        return of_number().map_or_else(|| of_type(form).into(), Into::into);
    }
    if let Some(fix) = form["pattern"].as_str().and_then(|pattern| of_pattern(pattern, text)) {
        return fix.into();
    }
    if let (Some(least), Some(most)) = (form["minimum"].as_f64(), form["maximum"].as_f64()) {
        return format!("write a number from {least} to {most}").into();
    }
    match error.kind {
        FieldErrorKind::Required => "add the field".into(),
        FieldErrorKind::Duplicate => "remove one of them".into(),
        FieldErrorKind::TooMany => "remove some of them".into(),
        FieldErrorKind::TooLong => "shorten it".into(),
        FieldErrorKind::Forbidden => "remove it".into(),
        _ => of_rule(&error.message).into(),
    }
}

fn of_type(form: &Value) -> &'static str {
    match form["type"].as_str() {
        Some("string") => "put it in quotes",
        Some("integer" | "number") => "write a number without quotes",
        Some("boolean") => "write true or false, without quotes",
        Some("array") => "write a list",
        Some("object") => "write a map",
        _ if form["x-kubernetes-int-or-string"] == true => "write a number or a quantity",
        _ => "write a value of that type",
    }
}

/// What a pattern of the definitions asks for.
fn of_pattern(pattern: &str, text: &str) -> Option<String> {
    let never = if pattern.contains("Never") { ", or Never" } else { "" };
    if pattern.contains("(s|m|h)") || pattern.contains("(h|m)") {
        let example = format!("write hours, minutes and seconds such as 30m or 1h30m{never}");
        if !never.is_empty() && suggest::nearest(text, ["Never"]).is_some() {
            return Some("write Never".to_owned());
        }
        return Some(meant_duration(text).map_or(example, |meant| format!("write {meant}")));
    }
    if pattern.contains("[KMGTPE]i") {
        return text.parse::<Quantity>().err().map(|error| error.fix());
    }
    if pattern.contains("@hourly") || pattern.contains("@daily") {
        return Some(
            "write the five fields of a cron schedule such as \"0 9 * * mon-fri\", or @daily".to_owned(),
        );
    }
    if pattern.contains("-100%") {
        return Some("write a change of the price such as -30%, +5% or -0.05".to_owned());
    }
    pattern
        .contains("{1,2})%")
        .then(|| "write a number of nodes such as 5, or a percentage from 0% to 100%".to_owned())
}

/// The duration that a text probably means, in Go's units: `30 days` is `720h`.
fn meant_duration(text: &str) -> Option<String> {
    let plain: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let mut rest = plain.as_str();
    let mut meant = String::new();
    while !rest.is_empty() {
        let (digits, after) =
            rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len()));
        let (unit, after) =
            after.split_at(after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len()));
        let unit = unit.to_ascii_lowercase();
        let (_, count, letter) = UNITS.iter().find(|(known, ..)| *known == unit)?;
        meant.push_str(&format!("{}{letter}", digits.parse::<u64>().ok()?.checked_mul(*count)?));
        rest = after;
    }
    (!meant.is_empty() && meant != text).then_some(meant)
}

/// What to do about a CEL rule. Its message says what has to hold.
fn of_rule(message: &str) -> &'static str {
    if message.contains("on static NodePools") {
        "remove it, or remove spec.replicas"
    } else if message.contains("resource restricted") {
        "remove cpu, memory, ephemeral-storage and pods"
    } else if message.contains("is restricted") {
        "remove it: the controller sets it on its nodes, or nobody may"
    } else if message.contains("immutable") {
        "create another object with the new value"
    } else if message.contains("must have a value defined") {
        "give a value, or use the operator Exists or DoesNotExist"
    } else if message.contains("'schedule' must be set with 'duration'") {
        "give both schedule and duration, or neither"
    } else if message.contains("mutually exclusive") || message.contains("cannot set both") {
        "remove one of them"
    } else {
        "change the object so that the rule holds"
    }
}

#[cfg(test)]
mod tests {
    //! What is proposed.
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn definition() -> Definition {
        Definition::parse(json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {
                "after": {"type": "string", "pattern": "^(([0-9]+(s|m|h))+|Never)$"},
                "exactly": {"type": "string", "pattern": "^([0-9]+(s|m|h))+$"},
                "nodes": {"type": "string", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$"},
                "limits": {"type": "object", "additionalProperties": {
                    "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
                    "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
                }},
                "taints": {"type": "array", "items": {"type": "object", "required": ["effect"], "properties": {
                    "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
                }}},
                "weight": {"type": "integer", "minimum": 1, "maximum": 100},
            },
        }}}))
        .unwrap()
    }

    #[rstest]
    #[case::days(json!({"after": "30 days"}), "spec.after", "write 720h")]
    #[case::no_unit(json!({"exactly": "30"}), "spec.exactly", "write 30s")]
    #[case::a_number_of_seconds(json!({"exactly": 30}), "spec.exactly", "write 30s")]
    #[case::minutes(json!({"exactly": "1h 30min"}), "spec.exactly", "write 1h30m")]
    #[case::never(json!({"after": "never"}), "spec.after", "write Never")]
    #[case::no_duration(json!({"after": "soon"}), "spec.after", "write hours, minutes and seconds such as 30m or 1h30m, or Never")]
    #[case::no_duration_nor_never(json!({"exactly": "soon"}), "spec.exactly", "write hours, minutes and seconds such as 30m or 1h30m")]
    #[case::a_percentage(json!({"nodes": "120%"}), "spec.nodes", "write a number of nodes such as 5, or a percentage from 0% to 100%")]
    #[case::an_amount(json!({"limits": {"cpu": "10 cores"}}), "spec.limits.cpu", "write 10")]
    #[case::an_amount_of_a_name_with_dots(json!({"limits": {"nvidia.com/gpu": "10 or so"}}), "spec.limits.nvidia.com/gpu", "write a number with an optional suffix such as 100m, 1.5, 2Gi or 1e3")]
    #[case::no_effect(json!({"taints": [{}]}), "spec.taints[0].effect", "write one of NoSchedule, PreferNoSchedule or NoExecute")]
    #[case::another_effect(json!({"taints": [{"effect": "noSchedule"}]}), "spec.taints[0].effect", "write NoSchedule")]
    #[case::a_text(json!({"weight": "10"}), "spec.weight", "write a number without quotes")]
    #[case::too_much(json!({"weight": 101}), "spec.weight", "write a number from 1 to 100")]
    #[case::a_number(json!({"after": true}), "spec.after", "put it in quotes")]
    fn what_to_write(#[case] spec: Value, #[case] path: &str, #[case] expected: &str) {
        let found = definition().problems(&json!({ "spec": spec }));
        let [invalid] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((invalid.path.as_str(), &*invalid.fix), (path, expected));
    }
}
