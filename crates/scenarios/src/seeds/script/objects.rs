//! The objects that users apply.

use serde_json::{Value, json};

use crate::seeds::plan::Plan;

/// The taint of a user who manages nodes manually.
pub(super) const HAND: &str = "example.com/by-hand";

/// The undeclared taint that some nodes get.
pub(super) const LATE: &str = "example.com/late";

/// The annotation that protects a node.
const KEEP: &str = "karpenter.sh/do-not-disrupt";

/// The content of a secret that only pods may know.
pub(in crate::seeds) const SECRET: &str = "hunter2-of-this-run";

/// A deployment.
pub(super) fn deployment(app: &str, replicas: u32, protected: bool, spread: bool) -> Value {
    let cpu = match app {
        "api" => "900m",
        "batch" => "3",
        _ => "300m",
    };
    // Set explicitly: an absent field keeps its value.
    let guard = json!({"karpenter.sh/do-not-disrupt": if protected { "true" } else { "false" }});
    let labels = json!({"app": app});
    let constraints = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }]);
    let spread = if spread && app == "api" { constraints } else { json!([]) };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": guard},
                "spec": {
                    "topologySpreadConstraints": spread,
                    "containers": [{"name": "a", "image": "a", "env": [{"name": "TOKEN", "value": SECRET}],
                        "resources": {"requests": {"cpu": cpu, "memory": "200Mi"}}}],
                },
            },
        },
    })
}

/// A change of the prices of one capacity type.
pub(super) fn overlay(capacity_type: &str, adjustment: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "prices"},
        "spec": {
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]}],
            "priceAdjustment": adjustment,
        },
    })
}

/// Objects of a run besides its deployments.
pub(super) fn extras(plan: &Plan) -> Vec<Value> {
    let mut objects = Vec::new();
    if plan.replacers {
        objects.extend(super::replacers::objects());
    }
    if plan.budgets {
        objects.extend(["api", "web"].map(|app| {
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": app, "namespace": "default"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}},
            })
        }));
    }
    if plan.daemons {
        objects.push(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "kube-system"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {
                        "tolerations": [{"operator": "Exists"}],
                        "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "50m"}}}],
                    },
                },
            },
        }));
    }
    if plan.volumes {
        objects.push(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
            "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
        }));
        objects.push(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
            "spec": {
                "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
                "template": {
                    "metadata": {"labels": {"app": "db"}},
                    "spec": {"containers": [{"name": "a", "image": "a",
                        "resources": {"requests": {"cpu": "500m", "memory": "500Mi"}}}]},
                },
                "volumeClaimTemplates": [{
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
                        "resources": {"requests": {"storage": "1Gi"}}},
                }],
            },
        }));
    }
    objects
}

/// A node with an additional taint.
pub(super) fn tainted(node: &Value) -> Value {
    let mut taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    if !taints.iter().any(|taint| taint["key"] == HAND) {
        taints.push(json!({"key": HAND, "effect": "NoSchedule"}));
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": node["metadata"]["name"]},
        "spec": {"taints": taints},
    })
}

/// Whether a node has a command and is neither deleted nor protected.
pub(super) fn is_taken(node: &Value) -> bool {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let tainted = taints.into_iter().flatten().any(|taint| taint["key"] == "karpenter.sh/disrupted");
    tainted && node.pointer("/metadata/deletionTimestamp").is_none() && !is_protected(node)
}

/// Whether a node is protected.
pub(super) fn is_protected(node: &Value) -> bool {
    node["metadata"]["annotations"][KEEP] == "true"
}

/// A node with or without protection.
pub(super) fn protected(node: &Value, protect: bool) -> Value {
    let value = protect.then_some("true");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node["metadata"]["name"], "annotations": { KEEP: value }},
    })
}

/// A node without the taints of users and faults; `None` if it has none.
pub(super) fn untouched(node: &Value) -> Option<Value> {
    let mut taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned()?;
    let before = taints.len();
    taints.retain(|taint| taint["key"] != HAND && taint["key"] != LATE);
    let object = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": node["metadata"]["name"]},
        "spec": {"taints": taints},
    });
    (taints_len(&object) < before).then_some(object)
}

fn taints_len(node: &Value) -> usize {
    node.pointer("/spec/taints").and_then(Value::as_array).map_or(0, Vec::len)
}
