//! The short form of the scenarios of `disrupt`: one document with `pools`, `nodes`, `pods` and full `objects`.
//!
//! A node is a NodeClaim, its Node and the pods on it. For anything else, a merge
//! patch applies to the expanded object: `object` of a NodePool, Node or pod, `claim` of a NodeClaim. Times are of the first
//! day of 2026, `11:00` for short.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    #[serde(default)]
    pools: Vec<Pool>,
    #[serde(default)]
    nodes: Vec<Node>,
    /// Pods without a node.
    #[serde(default)]
    pods: Vec<Pod>,
    /// Objects in full.
    #[serde(default)]
    objects: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pool {
    #[serde(default = "default_name")]
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default = "on_demand_only")]
    capacity: Vec<String>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    zones: Vec<String>,
    /// `spec.disruption`.
    disruption: Value,
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    name: String,
    #[serde(rename = "type")]
    instance_type: String,
    /// In place of that of the instance type.
    memory: Option<String>,
    #[serde(default = "default_name")]
    pool: String,
    #[serde(default = "zone_a")]
    zone: String,
    #[serde(default = "on_demand")]
    capacity: String,
    /// When the node was registered and initialized; its NodeClaim was created a minute before.
    #[serde(default = "eleven")]
    since: String,
    #[serde(default)]
    initialized: Initialized,
    /// Since when the node has drifted.
    drifted: Option<String>,
    #[serde(rename = "driftReason", default = "drifted")]
    drift_reason: String,
    /// Hash of the NodePool, in version 3.
    hash: Option<String>,
    #[serde(default)]
    pods: Vec<Pod>,
    #[serde(default)]
    claim: Value,
    #[serde(default)]
    object: Value,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
enum Initialized {
    #[default]
    True,
    /// The condition is Unknown.
    Unknown,
    /// There is no condition, and no label.
    Missing,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pod {
    name: String,
    cpu: Option<String>,
    memory: Option<String>,
    /// When it started, on a node.
    #[serde(default = "a_minute_later")]
    since: String,
    #[serde(default)]
    object: Value,
}

fn default_name() -> String {
    "default".to_owned()
}

fn on_demand_only() -> Vec<String> {
    vec![on_demand()]
}

fn on_demand() -> String {
    "on-demand".to_owned()
}

fn zone_a() -> String {
    "test-zone-a".to_owned()
}

fn eleven() -> String {
    "11:00".to_owned()
}

fn a_minute_later() -> String {
    "11:01".to_owned()
}

fn drifted() -> String {
    "Drifted".to_owned()
}

/// Returns the manifests of a scenario: as they are, or those of its short form.
pub(super) fn manifests(text: &str) -> String {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_default();
    let [document] = &documents[..] else { return text.to_owned() };
    if document.get("nodes").or_else(|| document.get("pools")).is_none() {
        return text.to_owned();
    }
    let cluster: Cluster = serde_saphyr::from_str(text).unwrap();
    let mut objects: Vec<Value> = cluster.pools.iter().map(pool).collect();
    objects.extend(cluster.nodes.iter().flat_map(node));
    objects.extend(cluster.pods.iter().map(|short| pod(short, None)));
    objects.extend(cluster.objects);
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

fn pool(short: &Pool) -> Value {
    let wanted = [
        ("karpenter.sh/capacity-type", &short.capacity),
        ("topology.kubernetes.io/zone", &short.zones),
        ("kubernetes.io/os", &vec!["linux".to_owned()]),
        ("kubernetes.io/arch", &vec!["amd64".to_owned()]),
        ("node.kubernetes.io/instance-type", &short.types),
    ];
    let requirements: Vec<Value> = wanted
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(key, values)| json!({ "key": key, "operator": "In", "values": values }))
        .collect();
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": short.name, "annotations": short.annotations },
        "spec": {
            "disruption": short.disruption,
            "template": { "spec": { "nodeClassRef": class(), "expireAfter": "Never", "requirements": requirements } },
        },
    });
    merged(pool, &short.object)
}

fn class() -> Value {
    json!({ "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" })
}

fn node(short: &Node) -> Vec<Value> {
    let Node { name, instance_type, .. } = short;
    let since = time(&short.since);
    let created = since.parse::<jiff::Timestamp>().unwrap() - jiff::SignedDuration::from_mins(1);
    let mut labels = json!({
        "karpenter.sh/nodepool": short.pool,
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": short.zone,
        "karpenter.sh/capacity-type": short.capacity,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "karpenter.sh/registered": "true",
    });
    if short.initialized != Initialized::Missing {
        labels["karpenter.sh/initialized"] = json!("true");
    }
    let capacity = capacity(instance_type, short.memory.as_deref());
    let mut annotations = json!({});
    if let Some(hash) = &short.hash {
        annotations =
            json!({ "karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": "v3" });
    }
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "creationTimestamp": created, "labels": labels, "annotations": annotations,
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "nodeClassRef": class(),
            "requirements": [
                { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type] },
            ],
            "resources": { "requests": { "cpu": "1" } },
        },
        "status": {
            "providerID": format!("kwok://{name}"), "nodeName": name, "capacity": capacity, "allocatable": capacity,
            "conditions": conditions(short, &since),
        },
    });
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "creationTimestamp": since, "labels": labels },
        "spec": { "providerID": format!("kwok://{name}") },
        "status": {
            "capacity": capacity, "allocatable": capacity, "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    let mut all = vec![merged(claim, &short.claim), merged(object, &short.object)];
    all.extend(short.pods.iter().map(|short| pod(short, Some(name))));
    all
}

fn conditions(short: &Node, since: &str) -> Vec<Value> {
    let condition = |kind: &str, status: &str, reason: &str, since: &str| json!({ "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": since });
    let mut all: Vec<Value> =
        ["Launched", "Registered"].iter().map(|kind| condition(kind, "True", kind, since)).collect();
    let status = match short.initialized {
        Initialized::True => "True",
        Initialized::Unknown => "Unknown",
        Initialized::Missing => return all,
    };
    all.extend(["Initialized", "Ready"].iter().map(|kind| condition(kind, status, kind, since)));
    let drifted = short.drifted.iter().map(|at| condition("Drifted", "True", &short.drift_reason, &time(at)));
    all.extend(drifted);
    all
}

/// Of `c-4x-amd64-linux`: 4 CPUs, and 2 GiB for each.
fn capacity(instance_type: &str, memory: Option<&str>) -> Value {
    let mut words = instance_type.split(['-', 'x']);
    let per_cpu = match words.next() {
        Some("c") => 2,
        Some("m" | "s") => 4,
        family => panic!("instance type {instance_type}: family {family:?}"),
    };
    let cpus: u32 = words.next().and_then(|size| size.parse().ok()).expect("the number of CPUs");
    let memory = memory.map_or_else(|| format!("{}Gi", per_cpu * cpus), str::to_owned);
    json!({ "cpu": cpus.to_string(), "memory": memory, "pods": "110" })
}

fn pod(short: &Pod, node: Option<&str>) -> Value {
    let mut requests = json!({});
    for (name, amount) in [("cpu", &short.cpu), ("memory", &short.memory)] {
        if let Some(amount) = amount {
            requests[name] = json!(amount);
        }
    }
    let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true });
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": short.name, "labels": { "app": short.name }, "ownerReferences": [owner] },
        "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }] },
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({
            "phase": "Running", "startTime": time(&short.since),
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "PodScheduled", "status": "True" }],
        });
    }
    merged(pod, &short.object)
}

/// `11:00`, or a full time.
fn time(text: &str) -> String {
    if text.len() == 5 { format!("2026-01-01T{text}:00Z") } else { text.to_owned() }
}

fn merged(mut object: Value, patch: &Value) -> Value {
    if !patch.is_null() {
        json_patch::merge(&mut object, patch);
    }
    object
}
