//! Validates what the kubelet would reject or ignore, before a node is launched: the CRD accepts any object.

use std::collections::BTreeMap;
use std::fmt;

use fleetwright_api::duration;
use serde_json::Value;

use super::KubeletConfig;
use super::fields::{FieldType, field_type};

/// A problem with one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The field below `spec.kubelet`; empty for the block as a whole.
    pub field: String,
    /// The problem and how to fix it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.field.is_empty() { "" } else { "." };
        write!(f, "spec.kubelet{dot}{}: {}", self.field, self.message)
    }
}

const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Returns all problems of a kubelet block, in the order of its fields. Expressions are valid here; they are checked when they are
/// evaluated.
#[must_use]
pub fn validate(config: &KubeletConfig) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (field, value) in &config.0 {
        let mut say = |path: &str, message: String| {
            problems.push(Problem { field: path.to_owned(), message });
        };
        // An expression is allowed in place of a number.
        if field == "maxPods" && value.is_string() {
            continue;
        }
        match field_type(field) {
            Some(field_type) => check(field_type, value, field, &mut say),
            None => {
                say(field, "is not a field of KubeletConfiguration: remove it, or fix its name".to_owned())
            }
        }
    }
    semantics(config, &mut problems);
    // Kubernetes reads a null within a list or a map as an absent value.
    if problems.is_empty()
        && let Err(error) = config.parse()
    {
        let message = format!("{}: a null within a list or a map is not a value", error.0);
        problems.push(Problem { field: String::new(), message });
    }
    problems
}

type Say<'a> = &'a mut dyn FnMut(&str, String);

/// Checks that a value has its field's type.
fn check(field_type: FieldType, value: &Value, path: &str, say: Say<'_>) {
    let wanted = match (field_type, value) {
        (_, Value::Null) | (FieldType::Any, _) => return,
        (FieldType::Boolean, Value::Bool(_))
        | (FieldType::Float, Value::Number(_))
        | (FieldType::Text, Value::String(_)) => {
            return;
        }
        (FieldType::Int32, value) if value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => {
            return;
        }
        (FieldType::Int64, value) if value.is_i64() => return,
        (FieldType::Duration, Value::String(text)) if duration::parse(text).is_ok() => return,
        (FieldType::List(item), Value::Array(items)) => {
            for (at, value) in items.iter().enumerate() {
                check(*item, value, &format!("{path}[{at}]"), say);
            }
            return;
        }
        (FieldType::Map(item), Value::Object(map)) => {
            for (key, value) in map {
                check(*item, value, &format!("{path}[{key}]"), say);
            }
            return;
        }
        (FieldType::Object(fields), Value::Object(map)) => {
            for (key, value) in map {
                let path = format!("{path}.{key}");
                match fields.iter().find(|(name, _)| name == key) {
                    Some((_, field_type)) => check(*field_type, value, &path, say),
                    None => say(
                        &path,
                        "is not a field of KubeletConfiguration: remove it, or fix its name".to_owned(),
                    ),
                }
            }
            return;
        }
        (FieldType::Boolean, _) => "true or false",
        (FieldType::Int32, _) => "a whole number of 32 bits",
        (FieldType::Int64, _) => "a whole number",
        (FieldType::Float, _) => "a number",
        (FieldType::Text, _) => "a string",
        (FieldType::Duration, _) => "a duration such as 30s",
        (FieldType::List(_), _) => "a list",
        (FieldType::Map(_) | FieldType::Object(_), _) => "an object",
    };
    say(path, format!("must be {wanted}"));
}

/// Checks beyond the types of Kubernetes.
fn semantics(config: &KubeletConfig, problems: &mut Vec<Problem>) {
    let mut say =
        |field: String, message: &str| problems.push(Problem { field, message: message.to_owned() });
    if config.0.contains_key("registerWithTaints") {
        say(
            "registerWithTaints".to_owned(),
            "cannot be set: the NodeClaim's taints are used, so that nothing is scheduled before the node is ready",
        );
    }
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"] {
        for (signal, value) in texts(config, field) {
            let at = format!("{field}[{signal}]");
            if !SIGNALS.contains(&signal) {
                say(at.clone(), &format!("is not an eviction signal: use one of {}", SIGNALS.join(", ")));
            }
            let flaw =
                if field == "evictionSoftGracePeriod" { grace_flaw(value) } else { threshold_flaw(value) };
            if let Some(flaw) = flaw {
                say(at, flaw);
            }
        }
    }
    let (soft, grace) = (texts(config, "evictionSoft"), texts(config, "evictionSoftGracePeriod"));
    for signal in soft.keys().filter(|signal| !grace.contains_key(*signal)) {
        say(format!("evictionSoft[{signal}]"), "has no matching evictionSoftGracePeriod: add one");
    }
    for signal in grace.keys().filter(|signal| !soft.contains_key(*signal)) {
        say(format!("evictionSoftGracePeriod[{signal}]"), "has no matching evictionSoft: add one");
    }
    for field in ["kubeReserved", "systemReserved"] {
        for (resource, value) in texts(config, field) {
            let at = format!("{field}[{resource}]");
            if !RESERVABLE.contains(&resource) {
                say(at.clone(), &format!("cannot be reserved: use one of {}", RESERVABLE.join(", ")));
            }
            if value.starts_with('-') {
                say(at, "must not be negative");
            }
        }
    }
    for field in ["podsPerCore", "evictionMaxPodGracePeriod", "maxPods"] {
        if int(config, field).is_some_and(|number| number < 0) {
            say(field.to_owned(), "must not be negative");
        }
    }
    let percents = ["imageGCHighThresholdPercent", "imageGCLowThresholdPercent"];
    for field in percents {
        if int(config, field).is_some_and(|number| !(0..=100).contains(&number)) {
            say(field.to_owned(), "must be between 0 and 100");
        }
    }
    if let [Some(high), Some(low)] = percents.map(|field| int(config, field))
        && high <= low
    {
        say(percents[0].to_owned(), "must be greater than imageGCLowThresholdPercent");
    }
}

/// A field that maps strings to strings; empty if it has another type, which is reported elsewhere.
fn texts<'a>(config: &'a KubeletConfig, field: &str) -> BTreeMap<&'a str, &'a str> {
    let map = config.0.get(field).and_then(Value::as_object);
    let entries = map.into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

fn int(config: &KubeletConfig, field: &str) -> Option<i64> {
    config.0.get(field).and_then(Value::as_i64)
}

fn grace_flaw(value: &str) -> Option<&'static str> {
    match duration::parse(value) {
        Err(_) => Some("must be a duration such as 1m30s"),
        Ok(duration) if duration.is_negative() => Some("must not be negative"),
        Ok(_) => None,
    }
}

/// A threshold is a percentage from 0 to 100, or a quantity of at least zero.
fn threshold_flaw(value: &str) -> Option<&'static str> {
    const NEITHER: &str = "must be a percentage from 0% to 100%, or a quantity such as 500Mi";
    if let Some(percent) = value.strip_suffix('%') {
        let number: Option<f64> = percent.parse().ok();
        return number.is_none_or(|number| !(0.0..=100.0).contains(&number)).then_some(NEITHER);
    }
    match value.strip_prefix('-') {
        Some(rest) if is_quantity(rest) => Some("must not be negative"),
        _ if is_quantity(value) => None,
        _ => Some(NEITHER),
    }
}

/// Whether a text is a Kubernetes quantity.
fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let digits = number.chars().filter(char::is_ascii_digit).count();
    let number_holds = digits > 0 && number.len() - digits <= 1;
    let known = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let exponent = suffix.strip_prefix(['e', 'E']).filter(|rest| !rest.is_empty());
    number_holds
        && (known.contains(&suffix) || exponent.is_some_and(|exponent| exponent.parse::<i16>().is_ok()))
}
