//! Audit logs of an API server (`audit.k8s.io/v1`), one event per line.

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::trace::{Id, Reader, projected};
use crate::input::{json_reason, object::set};

/// Kinds that are read beside NodeClasses, by group and plural.
const KINDS: [(&str, &str, &str); 11] = [
    ("", "pods", "Pod"),
    ("", "namespaces", "Namespace"),
    ("", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("", "persistentvolumes", "PersistentVolume"),
    ("apps", "deployments", "Deployment"),
    ("apps", "statefulsets", "StatefulSet"),
    ("apps", "daemonsets", "DaemonSet"),
    ("batch", "jobs", "Job"),
    ("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
    ("storage.k8s.io", "storageclasses", "StorageClass"),
    ("karpenter.sh", "nodepools", "NodePool"),
];

/// Whether a line is an event of an audit log.
pub(super) fn is_event(line: &Value) -> bool {
    line["kind"] == "Event" && line["apiVersion"].as_str().is_some_and(|of| of.starts_with("audit.k8s.io/"))
}

/// Reads the events of a file.
///
/// # Errors
/// If a line is no audit event, or has no object where one is needed; names file and line.
pub(super) fn read(reader: &mut Reader, file: &Path, text: &str) -> anyhow::Result<()> {
    let mut skipped = BTreeMap::<String, usize>::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("{}:{number}", file.display());
        let event: Value =
            serde_json::from_str(line).map_err(|error| anyhow!("{}: {}", place(), json_reason(&error)))?;
        if let Some(why) = read_event(reader, &event).with_context(place)? {
            *skipped.entry(why).or_default() += 1;
        }
    }
    let name = file.display();
    reader
        .changes
        .notes
        .extend(skipped.into_iter().map(|(why, count)| format!("{name}: {why} ({count} events)")));
    Ok(())
}

/// Reads one event; returns why it is left out although its kind is read.
fn read_event(reader: &mut Reader, event: &Value) -> anyhow::Result<Option<String>> {
    if event["kind"] != "Event" {
        bail!("no audit event: its kind is {}", event["kind"]);
    }
    let text = |at: &str| event.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let done = event.pointer("/responseStatus/code").and_then(Value::as_u64).is_some_and(|code| code < 300);
    let (group, resource) = (text("/objectRef/apiGroup"), text("/objectRef/resource"));
    let known = kind(group, resource).filter(|_| done && text("/stage") == "ResponseComplete");
    let Some(kind) = known.as_deref() else { return Ok(None) };
    let at: Timestamp = text("/requestReceivedTimestamp").parse().context("requestReceivedTimestamp")?;
    let version = text("/objectRef/apiVersion");
    let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    // As identities have it where an object has no namespace.
    let namespace = Some(text("/objectRef/namespace")).filter(|name| !name.is_empty()).unwrap_or("default");
    let id =
        |name: &str| -> Id { (group.to_owned(), kind.to_owned(), namespace.to_owned(), name.to_owned()) };
    match (text("/verb"), text("/objectRef/subresource")) {
        ("create", "") => {
            let object = [&event["responseObject"], &event["requestObject"]].into_iter().find(|object| {
                object.is_object() && object["kind"] != "Status" && object.pointer("/metadata/name").is_some()
            });
            let Some(object) = object else {
                bail!("{resource} created without the object: log it at level RequestResponse");
            };
            put(reader, at, object, (&version, kind));
        }
        ("update" | "patch", "") => match &event["responseObject"] {
            object if object.is_object() => put(reader, at, object, (&version, kind)),
            _ => {
                return Ok(Some(format!(
                    "{resource} changed without the object: log them at level RequestResponse"
                )));
            }
        },
        ("update" | "patch", "scale") => {
            let replicas = ["/responseObject/spec/replicas", "/requestObject/spec/replicas"];
            let replicas = replicas.iter().find_map(|at| event.pointer(at).and_then(Value::as_i64));
            if let (Some(replicas), Some(mut object)) =
                (replicas, reader.known(&id(text("/objectRef/name"))).cloned())
            {
                set(&mut object, &["spec", "replicas"], json!(replicas));
                reader.put(at, object);
            }
        }
        // Pods stay until they have ended; the request is when that begins.
        ("delete", "") => reader.delete(at, id(text("/objectRef/name"))),
        ("deletecollection", "") => {
            let Some(items) = event.pointer("/responseObject/items").and_then(Value::as_array) else {
                return Ok(Some(format!("{resource} deleted as a collection without its objects")));
            };
            for name in items.iter().filter_map(|item| item.pointer("/metadata/name")?.as_str()) {
                reader.delete(at, id(name));
            }
        }
        _ => {}
    }
    Ok(None)
}

/// The kind of a resource that is read. Of NodeClasses the plural is known alone, whose letters are small; a replay plays those of all clouds
/// as its own.
fn kind(group: &str, plural: &str) -> Option<Cow<'static, str>> {
    let listed = KINDS.iter().find(|(of, known, _)| *of == group && *known == plural);
    let of_cloud = || plural.strip_suffix("nodeclasses").map(|cloud| format!("{cloud}NodeClass").into());
    listed.map(|(_, _, kind)| Cow::Borrowed(*kind)).or_else(of_cloud)
}

fn put(reader: &mut Reader, at: Timestamp, object: &Value, (version, kind): (&str, &str)) {
    let mut object = object.clone();
    (object["apiVersion"], object["kind"]) = (json!(version), json!(kind));
    if let Some(object) = projected(&object) {
        reader.put(at, object);
    }
}
