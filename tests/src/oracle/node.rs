//! Nodes as objects: what a kubelet and the launch of a NodeClaim would have written.

use serde_json::{Map, Value, json};

use super::catalogue::InstanceType;

/// A node.
#[derive(Debug, Clone)]
pub(super) struct NodeSpec {
    pub(super) name: String,
    pub(super) pool: String,
    pub(super) instance_type: InstanceType,
    pub(super) zone: String,
    pub(super) capacity_type: String,
    /// Those beyond the ones that every node has.
    pub(super) labels: Map<String, Value>,
    pub(super) taints: Value,
}

impl NodeSpec {
    fn labels(&self) -> Map<String, Value> {
        let mut labels = self.labels.clone();
        for (key, value) in [
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", self.instance_type.architecture),
            ("node.kubernetes.io/instance-type", &self.instance_type.name),
            ("topology.kubernetes.io/zone", &self.zone),
            ("karpenter.sh/capacity-type", &self.capacity_type),
            ("karpenter.sh/nodepool", &self.pool),
            ("karpenter.sh/registered", "true"),
            ("karpenter.sh/initialized", "true"),
        ] {
            labels.insert(key.to_owned(), json!(value));
        }
        labels
    }
}

/// The Node and its NodeClaim, ready.
pub(super) fn manifests(node: &NodeSpec) -> [Value; 2] {
    let (capacity, allocatable) = (node.instance_type.capacity(), node.instance_type.allocatable());
    let provider_id = format!("kwok://{}", node.name);
    let labels = Value::Object(node.labels());
    let conditions = ["Launched", "Registered", "Initialized"].map(|kind| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    [
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node.name, "labels": labels},
            "spec": {"providerID": provider_id, "taints": node.taints},
            "status": {
                "capacity": capacity,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
            },
        }),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": node.name, "labels": labels},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [],
                "taints": node.taints,
            },
            "status": {
                "providerID": provider_id, "nodeName": node.name,
                "capacity": capacity, "allocatable": allocatable, "conditions": conditions,
            },
        }),
    ]
}
