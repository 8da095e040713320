//! OpenAPI documents, as far as kubectl reads them.
//!
//! kubectl looks for three things: that `PATCH` takes `fieldValidation` (else it validates on the client), how an
//! object may be patched, and the schemas that `kubectl explain` prints. Built-in resources are open objects here,
//! and do not list strategic merge patches, so that kubectl takes the merge rules of its own Go types; custom
//! resources have their real schema. Only JSON is served: releases of kubectl before 1.27 read `/openapi/v2` as
//! protobuf alone and need `--validate=false`.

use fleetwright_kube_semantics::fnv::fnv1a_64;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::discovery;
use crate::registry::ResourceInfo;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const GVK: &str = "x-kubernetes-group-version-kind";

/// `/openapi/v3`: where the document of each group and version is. The hash covers the resources, not their schemas,
/// so that a document must not be served as immutable.
#[must_use]
pub fn v3_index(resources: &[ResourceInfo]) -> Value {
    let mut paths = Map::new();
    for (group, version) in discovery::group_versions(resources) {
        let path = root(group, version);
        let served = discovery::served(resources, group, version);
        let hash = fnv1a_64(served.flat_map(|r| format!("{r:?}").into_bytes()));
        let url = format!("/openapi/v3{path}?hash={hash:016X}");
        paths.insert(path.trim_start_matches('/').to_owned(), json!({"serverRelativeURL": url}));
    }
    json!({ "paths": paths })
}

/// `/openapi/v3/api/<version>` or `/openapi/v3/apis/<group>/<version>`. `crd_schemas` holds the `openAPIV3Schema` of
/// custom resources by kind.
#[must_use]
pub fn v3_group(
    resources: &[ResourceInfo],
    group: &str,
    version: &str,
    crd_schemas: &IndexMap<String, Value>,
) -> Value {
    let refs = Refs { prefix: "#/components/schemas/", v3: true };
    let mut schemas = meta_schemas();
    let mut paths = Map::new();
    for resource in discovery::served(resources, group, version) {
        let schema = crd_schemas.get(&resource.kind);
        add_schemas(resource, schema.cloned(), &refs, &mut schemas);
        add_paths(resource, schema.is_some(), &refs, &mut paths);
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths, "components": {"schemas": schemas}
    })
}

/// `/openapi/v2`, with the schemas of custom resources reduced to what that version can express.
#[must_use]
pub fn v2(resources: &[ResourceInfo], crd_schemas: &[(ResourceInfo, Value)]) -> Value {
    let refs = Refs { prefix: "#/definitions/", v3: false };
    let mut definitions = meta_schemas();
    let mut paths = Map::new();
    for resource in resources {
        let same = |other: &ResourceInfo| {
            (&other.group, &other.version, &other.kind)
                == (&resource.group, &resource.version, &resource.kind)
        };
        let schema = crd_schemas.iter().find(|(other, _)| same(other)).map(|(_, schema)| schema);
        add_schemas(resource, schema.map(reduced), &refs, &mut definitions);
        add_paths(resource, schema.is_some(), &refs, &mut paths);
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths, "definitions": definitions
    })
}

/// What differs between the versions of OpenAPI.
struct Refs {
    prefix: &'static str,
    v3: bool,
}

impl Refs {
    fn to(&self, name: &str) -> Value {
        json!({"$ref": format!("{}{name}", self.prefix)})
    }

    fn described(&self, name: &str, description: &str) -> Value {
        if self.v3 {
            json!({"description": description, "allOf": [self.to(name)]})
        } else {
            json!({"description": description, "$ref": format!("{}{name}", self.prefix)})
        }
    }
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// The name of a kind's schema: Go's package path for built-in groups, the reversed group for others.
fn schema_name(resource: &ResourceInfo, custom: bool) -> String {
    let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
    if custom {
        let reversed: Vec<&str> = group.split('.').rev().collect();
        return format!("{}.{version}.{kind}", reversed.join("."));
    }
    let package = match group.as_str() {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("io.k8s.api.{package}.{version}.{kind}")
}

fn gvk(resource: &ResourceInfo, suffix: &str) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": format!("{}{suffix}", resource.kind)})
}

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object.";
const KIND: &str = "Kind is the name of the REST resource that this object represents.";

fn add_schemas(
    resource: &ResourceInfo,
    schema: Option<Value>,
    refs: &Refs,
    schemas: &mut Map<String, Value>,
) {
    let custom = schema.is_some();
    let mut schema = schema.filter(Value::is_object).unwrap_or_else(|| json!({}));
    schema["type"] = json!("object");
    schema[GVK] = json!([gvk(resource, "")]);
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] = json!({"description": API_VERSION, "type": "string"});
    schema["properties"]["kind"] = json!({"description": KIND, "type": "string"});
    schema["properties"]["metadata"] = refs.described(OBJECT_META, "Standard object's metadata.");
    if !custom {
        for name in ["spec", "status"] {
            schema["properties"][name] =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    let name = schema_name(resource, custom);
    let list = json!({
        "description": format!("{0}List is a list of {0}", resource.kind), "type": "object", "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "kind": {"description": KIND, "type": "string"},
            "metadata": refs.described(LIST_META, "Standard list metadata."),
            "items": {"description": "List of objects.", "type": "array", "items": refs.to(&name)}
        },
        GVK: [gvk(resource, "List")]
    });
    schemas.insert(format!("{name}List"), list);
    schemas.insert(name, schema);
}

fn meta_schemas() -> Map<String, Value> {
    let text = |description: &str| json!({"description": description, "type": "string"});
    let texts = |description: &str| json!({"description": description, "type": "object", "additionalProperties": {"type": "string"}});
    let time =
        |description: &str| json!({"description": description, "type": "string", "format": "date-time"});
    let object = json!({
        "description": "ObjectMeta is metadata that all persisted resources must have.",
        "type": "object",
        "properties": {
            "annotations": texts("Annotations is an unstructured key value map of arbitrary metadata."),
            "creationTimestamp": time("CreationTimestamp is the time when this object was created."),
            "deletionGracePeriodSeconds": {
                "description": "Number of seconds allowed for this object to gracefully terminate.",
                "type": "integer", "format": "int64"
            },
            "deletionTimestamp": time("DeletionTimestamp is the time at which this object will be deleted."),
            "finalizers": {
                "description": "Must be empty before the object is deleted from the registry.",
                "type": "array", "items": {"type": "string"}
            },
            "generateName": text("GenerateName is a prefix for a unique name."),
            "generation": {
                "description": "A sequence number of a generation of the desired state.",
                "type": "integer", "format": "int64"
            },
            "labels": texts("Map of keys and values to organize and select objects."),
            "managedFields": {
                "description": "Which workflow manages which fields.", "type": "array", "items": {"type": "object"}
            },
            "name": text("Name must be unique within a namespace."),
            "namespace": text("Namespace defines the space within which each name must be unique."),
            "ownerReferences": {
                "description": "Objects that this object depends on.", "type": "array", "items": {"type": "object"}
            },
            "resourceVersion": text("An opaque value that represents the internal version of this object."),
            "selfLink": text("Deprecated."),
            "uid": text("UID is the unique in time and space value for this object.")
        }
    });
    let list = json!({
        "description": "ListMeta describes metadata that lists have.",
        "type": "object",
        "properties": {
            "continue": text("A token for the rest of the list."),
            "remainingItemCount": {"type": "integer", "format": "int64"},
            "resourceVersion": text("The version of the list."),
            "selfLink": text("Deprecated.")
        }
    });
    Map::from_iter([(OBJECT_META.to_owned(), object), (LIST_META.to_owned(), list)])
}

fn add_paths(resource: &ResourceInfo, custom: bool, refs: &Refs, paths: &mut Map<String, Value>) {
    let root = root(&resource.group, &resource.version);
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", resource.plural);
    let name = schema_name(resource, custom);
    let one = |verb: &str, action: &str| operation(resource, verb, action, &name, refs);
    let list = operation(resource, "get", "list", &format!("{name}List"), refs);
    paths.insert(collection.clone(), json!({"get": list, "post": one("post", "post")}));
    let item = json!({
        "get": one("get", "get"), "put": one("put", "put"), "patch": one("patch", "patch"),
        "delete": one("delete", "delete")
    });
    paths.insert(format!("{collection}/{{name}}"), item);
}

fn operation(resource: &ResourceInfo, verb: &str, action: &str, schema: &str, refs: &Refs) -> Value {
    let query = |name: &str| {
        let parameter = json!({"name": name, "in": "query", "uniqueItems": true});
        typed(parameter, json!({"type": "string", "uniqueItems": true}), refs)
    };
    let written = matches!(verb, "post" | "put" | "patch");
    let names: &[&str] = match verb {
        "get" => &["pretty"],
        "delete" => &["dryRun", "propagationPolicy"],
        "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
        _ => &["dryRun", "fieldManager", "fieldValidation"],
    };
    let mut parameters: Vec<Value> = names.iter().map(|name| query(name)).collect();
    let mut operation = json!({
        "operationId": format!("{action}{}{}", resource.version, resource.kind),
        "x-kubernetes-action": action, GVK: gvk(resource, "")
    });
    // Strategic merge patches are left out on purpose: see the top of this file.
    let consumed: &[&str] = match verb {
        "patch" => {
            &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"]
        }
        _ => &["application/json"],
    };
    if refs.v3 {
        operation["responses"] = json!({"200": {
            "description": "OK", "content": {"application/json": {"schema": refs.to(schema)}}
        }});
        if written {
            let body = |media: &&str| ((*media).to_owned(), json!({"schema": {"type": "object"}}));
            let content: Map<String, Value> = consumed.iter().map(body).collect();
            operation["requestBody"] = json!({"required": true, "content": content});
        }
    } else {
        operation["responses"] = json!({"200": {"description": "OK", "schema": refs.to(schema)}});
        operation["produces"] = json!(["application/json"]);
        operation["consumes"] = json!(consumed);
        if written {
            parameters
                .push(json!({"name": "body", "in": "body", "required": true, "schema": {"type": "object"}}));
        }
    }
    operation["parameters"] = Value::Array(parameters);
    operation
}

fn typed(mut parameter: Value, schema: Value, refs: &Refs) -> Value {
    if refs.v3 {
        parameter["schema"] = schema;
        if let Some(map) = parameter.as_object_mut() {
            map.remove("uniqueItems");
        }
    } else {
        parameter["type"] = json!("string");
    }
    parameter
}

/// A schema in the terms of OpenAPI v2: no alternatives, no nullable fields, and no description of open parts.
fn reduced(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let flag = |name: &str| map.get(name) == Some(&Value::Bool(true));
            let open = flag("x-kubernetes-preserve-unknown-fields");
            let kept = map.iter().filter(|(keyword, _)| match keyword.as_str() {
                "nullable" | "anyOf" | "oneOf" | "allOf" | "not" | "x-kubernetes-validations" => false,
                "type" => !open && !flag("x-kubernetes-int-or-string") && !flag("nullable"),
                "items" | "properties" => !open && !flag("nullable"),
                _ => true,
            });
            Value::Object(kept.map(|(keyword, value)| (keyword.clone(), below(keyword, value))).collect())
        }
        other => other.clone(),
    }
}

fn below(keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        ("properties", Value::Object(properties)) => {
            Value::Object(properties.iter().map(|(name, schema)| (name.clone(), reduced(schema))).collect())
        }
        ("items" | "additionalProperties", schema) => reduced(schema),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples::{pools, samples};

    fn pool_schema() -> Value {
        json!({"description": "A pool.", "type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-validations": [{"rule": "true"}], "properties": {
                "type": {"type": "string", "nullable": true},
                "limit": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
            }}
        }})
    }

    #[test]
    fn the_index_names_each_group_version() {
        let index = v3_index(&samples());
        let paths = index["paths"].as_object().unwrap();
        for (path, entry) in paths {
            let url = entry["serverRelativeURL"].as_str().unwrap();
            assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        }
        let mut names: Vec<_> = paths.keys().collect();
        names.sort();
        assert_eq!(names, ["api/v1", "apis/apps/v1", "apis/karpenter.sh/v1", "apis/karpenter.sh/v1beta1"]);
        let mut changed = samples();
        changed[3].categories.clear();
        let other = v3_index(&changed);
        assert_ne!(index["paths"]["apis/karpenter.sh/v1"], other["paths"]["apis/karpenter.sh/v1"]);
        assert_eq!(index["paths"]["api/v1"], other["paths"]["api/v1"]);
    }

    #[test]
    fn a_custom_resource_has_its_schema() {
        let schemas = IndexMap::from([("NodePool".to_owned(), pool_schema())]);
        let document = v3_group(&samples(), "karpenter.sh", "v1", &schemas);
        let schema = &document["components"]["schemas"]["sh.karpenter.v1.NodePool"];
        assert_eq!(schema["description"], "A pool.");
        assert_eq!(schema[GVK], json!([{"group": "karpenter.sh", "version": "v1", "kind": "NodePool"}]));
        assert_eq!(schema["properties"]["spec"], pool_schema()["properties"]["spec"]);
        let reference = schema["properties"]["metadata"]["allOf"][0]["$ref"].as_str().unwrap();
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(document["components"]["schemas"][name].is_object());
        assert_eq!(document["paths"]["/apis/karpenter.sh/v1/nodepools"]["get"][GVK]["kind"], "NodePool");
    }

    #[test]
    fn patches_take_field_validation_and_no_strategic_merge() {
        let document = v3_group(&samples(), "", "v1", &IndexMap::new());
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(parameters.iter().any(|p| p["name"] == "fieldValidation" && p["in"] == "query"));
        let content = patch["requestBody"]["content"].as_object().unwrap();
        assert!(content.contains_key("application/merge-patch+json"));
        assert!(!content.contains_key("application/strategic-merge-patch+json"));
    }

    #[test]
    fn v2_schemas_are_reduced() {
        let document = v2(&samples(), &[(pools("v1"), pool_schema())]);
        let spec = &document["definitions"]["sh.karpenter.v1.NodePool"]["properties"]["spec"];
        let expected = json!({"type": "object", "properties": {
            "type": {}, "limit": {"x-kubernetes-int-or-string": true},
            "open": {"x-kubernetes-preserve-unknown-fields": true}
        }});
        assert_eq!(spec, &expected);
        assert!(document["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
    }
}
