//! The pods of a workload, made from its template as its controller would make them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    Item, Source,
    object::{id_of, namespace_of},
};

/// The workload that owns pods.
pub(super) struct Owner<'a> {
    pub(super) workload: &'a Value,
    pub(super) kind: &'a str,
    pub(super) group: &'a str,
}

/// What the pods are made from.
pub(super) struct Made<'a> {
    pub(super) template: &'a Map<String, Value>,
    /// A pod that the workload has.
    pub(super) like: Option<&'a Value>,
    pub(super) source: &'a Source,
    /// Namespaces and names that are taken.
    pub(super) names: &'a BTreeSet<(String, String)>,
    /// Namespaces and names of the PersistentVolumeClaims of the input.
    pub(super) claims: &'a BTreeSet<(String, String)>,
}

/// The PersistentVolumeClaims of the input.
pub(super) fn claims_of(items: &[Item]) -> BTreeSet<(String, String)> {
    let claims = items.iter().filter(|item| item.value["kind"] == "PersistentVolumeClaim");
    claims.map(|item| id_of(&item.value)).collect()
}

/// Whether a workload counts a pod as its own: by its selector or, without one, by the labels of its template.
pub(super) fn selects<'a>(
    workload: &'a Value,
    template: &'a Map<String, Value>,
) -> impl Fn(&Value) -> bool + 'a {
    let selector = &workload["spec"]["selector"];
    let name = workload.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let kind = workload["kind"].as_str().unwrap_or_default();
    move |pod: &Value| {
        let labels = &pod["metadata"]["labels"];
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut owners = owners.into_iter().flatten().filter(|owner| owner["controller"] == true);
        if matches!(kind, "Job" | "CronJob") {
            return owners.any(|owner| owner["kind"] == kind && owner["name"] == name);
        }
        let matched = if selector["matchLabels"].is_object() || selector["matchExpressions"].is_array() {
            selects_labels(selector, labels)
        } else {
            // A ReplicationController has the labels themselves; a manifest may have none.
            let plain = selector.as_object().or_else(|| template.get("metadata")?.get("labels")?.as_object());
            plain.is_some_and(|plain| !plain.is_empty() && plain.iter().all(has(labels)))
        };
        // A pod of another controller is not adopted.
        let foreign =
            |owner: &Value| owner["kind"] != kind && !(kind == "Deployment" && owner["kind"] == "ReplicaSet");
        matched && !owners.any(foreign)
    }
}

/// Whether a label selector selects labels. One without terms selects all.
pub(crate) fn selects_labels(selector: &Value, labels: &Value) -> bool {
    selector["matchLabels"].as_object().is_none_or(|wanted| wanted.iter().all(has(labels)))
        && selector["matchExpressions"]
            .as_array()
            .is_none_or(|all| all.iter().all(|wanted| meets(wanted, labels)))
}

fn has(labels: &Value) -> impl Fn((&String, &Value)) -> bool {
    move |(key, value)| labels[key.as_str()] == *value
}

/// Whether labels meet an expression of a selector.
fn meets(wanted: &Value, labels: &Value) -> bool {
    let value = wanted["key"].as_str().and_then(|key| labels[key].as_str());
    let values: Vec<&str> =
        wanted["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match wanted["operator"].as_str() {
        Some("In") => value.is_some_and(|value| values.contains(&value)),
        Some("NotIn") => value.is_none_or(|value| !values.contains(&value)),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        _ => false,
    }
}

/// `count` pods, each before it the PersistentVolumeClaims of a StatefulSet.
pub(super) fn pods(owner: &Owner<'_>, made: &Made<'_>, count: usize) -> Vec<Item> {
    let namespace = namespace_of(owner.workload);
    let first = match owner.kind {
        "StatefulSet" => owner.workload.pointer("/spec/ordinals/start").and_then(Value::as_u64).unwrap_or(0),
        _ => 1,
    };
    // As the controllers name them: a Deployment's are those of its ReplicaSet.
    let base = owner_of(owner).1;
    let mut found = Vec::new();
    let mut ordinals = first..;
    for _ in 0..count {
        let free = |ordinal: &u64| !made.names.contains(&(namespace.clone(), format!("{base}-{ordinal}")));
        let Some(ordinal) = ordinals.find(free) else { break };
        let name = format!("{base}-{ordinal}");
        let mut pod = pod(owner, made, &namespace, &name);
        if owner.kind == "StatefulSet" {
            found.extend(volumes(owner.workload, made, (&namespace, &name), &mut pod));
        }
        found.push(Item { value: pod, source: made.source.clone() });
    }
    found
}

fn pod(owner: &Owner<'_>, made: &Made<'_>, namespace: &str, name: &str) -> Value {
    let meta = made.template.get("metadata").unwrap_or(&Value::Null);
    let mut labels = meta["labels"].as_object().cloned().unwrap_or_default();
    // What spread constraints with matchLabelKeys compare.
    for key in ["pod-template-hash", "controller-revision-hash"] {
        let of_like = made.like.map(|pod| pod["metadata"]["labels"][key].clone()).filter(Value::is_string);
        let planned = || (owner.kind == "Deployment" && key == "pod-template-hash").then(|| json!("planned"));
        if let Some(value) = of_like.or_else(planned) {
            labels.insert(key.to_owned(), value);
        }
    }
    let (kind, owner_name) = owner_of(owner);
    let version = if owner.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", owner.group) };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": meta["annotations"],
            "ownerReferences": [{
                "apiVersion": version, "kind": kind, "name": owner_name, "uid": format!("{namespace}/{owner_name}"),
                "controller": true,
            }],
        },
        "spec": made.template.get("spec").cloned().unwrap_or(Value::Null),
        "status": {"phase": "Pending", "conditions": [unschedulable()]},
    })
}

/// Kind and name of the controller of the pods.
pub(super) fn owner_of<'a>(owner: &Owner<'a>) -> (&'a str, String) {
    let base = owner.workload.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    match owner.kind {
        "Deployment" => ("ReplicaSet", format!("{base}-planned")),
        "CronJob" => ("Job", format!("{base}-planned")),
        kind => (kind, base.to_owned()),
    }
}

/// The PersistentVolumeClaims of a pod of a StatefulSet that the input does not have, and the volumes that name them.
fn volumes(
    workload: &Value,
    made: &Made<'_>,
    (namespace, pod_name): (&str, &str),
    pod: &mut Value,
) -> Vec<Item> {
    let templates = workload.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let mut found = Vec::new();
    for template in templates.into_iter().flatten() {
        let Some(volume) = template.pointer("/metadata/name").and_then(Value::as_str) else { continue };
        let name = format!("{volume}-{pod_name}");
        if let Some(spec) = pod["spec"].as_object_mut() {
            let all = spec.entry("volumes").or_insert_with(|| json!([]));
            if all.is_null() {
                *all = json!([]);
            }
            if let Some(all) = all.as_array_mut() {
                all.retain(|known| known["name"] != volume);
                all.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
            }
        }
        if made.claims.contains(&(namespace.to_owned(), name.clone())) {
            continue;
        }
        let value = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name, "namespace": namespace,
                "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        });
        found.push(Item { value, source: made.source.clone() });
    }
    found
}

/// The condition with which kube-scheduler marks a pod that fits no node.
fn unschedulable() -> Value {
    json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"})
}
