//! Stands in for the kubelet of a server.

use fleetwright_core::cloud::jiff::Timestamp;
use pebble_autoscaler::api::Server;
use serde_json::{Value, json};

use crate::stub;

/// The node that a server registers: what its user data describe, and what a kubelet adds.
pub fn node(server: &Server) -> Value {
    let sold = stub::types().into_iter().find(|sold| sold.name == server.server_type).unwrap();
    let labels = stub::flag(&server.user_data, "node-labels");
    let mut labels: Value = labels.iter().filter_map(|label| label.split_once('=')).collect();
    labels["kubernetes.io/hostname"] = server.id.as_str().into();
    let taint = |text: &&str| {
        let (key, effect) = text.split_once(':').unwrap();
        let (key, value) = key.split_once('=').unwrap_or((key, ""));
        json!({"key": key, "value": value, "effect": effect})
    };
    let taints: Vec<Value> =
        stub::flag(&server.user_data, "register-with-taints").iter().map(taint).collect();
    let capacity =
        json!({"cpu": sold.cpus.to_string(), "memory": format!("{}Gi", sold.memory_gib), "pods": "110"});
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": server.id, "labels": labels},
        "spec": {"providerID": format!("pebble:///{}/{}", server.zone, server.id), "taints": taints},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready("KubeletReady")]}})
}

/// The condition `Ready` of a node or a pod, as of now.
pub fn ready(reason: &str) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut condition =
        json!({"type": "Ready", "status": "True", "reason": reason, "lastTransitionTime": now});
    if reason == "KubeletReady" {
        condition["lastHeartbeatTime"] = now.into();
    }
    condition
}
