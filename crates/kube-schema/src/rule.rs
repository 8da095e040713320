//! A compiled rule in CEL.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use kube_cel::cel::Program;
use regex::Regex;
use serde_json::Value;

use super::{FieldErrorKind, SchemaError};

/// The maximum number and length of accepted strings that a rule caches.
const MAX_REMEMBERED: usize = 1024;
const MAX_REMEMBERED_LENGTH: usize = 256;

/// One compiled rule.
pub(super) struct Rule {
    pub(super) program: Program,
    /// The text in errors: the rule's message, else its source.
    pub(super) name: String,
    pub(super) message: Option<String>,
    pub(super) message_program: Option<Program>,
    /// The path of the field in errors, relative to the value.
    pub(super) field_path: Vec<String>,
    pub(super) reason: FieldErrorKind,
    pub(super) optional_old_self: bool,
    pub(super) uses_old_self: bool,
    /// The first field on which a method is called, as `values` in `x.values.size()`: the interpreter does not report
    /// which field is missing.
    pub(super) receiver: Option<String>,
    /// Whether the rule only forbids changes of the value.
    pub(super) immutable: bool,
    /// Strings that were accepted. The same keys and names occur in many objects, and each evaluation compiles the
    /// patterns of `find` and `matches`.
    accepted: Mutex<HashSet<String>>,
}

impl Rule {
    /// Compiles one entry of `x-kubernetes-validations`.
    pub(super) fn parse(rule: &Value, path: &str) -> Result<Self, SchemaError> {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).map(str::trim).filter(|s| !s.is_empty());
        let source = text("rule").ok_or_else(|| SchemaError::Keyword {
            path: path.to_owned(),
            keyword: "x-kubernetes-validations",
            expected: "a list of objects with a rule",
        })?;
        let message = text("message").map(str::to_owned);
        let program = compile(source, path)?;
        let uses_old_self = program.references().has_variable("oldSelf");
        Ok(Self {
            program,
            name: message.clone().unwrap_or_else(|| source.to_owned()),
            message,
            message_program: text("messageExpression").map(|source| compile(source, path)).transpose()?,
            field_path: text("fieldPath").map(steps).unwrap_or_default(),
            reason: match text("reason") {
                Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
                Some("FieldValueRequired") => FieldErrorKind::Required,
                Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
                _ => FieldErrorKind::Invalid,
            },
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
            uses_old_self,
            receiver: receiver(source),
            immutable: matches!(source, "self == oldSelf" | "oldSelf == self"),
            accepted: Mutex::default(),
        })
    }

    /// Whether a string was accepted before; the result of the rule depends on the string only.
    pub(super) fn has_accepted(&self, value: &Value) -> bool {
        let accepted = || self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        !self.uses_old_self && value.as_str().is_some_and(|text| accepted().contains(text))
    }

    pub(super) fn remember(&self, value: &Value) {
        let Some(text) = value.as_str().filter(|text| text.len() <= MAX_REMEMBERED_LENGTH) else { return };
        if self.uses_old_self {
            return;
        }
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if accepted.len() >= MAX_REMEMBERED {
            accepted.clear();
        }
        accepted.insert(text.to_owned());
    }
}

fn compile(source: &str, path: &str) -> Result<Program, SchemaError> {
    Program::compile(source).map_err(|error| SchemaError::Rule {
        path: path.to_owned(),
        rule: source.to_owned(),
        detail: error.to_string(),
    })
}

/// Returns `field` of the first `.field.method(` in an expression.
fn receiver(source: &str) -> Option<String> {
    let call = Regex::new(r"\.([A-Za-z_][A-Za-z0-9_]*)\.[A-Za-z]+\(").ok()?;
    Some(call.captures(source)?.get(1)?.as_str().to_owned())
}

/// The steps of a path such as `.a['b.c'].d`.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix("['") {
            Some(quoted) => quoted.split_once("']").unwrap_or((quoted, "")),
            None => {
                let plain = rest.strip_prefix('.').unwrap_or(rest);
                plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
            }
        };
        steps.push(step.to_owned());
        rest = after;
    }
    steps
}
