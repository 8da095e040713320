//! Conditions on devices in CEL, as kube-scheduler evaluates them (`k8s.io/dynamic-resource-allocation/cel`).
//!
//! A condition sees `device.driver`, `device.attributes["domain"].name`, `device.capacity["domain"].name` and
//! `device.allowMultipleAllocations`. What has no domain is in the driver's; a domain that a device does not have is empty.
//! Conditions are bounded before they run, in text and in work, so that none can stop or overturn the controller.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::model::{Device, Str, device::Attribute, resource_claim::DevicePredicate};
use kube_cel::{
    KubeCelExt,
    cel::{
        Context, Program, Value,
        common::ast::{EntryExpr, Expr, LiteralValue},
        objects::{Key, Map},
    },
};

/// The longest expression, in bytes (`CELSelectorExpressionMaxLength`).
const MAX_LENGTH: usize = 10 * 1024;
/// How many operators may stand in a row, how many `&&` and `||` there may be, and how deep brackets may nest: parsing and
/// evaluation recurse, and threads have 2 MiB.
const MAX_OPERATORS: usize = 40;
const MAX_JOINED: usize = 250;
const MAX_DEPTH: usize = 8;
/// How many steps an expression may take on one device.
const MAX_COST: u64 = 100_000;
/// A device has no more attributes and capacities (`ResourceSliceMaxAttributesAndCapacitiesPerDevice`).
const MAX_ENTRIES: u64 = 32;

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// It is too long to be one of Kubernetes.
    #[error("it has {0} bytes, {MAX_LENGTH} are the most")]
    Length(usize),
    /// It has too many parts.
    #[error(
        "it has more than {MAX_OPERATORS} operators in a row, {MAX_JOINED} of && and ||, or {MAX_DEPTH} levels"
    )]
    Size,
    /// It does not parse.
    #[error("it does not parse ({0})")]
    Syntax(String),
    /// It may take too many steps.
    #[error("it may take {0} steps, {MAX_COST} are the most")]
    Cost(u64),
    /// It reads something else than a device.
    #[error("it refers to {0}, which is not known")]
    Reference(String),
}

/// A compiled condition.
pub(crate) struct Predicate {
    program: Program,
    /// Texts in the expression: domains that it may look up.
    texts: Vec<String>,
}

impl std::fmt::Debug for Predicate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Predicate").field("texts", &self.texts).finish_non_exhaustive()
    }
}

impl Predicate {
    /// Compiles an expression.
    pub(crate) fn compile(expression: &str) -> Result<Self, Refusal> {
        if expression.len() > MAX_LENGTH {
            return Err(Refusal::Length(expression.len()));
        }
        if !is_small(expression) {
            return Err(Refusal::Size);
        }
        let program =
            Program::compile(expression).map_err(|error| Refusal::Syntax(first_line(&error.to_string())))?;
        let mut survey = Survey::default();
        let cost = survey.cost(&program.expression().expr, 0);
        if survey.deep {
            return Err(Refusal::Size);
        }
        if cost > MAX_COST {
            return Err(Refusal::Cost(cost));
        }
        let unknown = survey.names.iter().find(|name| *name != "device" && !survey.bound.contains(name));
        if let Some(unknown) = unknown {
            return Err(Refusal::Reference(unknown.clone()));
        }
        Ok(Self { program, texts: survey.texts })
    }
}

impl DevicePredicate for Predicate {
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, Str> {
        let mut context = Context::default().with_all();
        let described = self.describe(driver, device, &mut context)?;
        context.add_variable_from_value("device", described);
        match self.program.execute(&context) {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(format!("gives {:?}, not true or false", other.type_of()).into()),
            Err(error) => Err(first_line(&error.to_string()).into()),
        }
    }
}

impl Predicate {
    fn describe(&self, driver: &str, device: &Device, context: &mut Context<'_>) -> Result<Value, Str> {
        let mut attributes = self.domains(driver);
        for (name, value) in &device.attributes {
            let value = match value {
                Attribute::Int(value) => Value::Int(*value),
                Attribute::Bool(value) => Value::Bool(*value),
                Attribute::String(value) => string(value),
                Attribute::Version(value) => construct(context, "semver(text)", value)?,
            };
            insert(&mut attributes, driver, name, value);
        }
        let mut capacity = self.domains(driver);
        for (name, has) in &device.capacity {
            let value = construct(context, "quantity(text)", &has.value.to_string())?;
            insert(&mut capacity, driver, name, value);
        }
        let nested = |domains: Domains| {
            let each = domains.into_iter().map(|(domain, entries)| (domain, map(entries)));
            map(each.collect())
        };
        Ok(map(BTreeMap::from([
            ("driver".to_owned(), string(driver)),
            ("attributes".to_owned(), nested(attributes)),
            ("capacity".to_owned(), nested(capacity)),
            ("allowMultipleAllocations".to_owned(), Value::Bool(device.shared)),
        ])))
    }

    /// Empty maps for all domains that the expression may look up.
    fn domains(&self, driver: &str) -> Domains {
        let texts = self.texts.iter().map(String::as_str).chain([driver]);
        texts.map(|domain| (domain.to_owned(), BTreeMap::new())).collect()
    }
}

/// Values by domain and name.
type Domains = BTreeMap<String, BTreeMap<String, Value>>;

fn insert(domains: &mut Domains, driver: &str, name: &str, value: Value) {
    let (domain, id) = name.split_once('/').unwrap_or((driver, name));
    domains.entry(domain.to_owned()).or_default().insert(id.to_owned(), value);
}

fn string(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn map(entries: BTreeMap<String, Value>) -> Value {
    let entries = entries.into_iter().map(|(key, value)| (Key::String(Arc::new(key)), value));
    Value::Map(Map { map: Arc::new(entries.collect()) })
}

/// A value of a type of Kubernetes', which CEL's own constructors make.
fn construct(context: &mut Context<'_>, constructor: &str, text: &str) -> Result<Value, Str> {
    let program = Program::compile(constructor).map_err(|error| Str::from(error.to_string()))?;
    context.add_variable_from_value("text", string(text));
    program.execute(context).map_err(|error| first_line(&error.to_string()).into())
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Whether an expression has little recursion, by its text: consecutive operators and brackets recurse, operands of `&&` and `||` do not.
/// Quoted text does not count.
fn is_small(expression: &str) -> bool {
    // Operators since the last `&&` or `||`, by level of brackets.
    let mut rows: Vec<usize> = vec![0];
    let (mut joined, mut quote, mut escaped) = (0_usize, None, false);
    for byte in expression.bytes() {
        if let Some(open) = quote {
            quote = quote.filter(|_| escaped || byte != open);
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' | b'\'' => quote = Some(byte),
            b'(' | b'[' | b'{' => rows.push(0),
            b')' | b']' | b'}' if rows.len() > 1 => {
                rows.pop();
            }
            b'&' | b'|' => {
                joined += 1;
                rows.last_mut().into_iter().for_each(|row| *row = 0);
            }
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'?' | b'!' | b'<' | b'>' | b'=' => {
                rows.last_mut().into_iter().for_each(|row| *row += 1);
                if rows.iter().sum::<usize>() > MAX_OPERATORS {
                    return false;
                }
            }
            _ => {}
        }
        if rows.len() > MAX_DEPTH || joined > 2 * MAX_JOINED {
            return false;
        }
    }
    true
}

/// What an expression consists of.
#[derive(Default)]
struct Survey {
    texts: Vec<String>,
    names: Vec<String>,
    /// Variables of comprehensions.
    bound: Vec<String>,
    deep: bool,
}

impl Survey {
    /// How many steps an expression takes at most.
    fn cost(&mut self, expr: &Expr, depth: usize) -> u64 {
        if depth > MAX_OPERATORS + MAX_JOINED + MAX_DEPTH {
            self.deep = true;
            return 0;
        }
        let depth = depth + 1;
        let sum = |costs: &mut dyn Iterator<Item = u64>| costs.fold(1_u64, u64::saturating_add);
        match expr {
            Expr::Unspecified => 1,
            Expr::Ident(name) => {
                self.names.push(name.clone());
                1
            }
            Expr::Literal(literal) => {
                if let LiteralValue::String(text) = literal {
                    self.texts.push(text.inner().to_owned());
                }
                1
            }
            Expr::Select(select) => self.cost(&select.operand.expr, depth).saturating_add(1),
            Expr::Call(call) => {
                let parts = call
                    .target
                    .iter()
                    .map(|target| &target.expr)
                    .chain(call.args.iter().map(|arg| &arg.expr));
                sum(&mut parts.map(|part| self.cost(part, depth)))
            }
            Expr::List(list) => sum(&mut list.elements.iter().map(|element| self.cost(&element.expr, depth))),
            Expr::Map(map) => sum(&mut map.entries.iter().map(|entry| self.entry(&entry.expr, depth))),
            Expr::Struct(of) => sum(&mut of.entries.iter().map(|entry| self.entry(&entry.expr, depth))),
            Expr::Comprehension(over) => {
                let length = match &over.iter_range.expr {
                    Expr::List(list) => u64::try_from(list.elements.len()).unwrap_or(u64::MAX),
                    _ => MAX_ENTRIES,
                };
                let variables = [Some(&over.iter_var), over.iter_var2.as_ref(), Some(&over.accu_var)];
                self.bound.extend(variables.into_iter().flatten().cloned());
                let each = [&over.loop_cond, &over.loop_step];
                let each = sum(&mut each.into_iter().map(|part| self.cost(&part.expr, depth)));
                let once = [&over.iter_range, &over.accu_init, &over.result];
                let once = sum(&mut once.into_iter().map(|part| self.cost(&part.expr, depth)));
                length.saturating_mul(each).saturating_add(once)
            }
        }
    }

    fn entry(&mut self, entry: &EntryExpr, depth: usize) -> u64 {
        match entry {
            EntryExpr::StructField(field) => self.cost(&field.value.expr, depth),
            EntryExpr::MapEntry(entry) => {
                self.cost(&entry.key.expr, depth).saturating_add(self.cost(&entry.value.expr, depth))
            }
        }
    }
}
