//! Rules in CEL (`x-kubernetes-validations`): compiled with the schema, evaluated after all other checks have passed.
//!
//! A rule without `oldSelf` is not evaluated for a value that an update leaves unchanged: the server
//! ignores its errors. (The server does report an evaluation error, which requires a value that another
//! version of the schema admitted.)

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use super::cel_value::Converter;
use super::error::ShownValue;
use super::node::{Additional, JsonType, ListType, Node};
use super::rule::Rule;
use super::{FieldError, FieldErrorKind};

/// The maximum length of the result of a message expression, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// A path below a node in the form of messages: fields after dots, keys of maps in brackets.
fn shown_below(node: &Node, steps: &[String]) -> String {
    let mut path = String::new();
    let mut at = Some(node);
    for step in steps {
        let declared = at.is_none_or(|node| node.properties.contains_key(step));
        path.push_str(&if declared { format!(".{step}") } else { format!("[{step}]") });
        at = at.and_then(|node| node.field(step));
    }
    path
}

/// Evaluates rules. It keeps the functions that rules may call, because their registration is slow.
pub(crate) struct Evaluator {
    functions: Context<'static>,
    converter: Converter,
}

/// The value that an update replaces, and whether both are equal.
#[derive(Clone, Copy)]
struct Before<'a> {
    value: Option<&'a Value>,
    unchanged: bool,
}

impl Evaluator {
    pub(crate) fn new() -> Self {
        let functions = Context::default().with_all();
        Self { functions, converter: Converter::new() }
    }

    /// Evaluates all rules of a schema for an object that is otherwise valid.
    pub(crate) fn run(&self, root: &Node, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        self.walk(root, "", new, Before { value: old, unchanged: false }, errors);
    }

    fn walk(&self, node: &Node, path: &str, new: &Value, before: Before<'_>, errors: &mut Vec<FieldError>) {
        // Rules apply to values only: the null of a nullable field is left to the rules of its parent.
        if !node.rules_within || new.is_null() {
            return;
        }
        let old = before.value.filter(|old| !old.is_null());
        let unchanged = before.unchanged || old.is_some_and(|old| node.unchanged(new, old));
        if !node.rules.is_empty() {
            self.rules(node, path, new, Before { value: old, unchanged }, errors);
        }
        for branch in node.all_of.iter().filter(|branch| branch.rules_within) {
            self.walk(branch, path, new, Before { value: old, unchanged: before.unchanged }, errors);
        }
        match new {
            Value::Array(items) => {
                let Some(schema) = &node.items else { return };
                let old = old.and_then(Value::as_array).filter(|_| node.list_type == Some(ListType::Map));
                for (index, item) in items.iter().enumerate() {
                    let value = old.and_then(|old| node.same_entry(item, old));
                    self.walk(schema, &format!("{path}[{index}]"), item, Before { value, unchanged }, errors);
                }
            }
            Value::Object(map) => {
                if let Additional::Schema(schema) = &node.additional {
                    for (key, item) in map {
                        let value = old.and_then(|old| old.get(key));
                        self.walk(
                            schema,
                            &format!("{path}[{key}]"),
                            item,
                            Before { value, unchanged },
                            errors,
                        );
                    }
                }
                for (name, property) in node.properties.iter().filter(|(_, property)| property.rules_within) {
                    let Some(item) = map.get(name) else { continue };
                    let value = old.and_then(|old| old.get(name));
                    let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.walk(property, &at, item, Before { value, unchanged }, errors);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rules(&self, node: &Node, path: &str, new: &Value, before: Before<'_>, errors: &mut Vec<FieldError>) {
        let due = |rule: &&Rule| {
            if rule.uses_old_self {
                let trivial = rule.immutable && before.unchanged;
                !trivial && (before.value.is_some() || rule.optional_old_self)
            } else {
                !before.unchanged && !rule.has_accepted(new)
            }
        };
        let mut due = node.rules.iter().filter(due).peekable();
        if due.peek().is_none() {
            return;
        }
        let mut scope = self.functions.new_inner_scope();
        scope.add_variable_from_value("self", self.converter.convert(Some(node), new));
        let old = before.value.map(|old| self.converter.convert(Some(node), old));
        if let Some(old) = &old {
            scope.add_variable_from_value("oldSelf", old.clone());
        }
        for rule in due {
            if rule.optional_old_self && rule.uses_old_self {
                let optional = old.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                let mut scope = scope.new_inner_scope();
                scope.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(optional)));
                errors.extend(evaluate(rule, node, path, new, &scope));
            } else {
                errors.extend(evaluate(rule, node, path, new, &scope));
            }
        }
    }
}

fn evaluate(rule: &Rule, node: &Node, path: &str, new: &Value, scope: &Context<'_>) -> Option<FieldError> {
    let detail = match rule.program.execute(scope) {
        Ok(CelValue::Bool(true)) => {
            rule.remember(new);
            return None;
        }
        Ok(_) => return Some(refusal(rule, node, path, new, scope)),
        Err(ExecutionError::NoSuchOverload) => format!(
            "'no such overload': call arguments did not match a supported operator, function or macro signature \
             for rule: {}",
            rule.name
        ),
        Err(ExecutionError::MissingArgumentOrTarget) if rule.receiver.is_some() => {
            let field = rule.receiver.as_deref().unwrap_or_default();
            format!("no such key: {field} evaluating rule: {}", rule.name)
        }
        Err(error) => format!("{} evaluating rule: {}", failure(&error), rule.name),
    };
    let shown = ShownValue::Text(&node.declared_type);
    Some(FieldError::new(path, FieldErrorKind::Invalid, shown, &detail))
}

fn refusal(rule: &Rule, node: &Node, path: &str, new: &Value, scope: &Context<'_>) -> FieldError {
    let detail = spoken(rule, scope).unwrap_or_else(|| match &rule.message {
        Some(message) => message.clone(),
        None => format!("failed rule: {}", rule.name),
    });
    let at = format!("{path}{}", shown_below(node, &rule.field_path));
    let whole = node.kinds.iter().any(|kind| matches!(kind, JsonType::Object | JsonType::Array));
    match rule.reason {
        FieldErrorKind::Required | FieldErrorKind::Forbidden => {
            FieldError::new(&at, rule.reason, ShownValue::Nothing, &detail)
        }
        FieldErrorKind::Duplicate if whole => FieldError::new(&at, rule.reason, ShownValue::Nothing, ""),
        FieldErrorKind::Duplicate => FieldError::new(&at, rule.reason, ShownValue::Value(new), ""),
        kind if whole => FieldError::new(&at, kind, ShownValue::Nothing, &detail),
        kind => FieldError::new(&at, kind, ShownValue::Value(new), &detail),
    }
}

/// The result of a message expression, if it is one line within the limit.
fn spoken(rule: &Rule, scope: &Context<'_>) -> Option<String> {
    let Ok(CelValue::String(text)) = rule.message_program.as_ref()?.execute(scope) else { return None };
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
}

const NOT_A_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The message of an evaluation error, as in the Go implementation where it has the same error.
fn failure(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { function, .. }
            if matches!(function.as_str(), "int" | "uint" | "double") =>
        {
            format!("type conversion error from 'string' to '{function}'")
        }
        ExecutionError::FunctionError { function, .. } if function == "quantity" => NOT_A_QUANTITY.to_owned(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
