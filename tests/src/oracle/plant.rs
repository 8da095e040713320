//! Planted faults: what the planner does not see. kube-scheduler sees everything, and has to find out.

use serde_json::{Value, json};

use super::feature::Feature;
use super::generator::is_pending;

/// A planted fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plant {
    pub(super) name: &'static str,
    /// Clusters without this feature cannot show it.
    pub(super) feature: Feature,
    /// What the planner is blind to.
    pub(super) what: &'static str,
    change: fn(&mut Vec<Value>),
}

/// All planted faults, at least one per feature that can make kube-scheduler refuse a pod. Preferences and the order of
/// priorities refuse nothing, so there is none for them.
pub(super) const PLANTS: [Plant; 16] = [
    Plant::new("zone-spread", Feature::ZoneSpread, "spreads over zones", |all| {
        drop_spreads(all, "topology.kubernetes.io/zone")
    }),
    Plant::new("host-spread", Feature::HostSpread, "spreads over host names", |all| {
        drop_spreads(all, "kubernetes.io/hostname")
    }),
    Plant::new(
        "spread-policies",
        Feature::SpreadPolicies,
        "nodeAffinityPolicy and nodeTaintsPolicy, which it reads the other way round",
        |all| turn_policies(all),
    ),
    Plant::new("affinity", Feature::Affinity, "required pod affinity", |all| {
        drop_affinity(all, "podAffinity")
    }),
    Plant::new("anti-affinity", Feature::AntiAffinity, "required pod anti-affinity", |all| {
        drop_affinity(all, "podAntiAffinity")
    }),
    Plant::new("taints", Feature::Taints, "taints: all pods tolerate them", |all| tolerate(all)),
    Plant::new("node-affinity", Feature::NodeSelectors, "required node affinity", |all| {
        drop_affinity(all, "nodeAffinity")
    }),
    Plant::new("node-selector", Feature::Taints, "node selectors", |all| drop_node_selectors(all)),
    Plant::new("volume-zone", Feature::Volumes, "zones of volumes", |all| drop_volume_zones(all)),
    Plant::new("class-zones", Feature::Volumes, "allowedTopologies of classes", |all| drop_class_zones(all)),
    Plant::new("host-ports", Feature::HostPorts, "host ports", |all| drop_ports(all)),
    Plant::new("daemon-sets", Feature::DaemonSets, "DaemonSets", |all| {
        all.retain(|each| each["kind"] != "DaemonSet")
    }),
    Plant::new("running-pods", Feature::HalfFullNodes, "pods that run", |all| {
        all.retain(|each| each["kind"] != "Pod" || is_pending(each))
    }),
    Plant::new("terminating-pods", Feature::Rollouts, "pods that are being deleted", drop_terminating),
    Plant::new("revisions", Feature::Rollouts, "matchLabelKeys", |all| drop_match_label_keys(all)),
    Plant::new("pool-zones", Feature::Pools, "zones of existing nodes, which it takes for others", |all| {
        turn_zones(all)
    }),
];

impl Plant {
    const fn new(
        name: &'static str,
        feature: Feature,
        what: &'static str,
        change: fn(&mut Vec<Value>),
    ) -> Self {
        Self { name, feature, what, change }
    }

    /// Changes what the planner sees.
    pub(super) fn alter(self, objects: &mut Vec<Value>) {
        (self.change)(objects);
    }

    /// Changes what is seen of one object; faults that leave objects out leave it as it is.
    pub(super) fn alter_one(self, object: &mut Value) {
        let mut alone = vec![object.take()];
        let before = alone.clone();
        self.alter(&mut alone);
        *object = if alone.is_empty() { before } else { alone }.swap_remove(0);
    }

    /// Whether it changes objects, each by itself, so that it can be planted in what is read from an API server.
    pub(super) fn changes_objects(self) -> bool {
        !["daemon-sets", "running-pods", "terminating-pods"].contains(&self.name)
    }
}

fn pods(objects: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    objects.iter_mut().filter(|object| object["kind"] == "Pod")
}

fn spreads(objects: &mut [Value]) -> impl Iterator<Item = &mut Vec<Value>> {
    pods(objects).filter_map(|pod| pod["spec"].get_mut("topologySpreadConstraints")?.as_array_mut())
}

fn drop_spreads(objects: &mut [Value], key: &str) {
    spreads(objects).for_each(|spreads| spreads.retain(|spread| spread["topologyKey"] != key));
}

fn turn_policies(objects: &mut [Value]) {
    for spread in spreads(objects).flatten() {
        for (policy, default) in [("nodeAffinityPolicy", "Honor"), ("nodeTaintsPolicy", "Ignore")] {
            let is_honored = spread[policy].as_str().unwrap_or(default) == "Honor";
            spread[policy] = json!(if is_honored { "Ignore" } else { "Honor" });
        }
    }
}

fn drop_match_label_keys(objects: &mut [Value]) {
    for spread in spreads(objects).flatten() {
        if let Some(spread) = spread.as_object_mut() {
            spread.remove("matchLabelKeys");
        }
    }
}

fn drop_affinity(objects: &mut [Value], kind: &str) {
    for pod in pods(objects) {
        if let Some(affinity) = pod["spec"].get_mut("affinity").and_then(Value::as_object_mut) {
            affinity.remove(kind);
        }
    }
}

fn tolerate(objects: &mut [Value]) {
    pods(objects).for_each(|pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]));
}

fn drop_node_selectors(objects: &mut [Value]) {
    for pod in pods(objects) {
        if let Some(spec) = pod["spec"].as_object_mut() {
            spec.remove("nodeSelector");
        }
    }
}

fn drop_volume_zones(objects: &mut [Value]) {
    for volume in objects.iter_mut().filter(|object| object["kind"] == "PersistentVolume") {
        if let Some(spec) = volume["spec"].as_object_mut() {
            spec.remove("nodeAffinity");
        }
    }
}

fn drop_class_zones(objects: &mut [Value]) {
    for class in objects.iter_mut().filter(|object| object["kind"] == "StorageClass") {
        if let Some(class) = class.as_object_mut() {
            class.remove("allowedTopologies");
        }
    }
}

fn drop_ports(objects: &mut [Value]) {
    for pod in pods(objects) {
        for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("ports");
            }
        }
    }
}

fn drop_terminating(objects: &mut Vec<Value>) {
    objects.retain(|each| each["kind"] != "Pod" || each["metadata"]["deletionTimestamp"].is_null());
}

/// Zones of nodes one further.
fn turn_zones(objects: &mut [Value]) {
    let turned = |zone: &str| match zone {
        "test-zone-a" => "test-zone-b",
        "test-zone-b" => "test-zone-c",
        _ => "test-zone-a",
    };
    for node in objects.iter_mut().filter(|object| object["kind"] == "Node") {
        let zone = &mut node["metadata"]["labels"]["topology.kubernetes.io/zone"];
        *zone = json!(turned(zone.as_str().unwrap_or_default()));
    }
}
