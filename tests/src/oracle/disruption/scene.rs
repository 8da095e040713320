//! A generated cluster for a control plane with controllers: its pods become those of ReplicaSets, and no node exists yet.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::dice::Dice;
use super::super::generator::Cluster;
use crate::e2e::judge::name;

/// How long a node has to be stable before consolidation takes it. A pod that moves is bound before that.
const CONSOLIDATE_AFTER: &str = "3s";

/// The share of its nodes that a NodePool may lose at a time.
const BUDGETS: [&str; 3] = ["20%", "50%", "100%"];

/// What is created, in this order.
pub(super) struct Scene {
    /// Classes, volumes, DaemonSets.
    pub(super) surroundings: Vec<Value>,
    /// They do not consolidate yet.
    pub(super) node_pools: Vec<Value>,
    pub(super) replica_sets: Vec<Value>,
    dice: Dice,
}

impl Scene {
    /// The scene of a cluster. What is chosen by chance depends on the name of the cluster alone, which is that of its file.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let seed =
            cluster.name.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let mut scene = Self {
            surroundings: Vec::new(),
            node_pools: Vec::new(),
            replica_sets: Vec::new(),
            dice: Dice::new(seed),
        };
        let mut sets: BTreeMap<String, Value> = BTreeMap::new();
        for object in &cluster.objects {
            match object["kind"].as_str() {
                Some("Pod") => add_pod(&mut sets, object),
                Some("NodePool") => {
                    let mut pool = object.clone();
                    pool["spec"]["disruption"] = disruption("Never", scene.dice.pick(BUDGETS));
                    scene.node_pools.push(pool);
                }
                Some("PriorityClass" | "StorageClass" | "PersistentVolume" | "DaemonSet") => {
                    scene.surroundings.push(object.clone());
                }
                Some("PersistentVolumeClaim") => scene.surroundings.push(unbound(object)),
                _ => {}
            }
        }
        scene.replica_sets = sets.into_values().collect();
        scene
    }

    /// How many pods there are.
    pub(super) fn pods(&self) -> u64 {
        self.replica_sets.iter().map(replicas).sum()
    }

    /// The replicas of a seeded choice of ReplicaSets, with which a third of the `running` pods is left out. By name; the others stay.
    pub(super) fn reduced(&self, running: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut dice = self.dice.clone();
        let mut order: Vec<(&String, u64)> = running.iter().map(|(name, count)| (name, *count)).collect();
        dice.shuffle(&mut order);
        let mut left = running.values().sum::<u64>() / 3;
        let mut reduced = BTreeMap::new();
        // Each loses half of its pods or more; a second round takes the rest where that is too little.
        for least in [2, 1] {
            for (name, count) in &mut order {
                let lost = dice.between(count.div_ceil(least), *count).min(left);
                (*count, left) = (*count - lost, left - lost);
                if lost > 0 {
                    reduced.insert((*name).clone(), *count);
                }
            }
        }
        reduced
    }
}

/// The NodePool once it may consolidate.
pub(super) fn consolidating(pool: &Value) -> Value {
    let mut pool = pool.clone();
    pool["spec"]["disruption"]["consolidateAfter"] = json!(CONSOLIDATE_AFTER);
    pool
}

/// `spec.replicas`.
pub(super) fn replicas(set: &Value) -> u64 {
    set["spec"]["replicas"].as_u64().unwrap_or_default()
}

fn disruption(consolidate_after: &str, budget: &str) -> Value {
    json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": consolidate_after,
        "budgets": [{"nodes": budget}],
    })
}

/// Counts a pod as one of its ReplicaSet: that of its workload and revision, or its own where it has a volume of its own. Pods of
/// DaemonSets come from their controller, and pods that are being deleted do not come back.
fn add_pod(sets: &mut BTreeMap<String, Value>, pod: &Value) {
    let meta = &pod["metadata"];
    if !meta["ownerReferences"].is_null() || !meta["deletionTimestamp"].is_null() {
        return;
    }
    let mut labels = meta["labels"].clone();
    let own = name(pod);
    let set_name = if pod["spec"]["volumes"].is_null() {
        let part = |key: &str| labels[key].as_str().unwrap_or_default().to_owned();
        format!("{}-{}", part("app"), part("pod-template-hash"))
    } else {
        labels["pod"] = json!(own);
        own
    };
    let set = sets.entry(set_name.clone()).or_insert_with(|| {
        let mut spec = pod["spec"].clone();
        if let Some(spec) = spec.as_object_mut() {
            // The API server fills in those of the class, and the node is for kube-scheduler to choose.
            for field in ["nodeName", "priority", "preemptionPolicy"] {
                spec.remove(field);
            }
        }
        spec["terminationGracePeriodSeconds"] = json!(1);
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": set_name, "namespace": "default"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        })
    });
    set["spec"]["replicas"] = json!(replicas(set) + 1);
}

/// A claim that the volume controller binds: it takes one that is said to be bound, to a volume that does not name its UID, for lost.
fn unbound(claim: &Value) -> Value {
    let mut claim = claim.clone();
    if let Some(claim) = claim.as_object_mut() {
        claim.remove("status");
    }
    if let Some(meta) = claim["metadata"].as_object_mut() {
        meta.remove("annotations");
    }
    claim
}

#[cfg(test)]
mod tests {
    use super::super::super::generator::{cluster, is_pending};
    use super::*;

    #[test]
    fn every_pending_pod_becomes_one_of_a_replica_set() {
        for cluster in (0..60).map(cluster) {
            let scene = Scene::new(&cluster);
            let pending = cluster.objects.iter().filter(|object| is_pending(object)).count();
            assert!(scene.pods() >= u64::try_from(pending).unwrap(), "{}", cluster.name);
            for set in &scene.replica_sets {
                assert_eq!(
                    set["spec"]["selector"]["matchLabels"],
                    set["spec"]["template"]["metadata"]["labels"]
                );
                let has_volume = !set["spec"]["template"]["spec"]["volumes"].is_null();
                assert!(!has_volume || replicas(set) == 1, "{}: {} share a volume", cluster.name, name(set));
            }
        }
    }

    #[test]
    fn the_load_goes_down_by_a_third() {
        for cluster in (0..60).map(cluster) {
            let scene = Scene::new(&cluster);
            let running: BTreeMap<String, u64> =
                scene.replica_sets.iter().map(|set| (name(set), replicas(set))).collect();
            let reduced = scene.reduced(&running);
            assert_eq!(reduced, Scene::new(&cluster).reduced(&running), "the name decides");
            let lost: u64 = reduced.iter().map(|(name, count)| running[name] - count).sum();
            assert_eq!(lost, scene.pods() / 3, "{}", cluster.name);
            assert!(reduced.len() < running.len(), "{}: some workloads stay", cluster.name);
        }
    }

    #[test]
    fn nothing_is_consolidated_before_the_load_goes_down() {
        let scene = Scene::new(&cluster(3));
        let after = |pool: &Value| pool["spec"]["disruption"]["consolidateAfter"].clone();
        assert!(!scene.node_pools.is_empty() && scene.node_pools.iter().all(|pool| after(pool) == "Never"));
        assert!(scene.node_pools.iter().map(consolidating).all(|pool| after(&pool) == CONSOLIDATE_AFTER));
    }
}
