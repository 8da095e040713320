//! Validation of NodePools and requirements at run time: names, label values, restricted labels, taints.
//!
//! The rules and messages are Karpenter's. Rules of the CRD are checked again, because an older CRD may have admitted the object.

use std::{collections::BTreeSet, fmt};

use fleetwright_api as api;
use fleetwright_core::model::{LabelSchema, Operator, Str, labels};

use crate::lower;

/// The problems of an object, each with its field or key and the fix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    /// Nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `Ok` if nothing is wrong.
    ///
    /// # Errors
    /// The problems.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

/// All problems, joined by semicolons.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Problems {}

/// Checks a NodePool.
///
/// # Errors
/// All problems that were found.
pub fn pool(pool: &api::NodePool, schema: &LabelSchema) -> Result<(), Problems> {
    let mut problems = Problems::default();
    let template = &pool.spec.template;
    for (key, value) in template.metadata.labels.iter().flatten() {
        label(key, value, schema, &mut problems);
    }
    let mut seen = BTreeSet::new();
    taints(template.spec.taints.as_ref(), "taints", &mut seen, &mut problems);
    taints(template.spec.startup_taints.as_ref(), "startupTaints", &mut seen, &mut problems);
    for wanted in &template.spec.requirements {
        requirement(wanted, schema, &mut problems);
        if wanted.key == labels::NODEPOOL {
            problems.add(format!("invalid key: {:?} in requirements, restricted", wanted.key));
        }
    }
    // Invalid quantities and other values.
    if problems.is_empty()
        && let Err(invalid) = lower::pool::pool(pool, schema)
    {
        problems.add(invalid.to_string());
    }
    problems.into_result()
}

/// Checks a NodeOverlay.
///
/// # Errors
/// All problems that were found.
pub fn overlay(overlay: &api::NodeOverlay, schema: &LabelSchema) -> Result<(), Problems> {
    let mut problems = Problems::default();
    let spec = &overlay.spec;
    for wanted in &spec.requirements {
        requirement(&lower::overlay::as_requirement(wanted), schema, &mut problems);
        if wanted.operator.as_str() == "NotIn" && wanted.values.is_empty() {
            problems.add(format!("key {} with operator NotIn must have a value defined", wanted.key));
        }
    }
    if spec.price.is_some() && spec.price_adjustment.is_some() {
        problems.add("cannot set both 'price' and 'priceAdjustment': choose one");
    }
    for name in spec.capacity.iter().flatten().map(|(name, _)| name) {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage" | "pods") {
            problems.add(format!("invalid capacity {name}: only extended resources can be overlaid"));
        } else if let Some(why) = not_qualified(name) {
            problems.add(format!("invalid capacity {name}, {why}"));
        }
    }
    if problems.is_empty()
        && let Err(invalid) = lower::overlay::overlay(overlay, schema)
    {
        problems.add(invalid.to_string());
    }
    problems.into_result()
}

/// Checks one requirement, of a NodePool, a NodeOverlay or a pod.
///
/// # Errors
/// All problems that were found.
pub fn one_requirement(wanted: &api::Requirement, schema: &LabelSchema) -> Result<(), Problems> {
    let mut problems = Problems::default();
    requirement(wanted, schema, &mut problems);
    problems.into_result()
}

fn label(key: &str, value: &str, schema: &LabelSchema, problems: &mut Problems) {
    if key == labels::NODEPOOL {
        problems.add(format!("invalid key name {key:?} in labels, restricted"));
    }
    if let Some(why) = not_qualified(key) {
        problems.add(format!("invalid key name {key:?} in labels, {why:?}"));
    }
    if let Some(why) = not_a_value(value) {
        problems.add(format!("invalid value: {value} for label[{key}], {why}"));
    }
    if let Some(why) = schema.restriction(key) {
        problems.add(format!("invalid key name {key:?} in labels, {why}"));
    }
}

fn taints(
    list: Option<&Vec<api::Taint>>,
    field: &str,
    seen: &mut BTreeSet<(String, String)>,
    problems: &mut Problems,
) {
    for (at, taint) in list.into_iter().flatten().enumerate() {
        let mut invalid = |why: &str| problems.add(format!("invalid value: {why}: {field}[{at}]"));
        if let Some(why) = not_qualified(&taint.key) {
            invalid(why);
        }
        if !taint.value.is_empty()
            && let Some(why) = not_qualified(&taint.value)
        {
            invalid(why);
        }
        let effect = taint.effect.as_str();
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute" | "") {
            invalid(effect);
        }
        if !seen.insert((taint.key.clone(), effect.to_owned())) {
            problems.add(format!("duplicate taint Key/Effect pair {}={effect}: {field}[{at}]", taint.key));
        }
    }
}

fn requirement(wanted: &api::Requirement, schema: &LabelSchema, problems: &mut Problems) {
    let key = schema.normalize(&wanted.key);
    let operator = wanted.operator.as_str();
    let known = Operator::parse(operator);
    if known.is_none() {
        problems.add(format!(
            "key {key} has an unsupported operator {operator} not in [In NotIn Exists DoesNotExist Gt Lt Gte Lte]"
        ));
    }
    if let Some(why) = schema.restriction(key) {
        problems.add(why);
    }
    if let Some(why) = not_qualified(key) {
        problems.add(format!("key {key} is not a qualified name, {why}"));
    }
    for value in &wanted.values {
        if let Some(why) = not_a_value(value) {
            problems.add(format!("invalid value {value} for key {key}, {why}"));
        }
    }
    let min_values = wanted.min_values.and_then(|min| usize::try_from(min).ok()).unwrap_or(1).max(1);
    match known {
        Some(Operator::In) if wanted.values.is_empty() => {
            problems.add(format!("key {key} with operator {operator} must have a value defined"));
        }
        Some(Operator::In) if wanted.values.len() < min_values => problems.add(format!(
            "key {key} with operator {operator} must have at least minimum number of values defined in 'values' field"
        )),
        Some(Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte) => {
            let number = wanted.values.first().and_then(|value| value.parse::<i64>().ok());
            if wanted.values.len() != 1 || number.is_none_or(|number| number < 0) {
                problems.add(format!(
                    "key {key} with operator {operator} must have a single positive integer value"
                ));
            }
        }
        _ => {}
    }
    if let Some(existing) = schema.known_values.get(key)
        && known == Some(Operator::In)
        && !wanted.values.is_empty()
    {
        known_values(key, (&wanted.values, existing), min_values, problems);
    }
}

/// Invalid values are harmless while enough others are left.
fn known_values(key: &str, (values, known): (&[String], &[Str]), min_values: usize, problems: &mut Problems) {
    let valid = values.iter().filter(|value| known.iter().any(|one| **one == ***value)).count();
    if valid < min_values {
        problems.add(format!(
            "key {key} has {valid} valid values of [{}], at least {} needed: use {}",
            values.join(" "),
            min_values,
            known.iter().map(|one| &**one).collect::<Vec<_>>().join(", ")
        ));
    }
}

/// What is wrong with a label key or taint value: an optional DNS subdomain and a slash before a name.
#[must_use]
pub fn not_qualified(text: &str) -> Option<&'static str> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.contains('/') {
        return Some(
            "a qualified name must consist of a name with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        );
    }
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("prefix part must be non-empty");
        }
        let label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if prefix.len() > 253 || !prefix.split('.').all(label) {
            return Some(
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            );
        }
    }
    if name.is_empty() {
        return Some("name part must be non-empty");
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes");
    }
    (!is_name(name)).then_some(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    )
}

/// What is wrong with a label's value: empty, or a name.
#[must_use]
pub fn not_a_value(value: &str) -> Option<&'static str> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes");
    }
    (!value.is_empty() && !is_name(value)).then_some(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    )
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests;
