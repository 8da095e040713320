//! JSON values as values of CEL, typed by a schema.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as CelValue};
use serde_json::{Number, Value};

use super::format::Check;
use super::node::{Additional, JsonType, Node};

/// Converts values. CEL's constructors create times and durations.
pub(crate) struct Converter {
    constructors: Context<'static>,
    timestamp: Option<Program>,
    duration: Option<Program>,
}

impl Converter {
    pub(crate) fn new() -> Self {
        Self {
            constructors: Context::default(),
            timestamp: Program::compile("timestamp(text)").ok(),
            duration: Program::compile("duration(text)").ok(),
        }
    }

    /// Converts a value by its schema; without a schema, values keep their JSON types.
    pub(crate) fn convert(&self, node: Option<&Node>, value: &Value) -> CelValue {
        match value {
            Value::Null => CelValue::Null,
            Value::Bool(flag) => CelValue::Bool(*flag),
            Value::Number(number) => convert_number(node, number),
            Value::String(text) => self.string(node, text),
            Value::Array(items) => {
                let schema = node.and_then(|node| node.items.as_deref());
                CelValue::List(Arc::new(items.iter().map(|item| self.convert(schema, item)).collect()))
            }
            Value::Object(fields) => {
                let mut entries = HashMap::with_capacity(fields.len());
                for (name, value) in fields {
                    if let Some((key, value)) = self.entry(node, name, value) {
                        entries.insert(Key::String(Arc::new(key)), value);
                    }
                }
                CelValue::Map(Map { map: Arc::new(entries) })
            }
        }
    }

    /// A field of an object or an entry of a map. Rules can access only declared fields of an object, by their escaped
    /// names, and of embedded resources and the root also the type and `metadata.name`.
    fn entry(&self, node: Option<&Node>, name: &str, value: &Value) -> Option<(String, CelValue)> {
        let Some(node) = node else { return Some((name.to_owned(), self.convert(None, value))) };
        if node.embedded {
            match name {
                "apiVersion" | "kind" => return Some((name.to_owned(), self.convert(None, value))),
                "metadata" => return Some((name.to_owned(), self.metadata(value))),
                _ => {}
            }
        }
        if let Some(property) = node.properties.get(name) {
            return Some((escape(name)?, self.convert(Some(property), value)));
        }
        match &node.additional {
            Additional::Schema(schema) => Some((name.to_owned(), self.convert(Some(schema), value))),
            Additional::Open => Some((name.to_owned(), self.convert(None, value))),
            Additional::None if node.properties.is_empty() && node.preserve_unknown => {
                Some((name.to_owned(), self.convert(None, value)))
            }
            Additional::None | Additional::Closed => None,
        }
    }

    fn metadata(&self, value: &Value) -> CelValue {
        let mut entries = HashMap::new();
        for name in ["name", "generateName"] {
            if let Some(value) = value.get(name) {
                entries.insert(Key::String(Arc::new(name.to_owned())), self.convert(None, value));
            }
        }
        CelValue::Map(Map { map: Arc::new(entries) })
    }

    fn string(&self, node: Option<&Node>, text: &str) -> CelValue {
        let plain = || CelValue::String(Arc::new(text.to_owned()));
        match node.and_then(|node| node.format.as_ref()).map(|format| format.check) {
            Some(Check::DateTime) => {
                construct(&self.constructors, self.timestamp.as_ref(), text).unwrap_or_else(plain)
            }
            Some(Check::Date) => {
                let midnight = format!("{text}T00:00:00Z");
                construct(&self.constructors, self.timestamp.as_ref(), &midnight).unwrap_or_else(plain)
            }
            Some(Check::Duration) => {
                construct(&self.constructors, self.duration.as_ref(), text).unwrap_or_else(plain)
            }
            Some(Check::Byte) => base64::engine::general_purpose::STANDARD
                .decode(text)
                .map_or_else(|_| plain(), |bytes| CelValue::Bytes(Arc::new(bytes))),
            _ => plain(),
        }
    }
}

fn construct(constructors: &Context<'_>, program: Option<&Program>, text: &str) -> Option<CelValue> {
    let mut scope = constructors.new_inner_scope();
    scope.add_variable_from_value("text", CelValue::String(Arc::new(text.to_owned())));
    program?.execute(&scope).ok()
}

fn convert_number(node: Option<&Node>, number: &Number) -> CelValue {
    let float = node.is_some_and(|node| node.kinds == [JsonType::Number]);
    match (number.as_i64(), number.as_f64()) {
        (Some(int), _) if !float => CelValue::Int(int),
        (_, Some(value)) => CelValue::Float(value),
        _ => CelValue::Null,
    }
}

/// Reserved words of CEL.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field in CEL (`k8s.io/apiserver/pkg/cel`, `Escape`); `None` if it cannot have one.
fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let first = name.chars().next()?;
    if !(first.is_ascii_alphabetic() || first == '_') {
        return None;
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    if !name.chars().all(allowed) {
        return None;
    }
    Some(
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__"),
    )
}
