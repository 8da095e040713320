//! C2xx: NodePools, NodeClaims, NodeClasses and other kinds: invalid objects, and fields that nothing reads.

use fleetwright_api::{self as api, labels};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    finding::Finding,
    objects::{ClusterObjects, count, display, group_of, name, some, text},
};

/// Returns why an object is invalid.
type Unreadable = fn(&Value) -> Option<String>;

/// Kinds of Karpenter with the function that reads one.
const READ: [(&str, &str, Unreadable); 4] = [
    (labels::GROUP, "NodePool", unreadable::<api::NodePool>),
    (labels::GROUP, "NodeClaim", unreadable::<api::NodeClaim>),
    (labels::GROUP, "NodeOverlay", unreadable::<api::NodeOverlay>),
    (labels::BUFFER_GROUP, "CapacityBuffer", unreadable::<api::CapacityBuffer>),
];

/// Why an object cannot be read as `T`; `None` if it can.
pub(crate) fn unreadable<T: DeserializeOwned>(object: &Value) -> Option<String> {
    let error = serde_path_to_error::deserialize::<_, T>(object).err()?;
    Some(format!("{}: {}", error.path(), error.inner()))
}

/// Checks the objects of the kinds that `ours` define. `groups` are the API groups of NodeClasses that this build serves.
pub(super) fn check(
    cluster: &ClusterObjects,
    ours: &[CustomResourceDefinition],
    groups: &[&str],
) -> Vec<Finding> {
    let mut found = Vec::new();
    for object in cluster.all() {
        if text(object, "/kind").is_empty() || name(object).is_empty() {
            let what = "an object without kind or name is left out";
            found.push(
                Finding::warning("C200", "input", what).fix("give every object apiVersion, kind and name"),
            );
        }
    }
    for definition in ours {
        let (group, kind) = (&*definition.spec.group, &*definition.spec.names.kind);
        let Some(version) = definition.spec.versions.iter().find(|version| version.storage) else { continue };
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let schema = schema.and_then(|schema| serde_json::to_value(schema).ok());
        for object in cluster.of(group, kind) {
            if !is_of_version(object, &version.name, &mut found) {
                continue;
            }
            if let Some(schema) = &schema {
                unknown_fields(object, schema, &mut found);
            }
        }
    }
    for (group, kind, unreadable) in READ {
        for object in cluster.of(group, kind) {
            if let Some(why) = unreadable(object) {
                let what = format!("cannot be read and would be left out: {why}");
                found.push(Finding::blocker("C203", display(object), what).fix("repair the object"));
            }
        }
    }
    let is_read = |pool: &&Value| text(pool, "/apiVersion") == "karpenter.sh/v1";
    for pool in cluster.of(labels::GROUP, "NodePool").filter(is_read) {
        found.extend(class_of(pool, cluster, groups));
    }
    found
}

fn is_of_version(object: &Value, version: &str, found: &mut Vec<Finding>) -> bool {
    let written = text(object, "/apiVersion");
    let expected = format!("{}/{version}", group_of(object));
    if written != expected {
        let what = format!("is of {written}; Fleetwright reads {expected}");
        let fix = format!(
            "read it as {expected} (`kubectl get KIND.{version}.GROUP`), or upgrade Karpenter to 1.14 first"
        );
        found.push(Finding::blocker("C201", display(object), what).fix(fix));
    }
    written == expected
}

fn unknown_fields(object: &Value, schema: &Value, found: &mut Vec<Finding>) {
    let mut unknown = Vec::new();
    for part in ["spec", "status"] {
        if let (Some(value), Some(schema)) =
            (object.get(part), schema.pointer(&format!("/properties/{part}")))
        {
            compare(value, schema, part, &mut unknown);
        }
    }
    if !unknown.is_empty() {
        let fields = count(unknown.len(), "field");
        let what = format!("has {fields} that Fleetwright does not read: {}", some(&unknown));
        let fix = "remove it if it is misspelt; else it has no effect after the switch";
        found.push(Finding::warning("C202", display(object), what).fix(fix));
    }
}

fn compare(value: &Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            let Some(known) = schema["properties"].as_object() else { return };
            for (field, value) in fields {
                let path = format!("{path}.{field}");
                match known.get(field) {
                    Some(schema) => compare(value, schema, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        Value::Array(members) => {
            if let Some(schema) = schema.get("items") {
                members.iter().for_each(|member| compare(member, schema, &format!("{path}[]"), unknown));
            }
            unknown.dedup();
        }
        _ => {}
    }
}

/// Whether a cloud of this build serves the NodeClass of a NodePool, and whether it exists.
fn class_of(pool: &Value, cluster: &ClusterObjects, groups: &[&str]) -> Option<Finding> {
    let of = |field: &str| text(pool, &format!("/spec/template/spec/nodeClassRef/{field}"));
    let (group, kind, class) = (of("group"), of("kind"), of("name"));
    if !groups.contains(&group) {
        let what = format!(
            "its NodeClass {kind} is of the API group {group:?}, which no cloud of this build serves: no nodes are launched for it"
        );
        let fix =
            "leave this NodePool to the controller that serves the group, or use a build with its cloud";
        return Some(Finding::warning("C204", display(pool), what).fix(fix));
    }
    let is_there = cluster.of(group, kind).any(|object| name(object) == class);
    // A dump without any object of the kind was taken without it.
    let is_complete = cluster.is_live || cluster.has(group, kind);
    (!is_there && is_complete).then(|| {
        let what = format!("its NodeClass {kind} {class} does not exist: no nodes are launched for it");
        Finding::warning("C205", display(pool), what).fix("create the NodeClass, or correct nodeClassRef")
    })
}
