//! Structural OpenAPI v3 schemas of CustomResourceDefinitions: prune, default, validate.
//!
//! Behavior and messages are those of kube-apiserver 1.35 (`k8s.io/apiextensions-apiserver` and
//! `k8s.io/kube-openapi`). The order of work on a request is the server's: [`Structural::unknown_fields`] (when
//! the client asks for field validation), [`Structural::prune`], [`Structural::default`], [`Structural::validate`].
//!
//! Patterns and CEL rules are compiled once, when the schema is parsed. A parsed schema is immutable and can be
//! shared between threads.

mod cel;
mod cel_value;
mod defaults;
mod embedded;
mod error;
mod format;
mod gotext;
mod listtype;
mod node;
mod parse;
mod pattern;
mod pruning;
mod rule;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

pub use self::error::{FieldError, FieldErrorKind};
pub use self::node::ListType;
use self::node::{Additional, Node};

/// Why a schema was rejected. The path is that of the schema node (`properties.spec.items`).
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A keyword has a value of the wrong type.
    #[error("schema {path}: {keyword} must be {expected}")]
    Keyword {
        /// Schema node.
        path: String,
        /// The invalid keyword.
        keyword: &'static str,
        /// The required type.
        expected: &'static str,
    },
    /// A pattern is not a regular expression.
    #[error("schema {path}: pattern {pattern:?} is not a regular expression: {detail}")]
    Pattern {
        /// Schema node.
        path: String,
        /// The pattern.
        pattern: String,
        /// The parser's message.
        detail: String,
    },
    /// A validation rule or its message expression does not compile.
    #[error("schema {path}: rule {rule:?} does not compile: {detail}")]
    Rule {
        /// Schema node.
        path: String,
        /// The expression.
        rule: String,
        /// The compiler's message.
        detail: String,
    },
    /// The schema is nested too deeply.
    #[error("schema {path}: nested deeper than {limit} levels")]
    TooDeep {
        /// Schema node.
        path: String,
        /// The limit.
        limit: usize,
    },
}

/// The maximum number of cached schemas in a process: more than the definitions of one server.
const MAX_SHARED: usize = 32;

/// A parsed structural schema with its compiled patterns and rules.
pub struct Structural {
    root: Node,
    rules: cel::Evaluator,
}

impl std::fmt::Debug for Structural {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Structural").finish_non_exhaustive()
    }
}

impl Structural {
    /// Parses `spec.versions[].schema.openAPIV3Schema` of a CRD.
    ///
    /// # Errors
    /// If a keyword has the wrong type, or a pattern or a rule does not compile.
    pub fn parse(open_api_v3_schema: &Value) -> Result<Self, SchemaError> {
        let root = parse::root(open_api_v3_schema)?;
        Ok(Self { root, rules: cel::Evaluator::new() })
    }

    /// As [`parse`](Self::parse), parsed once for all servers of this process. Of the objects that it validates, a schema keeps only
    /// the strings that its rules have accepted.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn shared(open_api_v3_schema: &Value) -> Result<Arc<Self>, SchemaError> {
        static PARSED: Mutex<Vec<(Value, Arc<Structural>)>> = Mutex::new(Vec::new());
        let known = || PARSED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known().iter().find(|(schema, _)| schema == open_api_v3_schema) {
            return Ok(found.clone());
        }
        let parsed = Arc::new(Self::parse(open_api_v3_schema)?);
        let mut known = known();
        if known.len() >= MAX_SHARED {
            known.remove(0);
        }
        known.push((open_api_v3_schema.clone(), parsed.clone()));
        Ok(parsed)
    }

    /// Removes undeclared fields, and nulls of fields that are neither nullable nor defaulted.
    /// `apiVersion`, `kind` and the fields of `ObjectMeta` are always kept.
    pub fn prune(&self, obj: &mut Value) {
        pruning::prune(&self.root, obj);
    }

    /// Removes nulls of fields that are neither nullable nor defaulted, and nothing else.
    pub fn prune_nulls(&self, obj: &mut Value) {
        pruning::drop_nulls(Some(&self.root), obj);
    }

    /// Sets defaults, also in lists, maps and other defaults. A null of a field that is not nullable
    /// counts as absent.
    pub fn default(&self, obj: &mut Value) {
        defaults::apply(&self.root, obj);
    }

    /// The paths of the fields that [`prune`](Self::prune) would remove, sorted, in the form of strict field validation.
    #[must_use]
    pub fn unknown_fields(&self, obj: &Value) -> Vec<String> {
        pruning::unknown_fields(&self.root, obj)
    }

    /// Validates an object that was pruned and defaulted. With `old` it is an update: transition rules are evaluated, and
    /// errors of unchanged values are ignored.
    #[must_use]
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate::object(&self.root, new, old);
        embedded::check(&self.root, new, &mut errors);
        let doubled = listtype::check(&self.root, new);
        // Duplicates in the old object are ignored.
        if !doubled.is_empty() && old.is_none_or(|old| listtype::check(&self.root, old).is_empty()) {
            errors.extend(doubled);
        }
        if self.root.rules_within {
            if errors.iter().any(|error| error.kind.blocks_rules()) {
                errors.push(FieldError::new(
                    "",
                    FieldErrorKind::Invalid,
                    error::ShownValue::Value(&Value::Null),
                    UNCHECKED,
                ));
            } else {
                self.rules.run(&self.root, new, old, &mut errors);
            }
        }
        errors
    }

    /// The keys of the list at a path if it is a keyed list. `*` or any key selects an entry of a map, and an index or any
    /// other text an item of a list.
    #[must_use]
    pub fn list_map_keys(&self, path: &[&str]) -> Option<Vec<String>> {
        let node = self.at(path)?;
        (node.list_type == Some(ListType::Map)).then(|| node.list_map_keys.clone())
    }

    /// The list type at a path, if the schema there is a list; the default is atomic.
    #[must_use]
    pub fn list_type(&self, path: &[&str]) -> Option<ListType> {
        let node = self.at(path)?;
        (node.items.is_some() || node.list_type.is_some()).then(|| node.list_type.unwrap_or(ListType::Atomic))
    }

    fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| {
            node.properties.get(*step).or_else(|| match &node.additional {
                Additional::Schema(schema) => Some(schema.as_ref()),
                Additional::None | Additional::Open | Additional::Closed => node.items.as_deref(),
            })
        })
    }
}

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation";
