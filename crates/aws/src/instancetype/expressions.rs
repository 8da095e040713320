//! Expressions in the kubelet block: CEL over the properties of one instance type.

use std::collections::BTreeMap;

use fleetwright_core::model::Quantity;
use kube_cel::cel::{Context, ExecutionError, Program, Value};

/// Longest expression in bytes: this and [`NESTING_MAX`] bound the parser's stack.
const LENGTH_MAX: usize = 2048;
/// Deepest nesting of brackets.
const NESTING_MAX: usize = 32;

/// The variables of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// `vcpus`
    pub vcpus: i64,
    /// `memory_mib`
    pub memory_mib: i64,
    /// `default_enis`
    pub default_enis: i64,
    /// `ips_per_eni`
    pub ips_per_eni: i64,
    /// `max_pods`: the family's default in the expression for maxPods, the resolved number elsewhere.
    pub max_pods: i64,
    /// `instance_type`
    pub instance_type: String,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It does not compile.
    #[error("expression {expression:?} cannot be compiled: {detail}")]
    Invalid {
        /// The expression, shortened.
        expression: String,
        /// The compiler's message.
        detail: String,
    },
    /// It fails for this instance type.
    #[error("expression {expression:?} fails for {instance_type}: {detail}")]
    Failed {
        /// The expression, shortened.
        expression: String,
        /// The instance type.
        instance_type: String,
        /// Why.
        detail: String,
    },
}

/// A compiled expression.
pub struct Expression {
    text: String,
    program: Program,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`ExpressionError::Invalid`] if CEL cannot parse it, or if it is too long or nested too deeply.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let invalid = |detail: String| ExpressionError::Invalid { expression: shorten(text), detail };
        if text.len() > LENGTH_MAX || depth(text) > NESTING_MAX {
            let limit = format!("use at most {LENGTH_MAX} bytes and {NESTING_MAX} levels of brackets");
            return Err(invalid(limit));
        }
        let program = Program::compile(text).map_err(|errors| invalid(errors.to_string()))?;
        Ok(Self { text: text.to_owned(), program })
    }

    /// The value for an instance type; fractions of doubles are cut off.
    ///
    /// # Errors
    /// [`ExpressionError::Failed`] if the result is not a finite number.
    pub fn evaluate(&self, variables: &Variables) -> Result<i64, ExpressionError> {
        let failed = |detail: String| ExpressionError::Failed {
            expression: shorten(&self.text),
            instance_type: variables.instance_type.clone(),
            detail,
        };
        match self.program.execute(&context(variables)) {
            Ok(Value::Int(number)) => Ok(number),
            Ok(Value::Float(number)) => {
                truncated(number).ok_or_else(|| failed(format!("{number} is not a finite number in range")))
            }
            Ok(other) => Err(failed(format!("the result is a {}, not a number", other.type_of()))),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

fn depth(text: &str) -> usize {
    let mut depth: usize = 0;
    let mut deepest = 0;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' | '?' | '!' | '-' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The integer part of a double, if it is in range.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn truncated(number: f64) -> Option<i64> {
    let whole = number.trunc();
    (whole.is_finite() && whole.abs() < 9e18).then_some(whole as i64)
}

#[expect(clippy::cast_precision_loss, reason = "CEL mixes integers and doubles in min and max as doubles")]
fn pick(name: &str, a: Value, b: Value, first: fn(f64, f64) -> bool) -> Result<Value, ExecutionError> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            let larger = a.max(b);
            let smaller = a.min(b);
            Ok(Value::Int(if first(1.0, 0.0) { larger } else { smaller }))
        }
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(if first(a, b) { a } else { b })),
        (Value::Int(a), Value::Float(b)) => Ok(Value::Float(if first(a as f64, b) { a as f64 } else { b })),
        (Value::Float(a), Value::Int(b)) => Ok(Value::Float(if first(a, b as f64) { a } else { b as f64 })),
        (a, b) => {
            let detail = format!("takes two numbers, not {} and {}", a.type_of(), b.type_of());
            Err(ExecutionError::function_error(name, detail))
        }
    }
}

fn context(variables: &Variables) -> Context<'static> {
    let mut context = Context::default();
    context.add_variable_from_value("vcpus", variables.vcpus);
    context.add_variable_from_value("memory_mib", variables.memory_mib);
    context.add_variable_from_value("default_enis", variables.default_enis);
    context.add_variable_from_value("ips_per_eni", variables.ips_per_eni);
    context.add_variable_from_value("max_pods", variables.max_pods);
    context.add_variable_from_value("instance_type", variables.instance_type.clone());
    context.add_function("max", |a: Value, b: Value| pick("max", a, b, |a, b| a > b));
    context.add_function("min", |a: Value, b: Value| pick("min", a, b, |a, b| a < b));
    context
}

/// Whether a reserved value is an expression rather than a quantity.
#[must_use]
pub fn is_expression(value: &str) -> bool {
    value.parse::<Quantity>().is_err()
}

/// A map of reserved resources with its expressions evaluated, each number in Karpenter's unit: millicores rounded up to 10, MiB rounded
/// up to 16, GiB of storage, process ids. An expression that fails or is negative is left out and reported; validation reports it too.
pub fn reserved(
    map: &BTreeMap<String, String>,
    enabled: bool,
    variables: impl Fn() -> Variables,
    problems: &mut Vec<ExpressionError>,
) -> BTreeMap<String, String> {
    let mut resolved = BTreeMap::new();
    for (resource, value) in map {
        if !is_expression(value) {
            resolved.insert(resource.clone(), value.clone());
            continue;
        }
        if !enabled {
            continue;
        }
        let variables = variables();
        match Expression::compile(value).and_then(|expression| expression.evaluate(&variables)) {
            Ok(number) if number >= 0 => {
                resolved.insert(resource.clone(), with_unit(resource, number));
            }
            Ok(number) => problems.push(ExpressionError::Failed {
                expression: shorten(value),
                instance_type: variables.instance_type,
                detail: format!("{number} is negative"),
            }),
            Err(error) => problems.push(error),
        }
    }
    resolved
}

fn with_unit(resource: &str, number: i64) -> String {
    let up = |step: i64| number.saturating_add(step - 1) / step * step;
    match resource {
        "cpu" => format!("{}m", up(10)),
        "memory" => format!("{}Mi", up(16)),
        "ephemeral-storage" => format!("{number}Gi"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    //! Values of expressions.
    use rstest::rstest;

    use super::*;

    fn m5_large() -> Variables {
        Variables {
            vcpus: 2,
            memory_mib: 8192,
            default_enis: 3,
            ips_per_eni: 10,
            max_pods: 29,
            instance_type: "m5.large".to_owned(),
        }
    }

    fn value(text: &str) -> Result<i64, ExpressionError> {
        Expression::compile(text)?.evaluate(&m5_large())
    }

    #[rstest]
    #[case("default_enis * (ips_per_eni - 1) + 2", 29)]
    #[case("min(max_pods, 20)", 20)]
    #[case("max(max_pods, 110)", 110)]
    #[case("min(2.5, 4)", 2)]
    #[case("max(double(vcpus) * 1.9, 1)", 3)]
    #[case("instance_type.startsWith('m5') ? 50 : 10", 50)]
    #[case("memory_mib > 4096 && vcpus < 4 ? 7 : 8", 7)]
    #[case("-3", -3)]
    fn numbers(#[case] text: &str, #[case] expected: i64) {
        assert_eq!(value(text), Ok(expected));
    }

    #[rstest]
    #[case("vcpus *")]
    #[case("'text'")]
    #[case("unknown + 1")]
    #[case("1.0 / 0.0")]
    #[case("vcpus / 0")]
    #[case("min('a', 1)")]
    #[case("9223372036854775807 + 1")]
    #[case("true")]
    fn no_number(#[case] text: &str) {
        assert!(value(text).is_err(), "{:?}", value(text));
    }

    #[test]
    fn monsters_are_refused() {
        let deep = format!("{}1{}", "(".repeat(500), ")".repeat(500));
        let long = format!("1{}", "+1".repeat(5000));
        assert!(value(&deep).is_err() && value(&long).is_err());
    }

    #[test]
    fn reserved_values_get_units_and_failures_are_left_out() {
        let map: BTreeMap<String, String> = [
            ("cpu", "vcpus * 7"),
            ("memory", "max_pods * 11 + 255"),
            ("ephemeral-storage", "1 + 1"),
            ("pid", "1000"),
            ("broken", "nothing"),
            ("negative", "0 - 1"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let mut problems = Vec::new();
        let found = reserved(&map, true, m5_large, &mut problems);
        let expected = [("cpu", "20m"), ("ephemeral-storage", "2Gi"), ("memory", "576Mi"), ("pid", "1000")];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        assert_eq!(problems.len(), 2);
        let off = reserved(&map, false, m5_large, &mut problems);
        assert_eq!(off.keys().collect::<Vec<_>>(), ["pid"]);
    }
}
