//! NodePools.

use serde_json::{Value, json};

use super::super::feature::Feature;
use super::Draft;

/// The taint of the tainted NodePool.
pub(super) const TAINT: (&str, &str) = ("dedicated", "batch");

/// A NodePool, as far as nodes of it have to be made.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) name: &'static str,
    pub(super) architecture: &'static str,
    pub(super) zones: Vec<&'static str>,
    pub(super) labels: Value,
    pub(super) taints: Vec<Value>,
}

/// Adds the NodePools and their class.
pub(super) fn add(draft: &mut Draft) -> Vec<Pool> {
    draft.objects.push(json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
    }));
    let all = super::super::catalogue::ZONES.to_vec();
    let pool = |name, architecture, zones: Vec<&'static str>| Pool {
        name,
        architecture,
        zones,
        labels: json!({}),
        taints: Vec::new(),
    };
    let mut pools = vec![(pool("default", "amd64", all.clone()), 0)];
    if draft.has(Feature::Pools) {
        let mut blue = pool("blue", "amd64", vec!["test-zone-a", "test-zone-b"]);
        blue.labels = json!({"team": "blue"});
        let weight = draft.dice.pick([0, 10]);
        pools.push((blue, weight));
        pools.push((pool("arm", "arm64", all.clone()), 0));
    }
    if draft.has(Feature::Taints) {
        let mut batch = pool("batch", "amd64", all.clone());
        batch.taints = vec![json!({"key": TAINT.0, "value": TAINT.1, "effect": "NoSchedule"})];
        let weight = draft.dice.pick([0, 20]);
        pools.push((batch, weight));
    }
    if draft.has(Feature::Preferences) {
        let mut soft = pool("soft", "amd64", all);
        soft.taints = vec![json!({"key": "soft", "value": "yes", "effect": "PreferNoSchedule"})];
        pools.push((soft, 5));
    }
    let capacity_types =
        if draft.dice.chance(50) { json!(["on-demand"]) } else { json!(["on-demand", "spot"]) };
    for (pool, weight) in &pools {
        draft.objects.push(manifest(pool, *weight, &capacity_types));
    }
    pools.into_iter().map(|(pool, _)| pool).collect()
}

fn manifest(pool: &Pool, weight: u64, capacity_types: &Value) -> Value {
    let mut spec = json!({"template": {
        "metadata": {"labels": pool.labels},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "taints": pool.taints,
            "requirements": [
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": [pool.architecture]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": pool.zones},
            ],
        },
    }});
    if weight > 0 {
        spec["weight"] = json!(weight);
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name}, "spec": spec})
}
