//! The objects that the cases apply. Each is a complete manifest; cases change the field that they are about.

use serde_json::{Value, json};

/// The NodeClass that every pool of the fake cloud refers to.
pub(crate) fn node_class() -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "spec": {},
    })
}

/// A NodePool of instances with `cpus` CPUs, whose empty nodes go away at once.
pub(crate) fn node_pool(name: &str, cpus: u32) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": [cpus.to_string()]},
                ],
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}],
            },
        },
    })
}

/// A Deployment whose pods ask for `cpu` and run only on instances of `pool`.
pub(crate) fn deployment(namespace: &str, name: &str, pool: &str, replicas: u32, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(pool, cpu)},
        },
    })
}

/// A single pod for instances of `pool`.
pub(crate) fn pod(namespace: &str, name: &str, pool: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": pod_spec(pool, cpu),
    })
}

fn pod_spec(pool: &str, cpu: &str) -> Value {
    json!({
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"karpenter.sh/nodepool": pool},
        "containers": [{
            "name": "app",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        }],
    })
}

/// A budget for the pods of the Deployment `app`.
pub(crate) fn disruption_budget(namespace: &str, app: &str, unavailable: u32) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": app},
        "spec": {"maxUnavailable": unavailable, "selector": {"matchLabels": {"app": app}}},
    })
}

/// A namespace of a case.
pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
