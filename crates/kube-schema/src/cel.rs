//! Rules in CEL (`x-kubernetes-validations`): compiled with the schema, run after everything else has passed.
//!
//! A rule that does not mention `oldSelf` is not run over a value that an update left unchanged: the server would
//! forgive its refusal anyway. (It would not forgive a rule that fails to evaluate, which takes a value that another
//! version of the schema let in.)

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Program, Value as CelValue};
use regex::Regex;
use serde_json::Value;

use super::cel_value::Converter;
use super::error::Shown;
use super::node::{Additional, Kind, ListType, Node};
use super::{FieldError, FieldErrorKind, SchemaError};

/// The longest text that a message expression may give, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// How many strings a rule remembers to have accepted, and how long they may be.
const MAX_REMEMBERED: usize = 1024;
const MAX_REMEMBERED_LENGTH: usize = 256;

/// One compiled rule.
pub(crate) struct Rule {
    program: Program,
    /// What stands for the rule in messages: its message, else its source.
    name: String,
    message: Option<String>,
    message_program: Option<Program>,
    /// Steps to the field to blame, relative to the value.
    field_path: Vec<String>,
    reason: FieldErrorKind,
    optional_old_self: bool,
    uses_old_self: bool,
    /// The first field that a method is called on, as `values` in `x.values.size()`: the interpreter does not say
    /// which field was missing there.
    receiver: Option<String>,
    /// Whether the rule says only that the value may not change.
    immutable: bool,
    /// Strings that passed before. Keys and names recur in object after object, and evaluation compiles the
    /// patterns of `find` and `matches` again each time.
    accepted: Mutex<HashSet<String>>,
}

impl Rule {
    /// Compiles one entry of `x-kubernetes-validations`.
    pub(crate) fn parse(rule: &Value, path: &str) -> Result<Self, SchemaError> {
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

    /// Whether a string passed before; what the rule says about a string depends on nothing else.
    fn has_accepted(&self, value: &Value) -> bool {
        let accepted = || self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        !self.uses_old_self && value.as_str().is_some_and(|text| accepted().contains(text))
    }

    fn remember(&self, value: &Value) {
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

/// Finds `field` in the first `.field.method(` of an expression.
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

/// A path below a node as messages show it: fields after dots, keys of maps in brackets.
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

/// Runs rules. Holds the functions that rules may call, which take a while to register.
pub(crate) struct Evaluator {
    functions: Context<'static>,
    converter: Converter,
}

/// The value that an update replaces, and whether it is the same.
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

    /// Runs all rules of a schema over an object that is otherwise valid.
    pub(crate) fn run(&self, root: &Node, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        self.walk(root, "", new, Before { value: old, unchanged: false }, errors);
    }

    fn walk(&self, node: &Node, path: &str, new: &Value, before: Before<'_>, errors: &mut Vec<FieldError>) {
        // Rules see values only: the schema around a nullable field speaks about its null.
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
    let shown = Shown::Text(&node.declared_type);
    Some(FieldError::new(path, FieldErrorKind::Invalid, shown, &detail))
}

fn refusal(rule: &Rule, node: &Node, path: &str, new: &Value, scope: &Context<'_>) -> FieldError {
    let detail = spoken(rule, scope).unwrap_or_else(|| match &rule.message {
        Some(message) => message.clone(),
        None => format!("failed rule: {}", rule.name),
    });
    let at = format!("{path}{}", shown_below(node, &rule.field_path));
    let whole = node.kinds.iter().any(|kind| matches!(kind, Kind::Object | Kind::Array));
    match rule.reason {
        FieldErrorKind::Required | FieldErrorKind::Forbidden => {
            FieldError::new(&at, rule.reason, Shown::Nothing, &detail)
        }
        FieldErrorKind::Duplicate if whole => FieldError::new(&at, rule.reason, Shown::Nothing, ""),
        FieldErrorKind::Duplicate => FieldError::new(&at, rule.reason, Shown::Value(new), ""),
        kind if whole => FieldError::new(&at, kind, Shown::Nothing, &detail),
        kind => FieldError::new(&at, kind, Shown::Value(new), &detail),
    }
}

/// The text of a message expression, if it gives one line of a sensible length.
fn spoken(rule: &Rule, scope: &Context<'_>) -> Option<String> {
    let Ok(CelValue::String(text)) = rule.message_program.as_ref()?.execute(scope) else { return None };
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
}

const NOT_A_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// A failed evaluation in the words of the Go implementation, as far as it has the same failures.
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
