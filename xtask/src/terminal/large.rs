//! A dump of 10,000 nodes: each has its NodeClaim and a pod.

use serde_json::{Value, json};

/// Nodes of the dump.
const NODES: usize = 10_000;

/// The dump, as `fleetwright dump` writes it.
pub(super) fn dump() -> String {
    let first = [
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}}}}),
    ];
    let objects = first.into_iter().chain((0..NODES).flat_map(of_node));
    let lines: Vec<String> = objects.map(|object| object.to_string()).collect();
    let meta = json!({"annotations": {"fleetwright.dev/dump-taken-at": "2026-01-01T12:00:00Z"}});
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{meta},\"items\":[\n{}\n]}}\n",
        lines.join(",\n")
    )
}

/// A NodeClaim, its Node and a pod. Types, ages and shares differ.
fn of_node(number: usize) -> [Value; 3] {
    let name = format!("node-{number:05}");
    let (cpu, memory) = if number.is_multiple_of(3) { ("8", "16Gi") } else { ("4", "8Gi") };
    let created = format!("2026-01-01T{:02}:{:02}:00Z", number % 12, number % 60);
    let labels = json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        "node.kubernetes.io/instance-type": format!("c-{cpu}x-amd64-linux"),
        "topology.kubernetes.io/zone": format!("test-zone-{}", ["a", "b", "c"][number % 3]),
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
    });
    let meta = json!({"name": name, "uid": name, "creationTimestamp": created, "labels": labels});
    let resources = json!({"cpu": cpu, "memory": memory, "pods": "110"});
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": created});
    let conditions = ["Launched", "Registered", "Initialized"].map(condition);
    let provider = format!("kwok://{name}");
    let requests = json!({"cpu": format!("{}m", 100 + number * 7919 % 3000), "memory": "1Gi"});
    [
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": meta, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
            "status": {"providerID": provider, "nodeName": name, "capacity": resources, "allocatable": resources,
                "conditions": conditions}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"providerID": provider},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{number:05}"), "namespace": "shop", "uid": format!("web-{number:05}"),
            "creationTimestamp": created, "labels": {"app": "web"}}, "spec": {"nodeName": name,
            "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}}),
    ]
}
