//! Nodes: TaintNodesByCondition and canonical capacities.

use serde_json::{Value, json};

use crate::object;

/// Taint of a node that is not ready yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Defaults of a node: allocatable equals capacity if absent.
pub(super) fn default(value: &mut Value) {
    if object::at(value, &["status", "allocatable"]).is_none()
        && let Some(capacity) = object::at(value, &["status", "capacity"]).cloned()
    {
        object::put(value, &["status", "allocatable"], capacity);
    }
    object::put_default(value, &["spec"], serde_json::Map::new());
}

/// New nodes are tainted until the node lifecycle controller sees them ready.
pub(super) fn admit(value: &mut Value) {
    let mut taints = object::list(value, &["spec", "taints"]).to_vec();
    let there = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    if !taints.iter().any(there) {
        taints.push(json!({ "key": NOT_READY, "effect": "NoSchedule" }));
        object::put(value, &["spec", "taints"], taints);
    }
}
