//! Validation of strings and numbers.

use serde_json::{Number, Value};

use super::Outcome;
use crate::error::ShownValue;
use crate::node::Node;
use crate::{FieldError, FieldErrorKind, gotext};

/// Checks length, pattern and format. Of length and pattern only the first failure is reported; that of the format always.
pub(super) fn string(node: &Node, path: &str, text: &str, outcome: &mut Outcome) {
    let limits = &node.limits;
    let value = ShownValue::Text(text);
    let length =
        if limits.max_length.is_some() || limits.min_length.is_some() { text.chars().count() } else { 0 };
    if let Some(max) = limits.max_length.filter(|max| length > *max) {
        outcome.errors.push(FieldError::too_long(path, max));
    } else if let Some(min) = limits.min_length.filter(|min| length < *min) {
        outcome.invalid(path, value, &format!("{path} in body should be at least {min} chars long"));
    } else if let Some((source, _)) = limits.pattern.as_ref().filter(|(_, regex)| !regex.is_match(text)) {
        outcome.invalid(path, value, &format!("{path} in body should match '{source}'"));
    }
    outcome.matched += 1;
    if let Some(format) = &node.format {
        if !format.accepts(text) {
            let detail = format!("{path} in body must be of type {}: {}", format.name, gotext::quote(text));
            let kind = FieldErrorKind::TypeInvalid;
            outcome.errors.push(FieldError::new(path, kind, ShownValue::Text(text), &detail));
        }
        outcome.matched += 1;
    }
}

/// Checks multiples and bounds. Bounds of integers are truncated, as in the server.
pub(super) fn number(node: &Node, path: &str, number: &Number, outcome: &mut Outcome) {
    let limits = &node.limits;
    let value = Value::Number(number.clone());
    let mut refuse = |relation: &str, bound: String| {
        outcome.invalid(
            path,
            ShownValue::Value(&value),
            &format!("{path} in body should be {relation} {bound}"),
        );
    };
    if let Some(factor) = limits.multiple_of.filter(|factor| !is_multiple(number, *factor)) {
        refuse("a multiple of", gotext::float(factor));
    }
    if let Some(min) = limits.minimum.map(|min| cut(number, min)) {
        let below = number.as_f64().is_some_and(|n| n < min || (limits.exclusive_minimum && n <= min));
        let relation = if limits.exclusive_minimum { "greater than" } else { "greater than or equal to" };
        if below {
            refuse(relation, gotext::float(min));
        }
    }
    if let Some(max) = limits.maximum.map(|max| cut(number, max)) {
        let above = number.as_f64().is_some_and(|n| n > max || (limits.exclusive_maximum && n >= max));
        let relation = if limits.exclusive_maximum { "less than" } else { "less than or equal to" };
        if above {
            refuse(relation, gotext::float(max));
        }
    }
    outcome.matched += 2;
}

fn cut(number: &Number, bound: f64) -> f64 {
    if number.is_i64() { bound.trunc() } else { bound }
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    let factor = cut(number, factor);
    factor > 0.0 && number.as_f64().is_some_and(|n| (n / factor).fract() == 0.0)
}

/// Whether a float has no fractional part, and so counts as an integer.
pub(super) fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Whether a value equals a member of an enumeration; `1` equals `1.0`.
pub(super) fn equal(allowed: &Value, value: &Value) -> bool {
    match (allowed, value) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => allowed == value,
    }
}
