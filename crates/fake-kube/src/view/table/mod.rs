//! Server-side tables (`meta.k8s.io/v1` `Table`), which `kubectl get` prints.
//!
//! Columns and cells are those of kube-apiserver 1.35. All columns are always present; the client hides those of a
//! higher priority unless it was asked for `-o wide`.

mod access;
mod age;
mod cluster;
mod custom;
mod jsonpath;
mod pods;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::age::human_duration;
use crate::registry::ResourceInfo;

/// What the rows of a table carry besides their cells (the query parameter `includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata; kubectl's default.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// Header of one column.
struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
}

impl Column {
    fn new(name: &str, kind: &str, priority: i64) -> Self {
        let format = if name == "Name" { "name" } else { "" };
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: format.to_owned(),
            description: name.to_owned(),
            priority,
        }
    }

    fn render(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority
        })
    }
}

/// Gives the cells of one object.
type Cells = Box<dyn Fn(&Value, Timestamp) -> Vec<Value>>;

/// How the objects of one resource are shown.
struct Printer {
    columns: Vec<Column>,
    cells: Cells,
}

impl Printer {
    /// Headers are written as `name:type`, with `*` in front where the column is for wide output only.
    fn new(headers: &[&str], cells: fn(&Value, Timestamp) -> Vec<Value>) -> Self {
        let columns = headers.iter().map(|header| {
            let (priority, header) = header.strip_prefix('*').map_or((0, *header), |rest| (1, rest));
            let (name, kind) = header.split_once(':').unwrap_or((header, "string"));
            Column::new(name, kind, priority)
        });
        Self { columns: columns.collect(), cells: Box::new(cells) }
    }
}

/// Builds a table of `objects`. For a custom resource `crd` is its CustomResourceDefinition, whose printer columns
/// are used. `list_meta` is the metadata of the list (resource version and continue token); ages are relative to
/// `now`.
#[must_use]
pub fn table(
    resource: &ResourceInfo,
    crd: Option<&Value>,
    objects: &[&Value],
    now: Timestamp,
    list_meta: &Value,
    include_object: IncludeObject,
) -> Value {
    let printer = crd.map_or_else(|| built_in(resource), |crd| custom::printer(crd, &resource.version));
    let rows: Vec<Value> = objects.iter().map(|object| row(&printer, object, now, include_object)).collect();
    let columns: Vec<Value> = printer.columns.iter().map(Column::render).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta,
        "columnDefinitions": columns, "rows": rows
    })
}

fn built_in(resource: &ResourceInfo) -> Printer {
    let key = (resource.group.as_str(), resource.plural.as_str());
    pods::printer(key)
        .or_else(|| workloads::printer(key))
        .or_else(|| cluster::printer(key))
        .or_else(|| storage::printer(key))
        .unwrap_or_else(|| {
            Printer::new(&["Name", "Created At:date"], |object, _| {
                vec![access::name(object), json!(access::text(object, "/metadata/creationTimestamp"))]
            })
        })
}

fn row(printer: &Printer, object: &Value, now: Timestamp, include: IncludeObject) -> Value {
    let mut row = json!({ "cells": (printer.cells)(object, now) });
    if let Some(condition) = pods::completion(object) {
        row["conditions"] = json!([condition]);
    }
    match include {
        IncludeObject::None => {}
        IncludeObject::Metadata => {
            let mut part = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"});
            part["metadata"] = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
            row["object"] = part;
        }
        IncludeObject::Object => row["object"] = object.clone(),
    }
    row
}
