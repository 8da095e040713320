//! NodeClaim: one row per rule, pattern, enum and limit.

use serde_json::{Value, json};

use crate::nodepool::{node_rows, requirement_rows};
use crate::review::{Row, check, check_updates, defaulted, schema};

fn base() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-x"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        },
    })
}

#[test]
fn spec() {
    let at = "/spec/requirements";
    let mut rows = requirement_rows(at);
    rows.extend(node_rows(|field| match field {
        "taints" => "/spec/taints",
        "startupTaints" => "/spec/startupTaints",
        "nodeClassRef" => "/spec/nodeClassRef",
        "expireAfter" => "/spec/expireAfter",
        _ => "/spec/terminationGracePeriod",
    }));
    let pool = json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}]);
    rows.extend([
        (at, pool, ""),
        ("/spec", Value::Null, "spec is required"),
        ("/spec/resources", json!({}), ""),
        ("/spec/resources", json!({"requests": {"cpu": "2100m", "pods": 5}}), ""),
        ("/spec/resources", json!({"requests": {"cpu": "1 core"}}), "pattern"),
    ]);
    check("NodeClaim", &base(), &rows);
}

#[test]
fn defaults() {
    let full = defaulted(&schema("NodeClaim"), &base());
    assert_eq!(full["spec"]["expireAfter"], "720h");
}

#[test]
fn the_spec_never_changes() {
    let rows: &[(Row, Value)] = &[
        (("/spec/terminationGracePeriod", json!("1h"), ""), json!("1h")),
        (("/spec/terminationGracePeriod", json!("2h"), "spec is immutable"), json!("1h")),
        (("/spec/terminationGracePeriod", json!("2h"), "spec is immutable"), Value::Null),
        (("/metadata/labels", json!({"a": "b"}), ""), Value::Null),
        (("/status/nodeName", json!("n"), ""), Value::Null),
    ];
    check_updates("NodeClaim", &base(), rows);
}

/// Conditions as Karpenter wrote them before they had reasons are still accepted.
#[test]
fn status() {
    let at = "/status/conditions";
    let old = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let with = |reason: &str| json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": reason}]);
    let rows: &[Row] = &[
        (at, old, ""),
        (at, with(""), ""),
        (at, with("Ready"), ""),
        (at, with("not a word"), "pattern"),
        (at, json!([{"type": "Ready", "status": "True"}]), "lastTransitionTime is required"),
        (at, json!([{"type": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}]), "status is required"),
        ("/status/capacity", json!({"cpu": "4", "memory": "16Gi"}), ""),
        ("/status/allocatable", json!({"cpu": "?"}), "pattern"),
        ("/status/lastPodEventTime", json!("2026-01-01T00:00:00Z"), ""),
        ("/status/imageID", json!("ami-1"), ""),
        ("/status/providerID", json!(7), "wrong type"),
    ];
    check("NodeClaim", &base(), rows);
}
