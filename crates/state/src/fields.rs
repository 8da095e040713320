//! The fields of Kubernetes objects that decisions and tools read: an allow-list, by kind.
//!
//! Dumps and recordings hold [`project`]ed objects, so that nothing else of a cluster gets into a file: no environment, arguments,
//! commands, Secrets or foreign annotations. The list ([`kinds`]) is beside the code that reads the fields ([`crate::lower`]); a field
//! that is read and not listed shows as a plan that differs from that of the object itself.

mod clean;
mod kinds;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use self::kinds::ANNOTATIONS;

/// What a listed field holds, and with that what of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldClass {
    /// A number, a truth value, or a text from a fixed vocabulary: enumerations, quantities, durations, times.
    Scalar,
    /// A list of scalars.
    Scalars,
    /// Scalars by key: resources, limits.
    Amounts,
    /// Words for people, which may name objects.
    Text,
    /// The name of an object, or what identifies an instance or a volume.
    Name,
    /// A list of names.
    Names,
    /// A UID.
    Uid,
    /// A label key.
    Key,
    /// A list of label keys.
    Keys,
    /// Labels, or what selects them by equality.
    Labels,
    /// Requirements: key, operator, values.
    Requirements,
    /// A label selector.
    Selector,
    /// Taints or tolerations.
    Taints,
    /// The annotations that are read ([`ANNOTATIONS`]).
    Annotations,
    /// Finalizers of Karpenter and Fleetwright.
    Finalizers,
    /// The conditions of a pod that are read.
    PodConditions,
    /// Conditions without their message.
    Conditions,
    /// Conditions with reason and message.
    ToldConditions,
    /// Owner references.
    Owners,
}

impl FieldClass {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "scalar" => Self::Scalar,
            "scalars" => Self::Scalars,
            "amounts" => Self::Amounts,
            "text" => Self::Text,
            "name" => Self::Name,
            "names" => Self::Names,
            "uid" => Self::Uid,
            "key" => Self::Key,
            "keys" => Self::Keys,
            "labels" => Self::Labels,
            "requirements" => Self::Requirements,
            "selector" => Self::Selector,
            "taints" => Self::Taints,
            "annotations" => Self::Annotations,
            "finalizers" => Self::Finalizers,
            "pod-conditions" => Self::PodConditions,
            "conditions" => Self::Conditions,
            "told-conditions" => Self::ToldConditions,
            "owners" => Self::Owners,
            _ => return None,
        })
    }
}

/// The listed fields below a position of an object.
#[derive(Clone, Debug)]
enum Fields {
    /// Fields by name.
    Object(BTreeMap<&'static str, Self>),
    /// The same fields of each member of a list.
    List(Box<Self>),
    /// The same fields of each value of a map.
    Map(Box<Self>),
    /// A field.
    Leaf(FieldClass),
}

impl Fields {
    fn none() -> Self {
        Self::Object(BTreeMap::new())
    }

    /// Adds one path such as `spec.containers[].name`. `*` is any key of a map.
    fn add(&mut self, path: &'static str, class: FieldClass) {
        let (step, rest) = path.split_once('.').unwrap_or((path, ""));
        let (name, is_list) = match step.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (step, false),
        };
        if name == "*" && !matches!(self, Self::Map(_)) {
            *self = Self::Map(Box::new(Self::none()));
        }
        let next = match self {
            Self::Object(fields) => fields.entry(name).or_insert_with(Self::none),
            Self::Map(inner) => &mut **inner,
            // The table of this crate has no such path.
            Self::List(_) | Self::Leaf(_) => return,
        };
        if is_list && !matches!(next, Self::List(_)) {
            *next = Self::List(Box::new(Self::none()));
        }
        let next = match next {
            Self::List(inner) => &mut **inner,
            other => other,
        };
        if rest.is_empty() {
            *next = Self::Leaf(class);
        } else {
            next.add(rest, class);
        }
    }

    /// The fields below `path`, made where there are none.
    fn below(&mut self, path: &'static str) -> &mut Self {
        path.split('.').fold(self, |at, step| {
            if !matches!(at, Self::Object(_)) {
                *at = Self::none();
            }
            match at {
                Self::Object(fields) => fields.entry(step).or_insert_with(Self::none),
                // It is an object by now.
                other => other,
            }
        })
    }

    /// Adds the lines of a table: a path and a class each.
    fn extend(&mut self, table: &'static str) {
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some((path, class)) = line.split_once(' ')
                && let Some(class) = FieldClass::parse(class.trim())
            {
                self.add(path, class);
            }
        }
    }

    fn project(&self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Object(fields), Value::Object(object)) => {
                let kept = fields.iter().filter_map(|(name, below)| {
                    Some(((*name).to_owned(), below.project(object.get(*name)?)?))
                });
                Some(Value::Object(kept.collect()))
            }
            (Self::Map(below), Value::Object(object)) => {
                let kept =
                    object.iter().filter_map(|(key, value)| Some((key.clone(), below.project(value)?)));
                Some(Value::Object(kept.collect()))
            }
            (Self::List(below), Value::Array(members)) => {
                // Positions matter to nobody, but a member that is no object would fail the whole object.
                Some(Value::Array(members.iter().filter_map(|member| below.project(member)).collect()))
            }
            (Self::Leaf(class), value) => clean::clean(*class, value),
            _ => None,
        }
    }

    fn visit(&self, value: &mut Value, found: &mut dyn FnMut(FieldClass, &mut Value)) {
        match (self, value) {
            (Self::Object(fields), Value::Object(object)) => {
                for (name, below) in fields {
                    if let Some(value) = object.get_mut(*name) {
                        below.visit(value, found);
                    }
                }
            }
            (Self::Map(below), Value::Object(object)) => {
                object.values_mut().for_each(|value| below.visit(value, found));
            }
            (Self::List(below), Value::Array(members)) => {
                members.iter_mut().for_each(|member| below.visit(member, found));
            }
            (Self::Leaf(class), value) => found(*class, value),
            _ => {}
        }
    }
}

/// Group and kind of an object.
fn kind_of(object: &Value) -> Option<(&str, &str)> {
    let version = object.get("apiVersion")?.as_str()?;
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    Some((group, object.get("kind")?.as_str()?))
}

/// The object with the fields that are read; `None` for a kind that no decision reads. A kind that is not listed is a NodeClass if `class`
/// has the table of what is read of it beside its conditions: a line per field with its path and its [`FieldClass`], such as
/// `spec.zones[].name name`.
#[must_use]
pub fn project(object: &Value, class: Option<&'static str>) -> Option<Value> {
    let (group, kind) = kind_of(object)?;
    let mut kept = match (kinds::fields(group, kind), class) {
        (Some(fields), _) => fields.project(object)?,
        (None, Some(table)) => kinds::class(table).project(object)?,
        (None, None) => return None,
    };
    prune(&mut kept);
    Some(kept)
}

/// Calls `found` for each listed field of a projected object. `class` is the table of a NodeClass, as for [`project`].
pub fn visit(object: &mut Value, class: &'static str, found: &mut dyn FnMut(FieldClass, &mut Value)) {
    let Some((group, kind)) = kind_of(object) else { return };
    match kinds::fields(group, kind) {
        Some(fields) => fields.visit(object, found),
        None => kinds::class(class).visit(object, found),
    }
}

/// The first line of a table that is no path with a class.
#[must_use]
pub fn invalid_line(table: &str) -> Option<&str> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_valid =
        |line: &str| line.split_once(' ').is_some_and(|(_, class)| FieldClass::parse(class.trim()).is_some());
    lines.into_iter().find(|line| !is_valid(line))
}

/// Removes volumes of kinds that are not read, down to their names: these would be all that is left of them.
fn prune(object: &mut Value) {
    for path in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"] {
        let Some(spec) = object.pointer_mut(path).and_then(Value::as_object_mut) else { continue };
        let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) else { continue };
        let is_read = |volume: &Map<String, Value>| {
            volume.contains_key("persistentVolumeClaim") || volume.contains_key("ephemeral")
        };
        volumes.retain(|volume| volume.as_object().is_some_and(is_read));
        if volumes.is_empty() {
            spec.remove("volumes");
        }
    }
}
