//! Sets of fields: which manager owns what, in memory and as `fieldsV1`.
//!
//! Semantics: structured-merge-diff v6, as Kubernetes uses it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keys::{self, ListRule};
use crate::registry::Resource;
use fleetwright_kube_schema::{ListType, Structural};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FieldStep {
    /// Field of a map.
    Field(String),
    /// Entry of a keyed list: the JSON of its keys.
    Key(String),
    /// Entry of a set: its JSON.
    Value(String),
}

/// A tree of fields; `own` means that the path itself is in the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    own: bool,
    children: BTreeMap<FieldStep, Self>,
}

/// How lists and maps of a resource are merged.
#[derive(Clone, Copy)]
pub(crate) enum Rules<'a> {
    /// By the table of the built-in kinds.
    Builtin,
    /// By the schema of a custom resource.
    Custom(&'a Structural),
}

impl<'a> Rules<'a> {
    /// The rules of a resource.
    pub(crate) fn of(resource: &'a Resource) -> Self {
        resource.custom.as_ref().map_or(Self::Builtin, |custom| Self::Custom(&custom.structural))
    }

    /// The rule of the list at a path; entries of lists are `*` in it.
    pub(crate) fn list(self, path: &[&str]) -> ListRule {
        match self {
            Self::Custom(schema) if path.first() != Some(&"metadata") => match schema.list_type(path) {
                Some(ListType::Set) => ListRule::Set,
                Some(ListType::Map) => schema.list_map_keys(path).map_or(ListRule::Atomic, ListRule::Map),
                Some(ListType::Atomic) | None => ListRule::Atomic,
            },
            _ => keys::applied(&plain(path)),
        }
    }

    /// Whether the map at a path is atomic.
    pub(crate) fn atomic_map(self, path: &[&str]) -> bool {
        matches!(self, Self::Builtin) && keys::atomic_map(&plain(path))
    }
}

fn plain<'p>(path: &[&'p str]) -> Vec<&'p str> {
    path.iter().copied().filter(|step| *step != "*").collect()
}

/// The step of an entry of a keyed list; an absent protocol is TCP, the schema's default.
pub(crate) fn key_step(entry: &Value, names: &[String]) -> FieldStep {
    let mut key = Map::new();
    for name in names {
        let fallback = if name == "protocol" { json!("TCP") } else { Value::Null };
        let value = entry.get(name).cloned().unwrap_or(fallback);
        if !value.is_null() {
            key.insert(name.clone(), value);
        }
    }
    FieldStep::Key(Value::Object(key).to_string())
}

impl FieldSet {
    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        !self.own && self.children.values().all(Self::is_empty)
    }

    /// Whether the path of this node is in the set.
    pub(crate) fn owns(&self) -> bool {
        self.own
    }

    /// The steps below with their sets.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&FieldStep, &Self)> {
        self.children.iter()
    }

    /// The set below a step.
    pub(crate) fn child(&self, step: &FieldStep) -> Option<&Self> {
        self.children.get(step)
    }

    /// The fields of a value. `whole` marks maps too, as an update that adds them does.
    pub(crate) fn of<'p>(value: &'p Value, rules: Rules<'_>, path: &mut Vec<&'p str>, whole: bool) -> Self {
        let mut set = Self::default();
        match value {
            Value::Object(map) if !map.is_empty() && !rules.atomic_map(path) => {
                set.own = whole && !path.is_empty();
                for (key, field) in map {
                    path.push(key);
                    let mut child = Self::of(field, rules, path, whole);
                    let open = matches!(path.as_slice(), [.., "labels" | "annotations" | "data", _]);
                    child.own |= open || child.children.is_empty();
                    path.pop();
                    set.children.insert(FieldStep::Field(key.clone()), child);
                }
            }
            Value::Array(entries) => match rules.list(path) {
                ListRule::Atomic => set.own = true,
                ListRule::Set => {
                    set.own = whole;
                    for entry in entries {
                        let leaf = Self { own: true, ..Self::default() };
                        set.children.insert(FieldStep::Value(entry.to_string()), leaf);
                    }
                }
                ListRule::Map(names) => {
                    set.own = whole;
                    for entry in entries {
                        path.push("*");
                        let mut child = Self::of(entry, rules, path, whole);
                        path.pop();
                        child.own = true;
                        set.children.insert(key_step(entry, &names), child);
                    }
                }
            },
            _ => set.own = true,
        }
        set
    }

    /// The fields that `new` adds to `old` or changes.
    pub(crate) fn changed<'p>(
        old: &Value,
        new: &'p Value,
        rules: Rules<'_>,
        path: &mut Vec<&'p str>,
    ) -> Self {
        if old == new {
            return Self::default();
        }
        match (old, new) {
            (Value::Object(before), Value::Object(after)) if !rules.atomic_map(path) => {
                let mut set = Self::default();
                for (key, field) in after {
                    path.push(key);
                    let child = match before.get(key) {
                        Some(was) => Self::changed(was, field, rules, path),
                        None => Self::of(field, rules, path, true),
                    };
                    path.pop();
                    set.insert(FieldStep::Field(key.clone()), child);
                }
                set
            }
            (Value::Array(before), Value::Array(after)) => match rules.list(path) {
                ListRule::Atomic => Self { own: true, ..Self::default() },
                ListRule::Set => {
                    let mut set = Self::default();
                    for entry in after.iter().filter(|entry| !before.contains(entry)) {
                        set.insert(
                            FieldStep::Value(entry.to_string()),
                            Self { own: true, ..Self::default() },
                        );
                    }
                    set
                }
                ListRule::Map(names) => {
                    let mut set = Self::default();
                    for entry in after {
                        let step = key_step(entry, &names);
                        path.push("*");
                        let child = match before.iter().find(|was| key_step(was, &names) == step) {
                            Some(was) => Self::changed(was, entry, rules, path),
                            None => Self::of(entry, rules, path, true),
                        };
                        path.pop();
                        set.insert(step, child);
                    }
                    set
                }
            },
            _ => Self::of(new, rules, path, true),
        }
    }

    fn insert(&mut self, step: FieldStep, child: Self) {
        if !child.is_empty() {
            self.children.insert(step, child);
        }
    }

    /// Members of both sets.
    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let mut both = Self { own: self.own && other.own, ..Self::default() };
        for (step, child) in &self.children {
            if let Some(twin) = other.children.get(step) {
                both.insert(step.clone(), child.intersect(twin));
            }
        }
        both
    }

    /// Members of this set that are not in the other.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut rest = Self { own: self.own && !other.own, ..Self::default() };
        for (step, child) in &self.children {
            let child = match other.children.get(step) {
                Some(twin) => child.minus(twin),
                None => child.clone(),
            };
            rest.insert(step.clone(), child);
        }
        rest
    }

    /// Adds the members of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        self.own |= other.own;
        for (step, child) in &other.children {
            self.children.entry(step.clone()).or_default().add(child);
        }
    }

    /// Members whose path exists in a value.
    pub(crate) fn present<'p>(&'p self, value: &Value, rules: Rules<'_>, path: &mut Vec<&'p str>) -> Self {
        let mut kept = Self { own: self.own, ..Self::default() };
        for (step, child) in &self.children {
            if let Some(found) = find(value, step, rules, path) {
                path.push(match step {
                    FieldStep::Field(name) => name,
                    FieldStep::Key(_) | FieldStep::Value(_) => "*",
                });
                kept.insert(step.clone(), child.present(found, rules, path));
                path.pop();
            }
        }
        kept
    }

    /// Removes server-owned fields, which have no manager.
    pub(crate) fn strip(&mut self) {
        for field in ["apiVersion", "kind"] {
            self.children.remove(&FieldStep::Field(field.to_owned()));
        }
        let Some(metadata) = self.children.get_mut(&FieldStep::Field("metadata".to_owned())) else { return };
        metadata.own = false;
        for field in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "generation",
            "managedFields",
            "resourceVersion",
            "selfLink",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generateName",
        ] {
            metadata.children.remove(&FieldStep::Field(field.to_owned()));
        }
        if metadata.is_empty() {
            self.children.remove(&FieldStep::Field("metadata".to_owned()));
        }
    }

    /// The `fieldsV1` form.
    pub(crate) fn to_value(&self) -> Value {
        let mut map = Map::new();
        if self.own && !self.children.is_empty() {
            map.insert(".".to_owned(), json!({}));
        }
        for (step, child) in &self.children {
            let key = match step {
                FieldStep::Field(name) => format!("f:{name}"),
                FieldStep::Key(key) => format!("k:{key}"),
                FieldStep::Value(value) => format!("v:{value}"),
            };
            map.insert(key, child.to_value());
        }
        Value::Object(map)
    }

    /// Parses the `fieldsV1` form; unreadable parts are left out.
    pub(crate) fn from_value(value: &Value) -> Self {
        let Some(map) = value.as_object() else { return Self::default() };
        let mut set = Self { own: map.is_empty() || map.contains_key("."), ..Self::default() };
        for (key, child) in map {
            let step = match key.split_at_checked(2) {
                Some(("f:", name)) => FieldStep::Field(name.to_owned()),
                Some(("k:", key)) => FieldStep::Key(key.to_owned()),
                Some(("v:", value)) => FieldStep::Value(value.to_owned()),
                _ => continue,
            };
            set.children.insert(step, Self::from_value(child));
        }
        set
    }

    /// Paths of all members, as in conflict messages.
    pub(crate) fn paths(&self, prefix: &str, found: &mut Vec<String>) {
        if self.own {
            found.push(prefix.to_owned());
        }
        for (step, child) in &self.children {
            let path = match step {
                FieldStep::Field(name) => format!("{prefix}.{name}"),
                FieldStep::Key(key) => format!("{prefix}[{}]", shown_key(key)),
                FieldStep::Value(value) => format!("{prefix}[={value}]"),
            };
            child.paths(&path, found);
        }
    }
}

fn shown_key(key: &str) -> String {
    let parsed: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
    let parts: Vec<String> = parsed.iter().map(|(name, value)| format!("{name}={value}")).collect();
    parts.join(",")
}

/// The value behind a step.
fn find<'v>(value: &'v Value, step: &FieldStep, rules: Rules<'_>, path: &[&str]) -> Option<&'v Value> {
    match step {
        FieldStep::Field(name) => value.get(name),
        FieldStep::Value(text) => value.as_array()?.iter().find(|entry| entry.to_string() == *text),
        FieldStep::Key(_) => match rules.list(path) {
            ListRule::Map(names) => value.as_array()?.iter().find(|entry| key_step(entry, &names) == *step),
            _ => None,
        },
    }
}
