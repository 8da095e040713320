//! Workloads: pods that are alike, with the constraints of some features.

mod constraints;

use serde_json::{Map, Value, json};

use super::super::feature::Feature;
use super::Draft;
use super::volumes::{self, Source};

/// A group of equal pods.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    pub(super) app: String,
    /// Pending pods.
    pub(super) replicas: u64,
    /// Pods that run already, of an older revision.
    pub(super) running: u64,
    /// How many of those are being deleted.
    pub(super) terminating: u64,
    /// Millicores.
    pub(super) cpu: u64,
    /// MiB.
    pub(super) memory: u64,
    pub(super) volumes: Option<Source>,
    pub(super) host_port: Option<Value>,
    /// Further fields of the pod's spec.
    pub(super) spec: Map<String, Value>,
}

impl Workload {
    /// A workload without constraints.
    pub(super) fn plain(app: &str, replicas: u64) -> Self {
        Self {
            app: app.to_owned(),
            replicas,
            running: 0,
            terminating: 0,
            cpu: 500,
            memory: 512,
            volumes: None,
            host_port: None,
            spec: Map::new(),
        }
    }

    /// The selector of its pods.
    fn selector(&self) -> Value {
        json!({"matchLabels": {"app": self.app}})
    }

    /// The list at `path` below the spec, made where it is not there.
    fn list(&mut self, path: &[&str]) -> &mut Vec<Value> {
        let (first, rest) = path.split_first().unwrap_or((&"", &[]));
        let mut value = self.spec.entry((*first).to_owned()).or_insert(Value::Null);
        for key in rest {
            value = &mut value[*key];
        }
        if !value.is_array() {
            *value = json!([]);
        }
        match value {
            Value::Array(list) => list,
            _ => unreachable!("it was just made a list"),
        }
    }
}

/// The priority classes: name and value.
const PRIORITIES: [(&str, i64); 2] = [("high", 1000), ("middle", 500)];

/// Draws workloads for about `pending` pods. Each feature that workloads can have is that of at least one of them.
pub(super) fn draw(draft: &mut Draft, pending: u64) -> Vec<Workload> {
    if draft.has(Feature::Volumes) {
        volumes::add_classes(draft);
    }
    if draft.has(Feature::Priorities) {
        draft.objects.extend(PRIORITIES.iter().map(|(name, value)| {
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                "value": value, "preemptionPolicy": "Never"})
        }));
    }
    let count = draft.dice.between(4, 9);
    let mut workloads: Vec<Workload> =
        (0..count).map(|number| sized(draft, number, pending / count)).collect();
    let features: Vec<Feature> =
        draft.features.iter().copied().filter(|each| each.is_of_workloads()).collect();
    let mut apps: Vec<String> = workloads.iter().map(|workload| workload.app.clone()).collect();
    apps.truncate(3);
    for (feature, owner) in features.into_iter().zip((0..workloads.len()).cycle()) {
        for (number, workload) in workloads.iter_mut().enumerate() {
            if number == owner || draft.dice.chance(25) {
                constraints::add(&mut draft.dice, feature, workload, &apps);
            }
        }
    }
    let mut left = pending;
    for workload in &mut workloads {
        workload.replicas = workload.replicas.min(left);
        left -= workload.replicas;
    }
    workloads
}

fn sized(draft: &mut Draft, number: u64, share: u64) -> Workload {
    let dice = &mut draft.dice;
    let mut workload = Workload::plain(&format!("w{number}"), dice.between(2, (2 * share).max(3)));
    workload.cpu = dice.pick([200, 300, 500, 700, 1000, 1500, 2300]);
    workload.memory = dice.pick([128, 512, 1024, 2000, 5000]);
    workload
}
