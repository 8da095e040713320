//! One node of a parsed schema.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

use super::format::Format;
use super::rule::Rule;

/// The type of a list (`x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Unique scalars.
    Set,
    /// Objects identified by key fields.
    Map,
}

/// A JSON type of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    Null,
}

impl JsonType {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "null" => Self::Null,
            _ => return None,
        })
    }

    /// The type of a value; a number without a fractional part in its text is an integer.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if is_integer(number) => Self::Integer,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Null => "null",
        }
    }
}

/// The API server decodes what fits into 64 bits signed as an integer, and everything else as a float.
fn is_integer(number: &Number) -> bool {
    number.is_i64()
}

/// The rule for undeclared fields.
pub(crate) enum Additional {
    /// Absent: they are pruned.
    None,
    /// `true`: kept without their own fields.
    Open,
    /// `false`: an error if they were not pruned.
    Closed,
    /// A schema: the object is a map.
    Schema(Box<Node>),
}

/// Bounds of values.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<usize>,
    pub(crate) min_length: Option<usize>,
    pub(crate) max_items: Option<usize>,
    pub(crate) min_items: Option<usize>,
    pub(crate) max_properties: Option<usize>,
    pub(crate) min_properties: Option<usize>,
    pub(crate) unique_items: bool,
    /// Source text and compiled form.
    pub(crate) pattern: Option<(String, Regex)>,
}

/// One node of a parsed schema.
pub(crate) struct Node {
    /// Empty: any type. Integer-or-string fields have two.
    pub(crate) kinds: Vec<JsonType>,
    /// The declared type in the form of messages; empty if there is none.
    pub(crate) declared_type: String,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) properties: BTreeMap<String, Self>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Self>>,
    pub(crate) required: Vec<String>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) format: Option<Format>,
    pub(crate) limits: Limits,
    pub(crate) list_type: Option<ListType>,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) all_of: Vec<Self>,
    pub(crate) any_of: Vec<Self>,
    pub(crate) one_of: Vec<Self>,
    pub(crate) not: Option<Box<Self>>,
    pub(crate) rules: Vec<Rule>,
    /// Whether this node or one below it has rules.
    pub(crate) rules_within: bool,
    /// Whether this node or one below it, reached by fields and items, is a set or a keyed list.
    pub(crate) lists_within: bool,
    /// Whether this node or one below it, reached by fields and items, is a resource of its own.
    pub(crate) embedded_within: bool,
}

impl Node {
    /// The schemas of fields and items.
    fn below(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Additional::Schema(schema) => Some(&**schema),
            Additional::None | Additional::Open | Additional::Closed => None,
        };
        self.properties.values().chain(self.items.as_deref()).chain(additional)
    }

    /// Records what the subtree contains, so that passes skip subtrees without it.
    #[must_use]
    pub(crate) fn knowing_what_is_within(mut self) -> Self {
        let has_keys = matches!(self.list_type, Some(ListType::Set | ListType::Map));
        self.lists_within = has_keys || self.below().any(|node| node.lists_within);
        self.embedded_within = self.embedded || self.below().any(|node| node.embedded_within);
        self
    }

    /// The schema of a field: declared, or that of a map's values.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::None | Additional::Open | Additional::Closed => None,
        })
    }

    /// Whether a null is not allowed and counts as absent.
    pub(crate) const fn refuses_null(&self) -> bool {
        !self.nullable
    }

    /// Whether an update leaves a value unchanged by the server's comparison, which follows the schema and
    /// treats undeclared fields as changed.
    pub(crate) fn unchanged(&self, new: &Value, old: &Value) -> bool {
        new == old && self.declares_all(new)
    }

    fn declares_all(&self, value: &Value) -> bool {
        match value {
            Value::Object(map) => map
                .iter()
                .all(|(name, value)| self.field(name).is_some_and(|field| field.declares_all(value))),
            Value::Array(items) if self.list_type == Some(ListType::Map) => {
                self.items.as_ref().is_none_or(|schema| items.iter().all(|item| schema.declares_all(item)))
            }
            _ => true,
        }
    }

    /// Returns the entry of a keyed list with the same keys as `item`.
    pub(crate) fn same_entry<'a>(&self, item: &Value, old: &'a [Value]) -> Option<&'a Value> {
        if self.list_type != Some(ListType::Map) || self.list_map_keys.is_empty() {
            return None;
        }
        let keys = || self.list_map_keys.iter();
        if keys().any(|key| item.get(key).is_none()) {
            return None;
        }
        old.iter().find(|candidate| keys().all(|key| candidate.get(key) == item.get(key)))
    }
}
