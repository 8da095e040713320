//! Parses the schema of a CRD.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::format::Format;
use super::node::{Additional, JsonType, Limits, ListType, Node};
use super::rule::Rule;
use super::{SchemaError, pattern};

/// The maximum depth: far more than a CRD may have, and far less than fits on the stack.
const MAX_DEPTH: usize = 64;

/// Parses the root, where `apiVersion`, `kind` and `metadata` are always declared.
pub(crate) fn root(schema: &Value) -> Result<Node, SchemaError> {
    let mut node = Parser { path: Vec::new() }.node(schema)?;
    node.embedded = true;
    Ok(node)
}

struct Parser {
    path: Vec<String>,
}

impl Parser {
    fn node(&mut self, schema: &Value) -> Result<Node, SchemaError> {
        if self.path.len() > MAX_DEPTH {
            return Err(SchemaError::TooDeep { path: self.path(), limit: MAX_DEPTH });
        }
        let object = schema.as_object().ok_or_else(|| self.keyword("schema", "an object"))?;
        let (kinds, declared_type) = self.kinds(object)?;
        let properties = self.properties(object)?;
        let additional = self.additional(object)?;
        let items = object.get("items").map(|items| self.boxed("items", items)).transpose()?;
        let all_of = self.branches(object, "allOf")?;
        let rules = self.rules(object)?;
        let rules_within = !rules.is_empty()
            || properties.values().chain(&all_of).chain(items.as_deref()).any(|node| node.rules_within)
            || matches!(&additional, Additional::Schema(node) if node.rules_within);
        Ok(Node {
            kinds,
            declared_type,
            nullable: flag(object, "nullable"),
            default: object.get("default").filter(|value| !value.is_null()).cloned(),
            preserve_unknown: flag(object, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(object, "x-kubernetes-embedded-resource"),
            properties,
            additional,
            items,
            required: self.texts(object, "required")?,
            enumeration: self.array(object, "enum")?.to_vec(),
            format: object.get("format").and_then(Value::as_str).and_then(Format::parse),
            limits: self.limits(object)?,
            list_type: self.list_type(object)?,
            list_map_keys: self.texts(object, "x-kubernetes-list-map-keys")?,
            all_of,
            any_of: self.branches(object, "anyOf")?,
            one_of: self.branches(object, "oneOf")?,
            not: object.get("not").map(|not| self.boxed("not", not)).transpose()?,
            rules,
            rules_within,
            lists_within: false,
            embedded_within: false,
        }
        .knowing_what_is_within())
    }

    fn kinds(&self, object: &Map<String, Value>) -> Result<(Vec<JsonType>, String), SchemaError> {
        if flag(object, "x-kubernetes-int-or-string") {
            return Ok((vec![JsonType::Integer, JsonType::String], String::new()));
        }
        match object.get("type") {
            None => Ok((Vec::new(), String::new())),
            Some(name) => {
                let name = name.as_str().unwrap_or_default();
                let kind =
                    JsonType::parse(name).ok_or_else(|| self.keyword("type", "the name of a JSON type"))?;
                Ok((vec![kind], name.to_owned()))
            }
        }
    }

    fn properties(&mut self, object: &Map<String, Value>) -> Result<BTreeMap<String, Node>, SchemaError> {
        let Some(properties) = object.get("properties") else { return Ok(BTreeMap::new()) };
        let properties = properties.as_object().ok_or_else(|| self.keyword("properties", "an object"))?;
        let mut nodes = BTreeMap::new();
        for (name, schema) in properties {
            nodes.insert(name.clone(), self.below(&format!("properties.{name}"), schema)?);
        }
        Ok(nodes)
    }

    fn additional(&mut self, object: &Map<String, Value>) -> Result<Additional, SchemaError> {
        Ok(match object.get("additionalProperties") {
            None => Additional::None,
            Some(Value::Bool(true)) => Additional::Open,
            Some(Value::Bool(false)) => Additional::Closed,
            Some(schema) => Additional::Schema(self.boxed("additionalProperties", schema)?),
        })
    }

    fn branches(
        &mut self,
        object: &Map<String, Value>,
        keyword: &'static str,
    ) -> Result<Vec<Node>, SchemaError> {
        let branches = self.array(object, keyword)?;
        branches
            .iter()
            .enumerate()
            .map(|(i, schema)| self.below(&format!("{keyword}[{i}]"), schema))
            .collect()
    }

    fn rules(&self, object: &Map<String, Value>) -> Result<Vec<Rule>, SchemaError> {
        let rules = self.array(object, "x-kubernetes-validations")?;
        rules.iter().map(|rule| Rule::parse(rule, &self.path())).collect()
    }

    fn limits(&self, object: &Map<String, Value>) -> Result<Limits, SchemaError> {
        let pattern = match object.get("pattern").and_then(Value::as_str) {
            None | Some("") => None,
            Some(source) => {
                let compiled = pattern::compile(source).map_err(|detail| SchemaError::Pattern {
                    path: self.path(),
                    pattern: source.to_owned(),
                    detail,
                })?;
                Some((source.to_owned(), compiled))
            }
        };
        Ok(Limits {
            maximum: self.float(object, "maximum")?,
            exclusive_maximum: flag(object, "exclusiveMaximum"),
            minimum: self.float(object, "minimum")?,
            exclusive_minimum: flag(object, "exclusiveMinimum"),
            multiple_of: self.float(object, "multipleOf")?,
            max_length: self.count(object, "maxLength")?,
            min_length: self.count(object, "minLength")?,
            max_items: self.count(object, "maxItems")?,
            min_items: self.count(object, "minItems")?,
            max_properties: self.count(object, "maxProperties")?,
            min_properties: self.count(object, "minProperties")?,
            unique_items: flag(object, "uniqueItems"),
            pattern,
        })
    }

    fn list_type(&self, object: &Map<String, Value>) -> Result<Option<ListType>, SchemaError> {
        match object.get("x-kubernetes-list-type").map(|value| value.as_str().unwrap_or_default()) {
            None => Ok(None),
            Some("atomic") => Ok(Some(ListType::Atomic)),
            Some("set") => Ok(Some(ListType::Set)),
            Some("map") => Ok(Some(ListType::Map)),
            Some(_) => Err(self.keyword("x-kubernetes-list-type", "one of atomic, set, map")),
        }
    }

    fn below(&mut self, step: &str, schema: &Value) -> Result<Node, SchemaError> {
        self.path.push(step.to_owned());
        let node = self.node(schema);
        self.path.pop();
        node
    }

    fn boxed(&mut self, step: &str, schema: &Value) -> Result<Box<Node>, SchemaError> {
        self.below(step, schema).map(Box::new)
    }

    fn array<'a>(
        &self,
        object: &'a Map<String, Value>,
        keyword: &'static str,
    ) -> Result<&'a [Value], SchemaError> {
        match object.get(keyword) {
            None | Some(Value::Null) => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.keyword(keyword, "a list")),
        }
    }

    fn texts(&self, object: &Map<String, Value>, keyword: &'static str) -> Result<Vec<String>, SchemaError> {
        let items = self.array(object, keyword)?.iter();
        let texts: Option<Vec<_>> = items.map(|item| item.as_str().map(str::to_owned)).collect();
        texts.ok_or_else(|| self.keyword(keyword, "a list of strings"))
    }

    fn float(&self, object: &Map<String, Value>, keyword: &'static str) -> Result<Option<f64>, SchemaError> {
        let value = object.get(keyword).filter(|value| !value.is_null());
        value.map(|value| value.as_f64().ok_or_else(|| self.keyword(keyword, "a number"))).transpose()
    }

    fn count(
        &self,
        object: &Map<String, Value>,
        keyword: &'static str,
    ) -> Result<Option<usize>, SchemaError> {
        let value = object.get(keyword).filter(|value| !value.is_null());
        let count = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
        value.map(|value| count(value).ok_or_else(|| self.keyword(keyword, "a whole number"))).transpose()
    }

    fn keyword(&self, keyword: &'static str, expected: &'static str) -> SchemaError {
        SchemaError::Keyword { path: self.path(), keyword, expected }
    }

    fn path(&self) -> String {
        if self.path.is_empty() { "openAPIV3Schema".to_owned() } else { self.path.join(".") }
    }
}

fn flag(object: &Map<String, Value>, keyword: &str) -> bool {
    object.get(keyword).and_then(Value::as_bool).unwrap_or(false)
}
