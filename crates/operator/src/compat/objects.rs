//! The objects of a cluster as `compat` reads them: untyped, because they may be malformed or of another version.

use jiff::Timestamp;
use serde_json::Value;

use crate::input::Item;

/// The config map of every namespace that pods get the certificate authority of the API server from.
pub(crate) const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

/// The objects of a cluster that `compat` reads.
#[derive(Debug)]
pub struct ClusterObjects {
    objects: Vec<Value>,
    /// Kinds that may not be listed.
    pub(crate) denied: Vec<String>,
    /// Whether the objects come from a live cluster, so that a missing kind is missing in the cluster too.
    pub(crate) is_live: bool,
    /// The time of the decision.
    pub now: Timestamp,
}

impl ClusterObjects {
    /// The objects of `items`.
    pub(crate) fn new(items: &[Item], denied: Vec<String>, is_live: bool, now: Timestamp) -> Self {
        let objects = items.iter().map(|item| item.value.clone()).collect();
        Self { objects, denied, is_live, now }
    }

    /// The objects of a kind, in any version, in the order of the input.
    pub fn of<'a>(&'a self, group: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind && group_of(object) == group)
    }

    /// The objects of an API group.
    pub fn of_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| group_of(object) == group)
    }

    /// Whether there is an object of the kind.
    pub(crate) fn has(&self, group: &str, kind: &str) -> bool {
        self.of(group, kind).next().is_some()
    }

    /// The bundle with which pods verify the API server, from the config map that every namespace has.
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&str> {
        let map = self.of("", "ConfigMap").find(|map| name(map) == ROOT_CERTIFICATE)?;
        map["data"]["ca.crt"].as_str().filter(|bundle| !bundle.is_empty())
    }

    /// All objects.
    pub(crate) fn all(&self) -> &[Value] {
        &self.objects
    }
}

/// The API group of an object; empty for the core group.
pub(crate) fn group_of(object: &Value) -> &str {
    text(object, "/apiVersion").rsplit_once('/').map_or("", |(group, _)| group)
}

/// The text at a JSON pointer; empty where there is none.
#[must_use]
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The members of the list at a JSON pointer; none where there is no list.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// `metadata.name`.
#[must_use]
pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// An annotation; empty where there is none.
#[must_use]
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object.pointer("/metadata/annotations").and_then(|all| all[key].as_str()).unwrap_or_default()
}

/// A label; empty where there is none.
#[must_use]
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object.pointer("/metadata/labels").and_then(|all| all[key].as_str()).unwrap_or_default()
}

/// `WatchedKind name` or `WatchedKind namespace/name`.
#[must_use]
pub(crate) fn display(object: &Value) -> String {
    let (kind, namespace, name) = (text(object, "/kind"), text(object, "/metadata/namespace"), name(object));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} {namespace}{slash}{name}")
}

/// The first three names, and the number of the others.
#[must_use]
pub(crate) fn some(names: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = names.iter().take(3).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// `1 NodeClaim`, `2 NodeClaims`.
#[must_use]
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
