//! Objects of a trace as the simulator's API server takes them.

use std::{collections::BTreeSet, time::Duration};

use fleetwright_api::labels as names;
use fleetwright_core::model::labels;
use serde_json::{Map, Value, json};

use crate::input::object::set;

/// Annotations that replays keep: what users set.
const KEPT: [&str; 5] = [
    "karpenter.sh/do-not-disrupt",
    "controller.kubernetes.io/pod-deletion-cost",
    "storageclass.kubernetes.io/is-default-class",
    names::INITIALIZATION_TIMEOUT,
    names::BUDGET_TIME_ZONE,
];
/// How long a pod runs, for the simulated kubelet.
pub(super) const RUN_FOR: &str = "fleetwright.dev/run-for";
/// The group and version of the simulator's NodeClass.
const CLASS_VERSION: &str = "karpenter.kwok.sh/v1alpha1";

/// Kinds that are played beside pods. NodeClaims are the variant's own but for those of the start.
const PLAYED: [&str; 9] = [
    "NodePool",
    "NodeOverlay",
    "DaemonSet",
    "PodDisruptionBudget",
    "StorageClass",
    "LimitRange",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ResourceQuota",
];
/// Workloads, which are played where a trace does not have their pods.
const WORKLOADS: [&str; 5] = ["Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob"];

/// Whether a kind is played beside pods; where the trace does not have the pods of workloads, these are played.
pub(super) fn is_played(kind: &str, has_owned_pods: bool) -> bool {
    PLAYED.contains(&kind) || kind.ends_with("NodeClass") || (!has_owned_pods && WORKLOADS.contains(&kind))
}

/// The object without what an API server or a controller of another cluster wrote.
pub(super) fn clean(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(all) = object.as_object_mut() {
        all.remove("status");
    }
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.retain(|field, _| matches!(&**field, "name" | "namespace" | "labels" | "annotations"));
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| KEPT.contains(&&**key) || names::SET_BY_USERS.contains(&&**key));
        }
    }
    match object["kind"].as_str() {
        Some("NodePool") => {
            let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": object.pointer("/spec/template/spec/nodeClassRef/name")});
            if let Some(spec) = object.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) {
                spec.insert("nodeClassRef".to_owned(), class);
            }
        }
        Some(kind) if kind.ends_with("NodeClass") => {
            let name = object.pointer("/metadata/name").cloned();
            object =
                json!({"apiVersion": CLASS_VERSION, "kind": "KWOKNodeClass", "metadata": {"name": name}});
        }
        Some("PersistentVolume") => {
            if let Some(claim) = object.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
                claim.remove("uid");
            }
        }
        _ => {}
    }
    for path in ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"] {
        if let Some(spec) = object
            .pointer_mut(path)
            .and_then(Value::as_object_mut)
            .filter(|spec| spec.contains_key("containers"))
        {
            runnable(spec);
        }
    }
    object
}

/// The pod of a life: without its node, running as long as it did.
pub(super) fn pod(recorded: &Value, runs_for: Option<Duration>) -> Value {
    let mut pod = clean(recorded);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
        runnable(spec);
    }
    if let Some(time) = runs_for {
        self::runs_for(&mut pod, &[], time);
    }
    pod
}

/// Lets a pod, or each pod of the template to which these keys lead, end by itself after this time.
pub(super) fn runs_for(object: &mut Value, template: &[&str], time: Duration) {
    let keys = [template, &["metadata", "annotations", RUN_FOR]].concat();
    set(object, &keys, json!(format!("{}s", time.as_secs().max(1))));
}

/// Adds what an API server requires and no decision reads: images. A priority stands in the class that [`priority_class`] makes.
fn runnable(spec: &mut Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            set(container, &["image"], json!("recorded"));
        }
    }
    spec.remove("priorityClassName");
    if let Some(priority) =
        spec.remove("priority").and_then(|priority| priority.as_i64()).filter(|given| *given != 0)
    {
        spec.insert("priorityClassName".to_owned(), json!(class_name(priority)));
    }
}

fn class_name(priority: i64) -> String {
    // 2000000000 and above are the system's own.
    match priority {
        2_000_000_000 => "system-cluster-critical".to_owned(),
        2_000_001_000 => "system-node-critical".to_owned(),
        other if other < 0 => format!("replay-minus-{}", other.unsigned_abs()),
        other => format!("replay-{other}"),
    }
}

/// The priority of a pod or of a template, if it needs a class.
pub(super) fn priority(object: &Value) -> Option<i64> {
    let at =
        ["/spec/priority", "/spec/template/spec/priority", "/spec/jobTemplate/spec/template/spec/priority"];
    let priority = at.iter().find_map(|at| object.pointer(at)?.as_i64())?;
    (priority != 0 && priority < 2_000_000_000).then_some(priority)
}

/// The class of a priority.
pub(super) fn priority_class(priority: i64) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": class_name(priority)}, "value": priority})
}

/// A namespace.
pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// The NodeClasses that NodePools refer to.
pub(super) fn classes<'a>(objects: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let pools = objects.filter(|object| object["kind"] == "NodePool");
    pools
        .filter_map(|pool| Some(pool.pointer("/spec/template/spec/nodeClassRef/name")?.as_str()?.to_owned()))
        .collect()
}

/// A NodeClaim that is launched as the recorded one was: the same instance type, zone and capacity type. `None` where that has no node, or is being
/// deleted.
pub(super) fn launched_claim(recorded: &Value) -> Option<Value> {
    let has_node =
        recorded.pointer("/status/nodeName").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if recorded["kind"] != "NodeClaim"
        || !has_node
        || recorded.pointer("/metadata/deletionTimestamp").is_some()
    {
        return None;
    }
    let given = recorded.pointer("/metadata/labels")?;
    let offering = [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE]
        .map(|key| given.get(key).map(|value| json!({"key": key, "operator": "In", "values": [value]})));
    let requirements: Vec<Value> = offering.into_iter().collect::<Option<_>>()?;
    let of_pool = json!({labels::NODEPOOL: given.get(labels::NODEPOOL)?});
    let mut claim = clean(recorded);
    set(&mut claim, &["metadata", "labels"], of_pool);
    set(&mut claim, &["spec", "requirements"], json!(requirements));
    set(&mut claim, &["spec", "nodeClassRef", "group"], json!("karpenter.kwok.sh"));
    set(&mut claim, &["spec", "nodeClassRef", "kind"], json!("KWOKNodeClass"));
    Some(claim)
}

/// A NodeClass of the simulator.
pub(super) fn class(name: &str) -> Value {
    json!({"apiVersion": CLASS_VERSION, "kind": "KWOKNodeClass", "metadata": {"name": name}})
}
