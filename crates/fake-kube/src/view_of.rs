//! The representation that a client accepts: objects, tables, or metadata only.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::events;
use crate::registry::Resource;
use crate::route::Query;
use crate::server::Server;
use crate::verbs::list::Page;
use crate::view::table::IncludeObject;

/// The representation of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseView {
    /// Objects.
    Plain,
    /// `meta.k8s.io/v1` tables with `None`, `Metadata` or `Object` in their rows.
    Table(IncludeObject),
    /// `PartialObjectMetadata`.
    Partial,
}

impl ResponseView {
    /// The first supported media type of an Accept header.
    pub(crate) fn parse(accept: &str, query: &Query) -> Self {
        for clause in accept.split(',') {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(media, "application/json" | "*/*" | "application/*" | "") {
                continue;
            }
            let parameter = parts.find_map(|part| part.strip_prefix("as="));
            return match parameter {
                Some("Table") => Self::Table(match query.text("includeObject") {
                    "None" => IncludeObject::None,
                    "Object" => IncludeObject::Object,
                    _ => IncludeObject::Metadata,
                }),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Self::Partial,
                _ => Self::Plain,
            };
        }
        Self::Plain
    }

    /// One object.
    pub(crate) fn one(self, server: &Server, resource: &Resource, value: &Arc<Value>) -> Arc<Value> {
        let shown = events::present(resource, value);
        match self {
            Self::Plain => shown,
            Self::Partial => Arc::new(partial(&shown)),
            Self::Table(include) => {
                let metadata = json!({ "resourceVersion": shown["metadata"]["resourceVersion"] });
                Arc::new(server.table(resource, &[shown.as_ref()], &metadata, include))
            }
        }
    }

    /// A page of a list as the bytes of its JSON.
    pub(crate) fn page(self, server: &Server, resource: &Resource, page: &Page) -> Vec<u8> {
        let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
        if !page.more.is_empty() {
            metadata["continue"] = page.more.as_str().into();
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let shown: Vec<Arc<Value>> =
            page.items.iter().map(|value| events::present(resource, value)).collect();
        let (kind, version) = match self {
            Self::Table(include) => {
                let rows: Vec<&Value> = shown.iter().map(AsRef::as_ref).collect();
                return bytes(&server.table(resource, &rows, &metadata, include));
            }
            Self::Partial => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            Self::Plain => (resource.info.list_kind(), resource.info.api_version()),
        };
        let head = json!({ "kind": kind, "apiVersion": version, "metadata": metadata });
        let mut out = bytes(&head);
        out.pop();
        out.extend_from_slice(b",\"items\":[");
        for (index, value) in shown.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            if self == Self::Partial {
                out.extend(bytes(&partial(value)));
            } else {
                write_item(&mut out, value, resource.custom.is_some());
            }
        }
        out.extend_from_slice(b"]}");
        out
    }

    /// The object of a watch event.
    pub(crate) fn watched(self, server: &Server, resource: &Resource, value: &Arc<Value>) -> Arc<Value> {
        self.one(server, resource, value)
    }

    /// The object of a bookmark.
    pub(crate) fn bookmark(self, server: &Server, resource: &Resource, object: Value) -> Value {
        match self {
            Self::Plain => object,
            Self::Partial => partial(&object),
            Self::Table(include) => {
                let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
                let mut table = server.table(resource, &[&object], &metadata, include);
                table["rows"] = json!([{ "cells": [], "object": object }]);
                table
            }
        }
    }
}

/// Items of lists of built-in kinds have no kind and apiVersion.
fn write_item(out: &mut Vec<u8>, value: &Value, typed: bool) {
    match value.as_object().filter(|_| !typed) {
        None => serde_json::to_writer(out, value).unwrap_or_default(),
        Some(map) => {
            out.push(b'{');
            let fields = map.iter().filter(|(key, _)| *key != "kind" && *key != "apiVersion");
            for (index, (key, field)) in fields.enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                // Neither a text nor a value with text keys can fail to serialise.
                serde_json::to_writer(&mut *out, key).unwrap_or_default();
                out.push(b':');
                serde_json::to_writer(&mut *out, field).unwrap_or_default();
            }
            out.push(b'}');
        }
    }
}

fn partial(value: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"] })
}

/// A value as JSON.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    // A value of maps with text keys always serialises.
    serde_json::to_vec(value).unwrap_or_default()
}
