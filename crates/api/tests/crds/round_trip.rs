//! Objects through the Rust types: full ones survive unchanged, odd ones are read, unset fields are not written.

use fleetwright_api::{CapacityBuffer, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::review::Reviewer;

/// Every field of the kind, valid for its definition, comes out as it went in.
fn survives<T: Serialize + DeserializeOwned>(kind: &str, object: &Value) {
    assert_eq!(Reviewer::new(kind).review(object, None), Vec::<String>::new(), "{kind}");
    let read: T = serde_json::from_value(object.clone()).expect("readable");
    assert_eq!(&serde_json::to_value(read).expect("writable"), object, "{kind}");
}

fn condition() -> Value {
    json!({
        "type": "Ready", "status": "Unknown", "reason": "ReconcilingDependents", "message": "Launched=Unknown",
        "observedGeneration": 3, "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

/// A NodeClaim's spec but for the resources, in full.
fn nodes() -> Value {
    json!({
        "expireAfter": "Never",
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "a", "operator": "In", "values": ["x", "y"], "minValues": 2}],
        "startupTaints": [],
        "taints": [{"key": "a", "value": "b", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}],
        "terminationGracePeriod": "90m",
    })
}

#[test]
fn full_objects_survive() {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p", "generation": 3},
        "spec": {
            "disruption": {
                "budgets": [{"nodes": "5%", "reasons": ["Empty"], "schedule": "@daily", "duration": "1h30m"}],
                "consolidateAfter": "1h",
                "consolidationPolicy": "Balanced",
            },
            "limits": {"cpu": "1k", "memory": "10Gi"},
            "template": {"metadata": {"annotations": {}, "labels": {"a": "b"}}, "spec": nodes()},
            "weight": 7,
        },
        "status": {
            "conditions": [condition()], "nodeClassObservedGeneration": 4, "nodes": 0, "resources": {"cpu": "3"},
        },
    });
    survives::<NodePool>("NodePool", &pool);
    let mut spec = nodes();
    spec["resources"] = json!({"requests": {"cpu": "2100m", "pods": "5"}});
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c"},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "3900m"}, "capacity": {"cpu": "4"}, "conditions": [condition()],
            "imageID": "ami-1", "lastPodEventTime": "2026-01-02T03:04:05Z", "nodeName": "n", "providerID": "kwok://n",
        },
    });
    survives::<NodeClaim>("NodeClaim", &claim);
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"},
        "spec": {
            "requirements": [{"key": "a", "operator": "Gte", "values": ["3"]}],
            "priceAdjustment": "-10%", "capacity": {"example.com/x": "2"}, "weight": 10,
        },
        "status": {"conditions": [condition()]},
    });
    survives::<NodeOverlay>("NodeOverlay", &overlay);
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "b", "namespace": "n"},
        "spec": {
            "limits": {"cpu": "3"}, "percentage": 10, "replicas": 4,
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "d"},
        },
        "status": {
            "conditions": [condition()], "podTemplateGeneration": 2, "podTemplateRef": {"name": "t"},
            "provisioningStrategy": "s", "replicas": 4,
        },
    });
    survives::<CapacityBuffer>("CapacityBuffer", &buffer);
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "k"},
        "spec": {"nodeRegistrationDelay": "10s"}, "status": {"conditions": [condition()]},
    });
    survives::<KwokNodeClass>("KWOKNodeClass", &class);
}

/// What an older or newer definition admitted is read, and its odd values are kept.
#[test]
fn odd_objects_are_read() {
    let pool: NodePool = serde_json::from_value(json!({
        "metadata": {"name": "old"},
        "spec": {
            "disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h", "consolidateAfter": "?"},
            "limits": {"cpu": 1000},
            "template": {"spec": {
                "kubelet": {"maxPods": 10},
                "nodeClassRef": {"name": "default"},
                "requirements": [{"key": "a", "operator": "Near"}],
                "taints": [{"key": "a", "effect": ""}],
            }},
        },
        "status": {"conditions": [{"type": "Ready", "status": "Perhaps"}]},
    }))
    .unwrap();
    assert_eq!(pool.spec.disruption.consolidation_policy.as_str(), "WhenUnderutilized");
    assert_eq!(pool.spec.disruption.consolidate_after.unwrap().raw(), "?");
    assert_eq!(pool.spec.limits.unwrap()["cpu"].0, "1000");
    assert_eq!(pool.spec.template.spec.requirements[0].operator.as_str(), "Near");
    let class: KwokNodeClass = serde_json::from_value(json!({"metadata": {"name": "k"}})).unwrap();
    assert_eq!(class, KwokNodeClass::new("k", Default::default()));
    serde_json::from_value::<NodeClaim>(json!({"metadata": {}, "spec": {}})).unwrap();
}

#[test]
fn unset_fields_are_not_written() {
    let claim = serde_json::to_value(NodeClaim::new("c", Default::default())).unwrap();
    assert_eq!(
        claim["spec"],
        json!({"nodeClassRef": {"group": "", "kind": "", "name": ""}, "requirements": []}),
        "required fields are always there, others are not"
    );
    assert_eq!(claim.get("status"), None);
    let pool = serde_json::to_value(NodePool::new("p", Default::default())).unwrap();
    assert_eq!(pool["spec"]["disruption"], json!({"consolidationPolicy": "WhenEmptyOrUnderutilized"}));
    assert_eq!(pool["spec"]["template"].get("metadata"), None);
}
