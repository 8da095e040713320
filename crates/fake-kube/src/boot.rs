//! The initial objects of every cluster.

use serde_json::{Value, json};

use crate::cluster::{ClusterState, Place, Target, Write};
use crate::seeded::Seeded;
use crate::store::Key;
use crate::verbs::create;
use crate::{gc, object};

/// The initial namespaces.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
/// The initial priority classes.
const CLASSES: &[(&str, i64, &str)] = &[
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// Creates the system namespaces, with UIDs from the seed and the name, and the system priority classes.
pub(crate) fn fill(cluster: &mut ClusterState) {
    for name in NAMESPACES {
        create(cluster, "namespaces.", json!({ "metadata": { "name": name } }));
    }
    for (name, value, description) in CLASSES {
        let class = json!({ "metadata": { "name": name }, "value": value, "description": description });
        create(cluster, "priorityclasses.scheduling.k8s.io", class);
    }
    gc::run_chores(cluster);
}

fn create(cluster: &mut ClusterState, storage: &str, value: Value) {
    let Some(resource) = cluster.registry.of_storage(storage) else { return };
    let target = Target { resource, namespace: String::new(), name: String::new() };
    let name = object::name(&value).to_owned();
    if create::create(cluster, &target, value, &Write::internal("kube-apiserver")).is_err() {
        tracing::error!(name, "the server could not create its own object");
        return;
    }
    let place = Place { storage: storage.into(), key: Key::new("", &name) };
    if let Some(stored) = cluster.get(&place) {
        let mut stable = Value::clone(stored);
        object::put(&mut stable, &["metadata", "uid"], Seeded::named(cluster.config.seed, &name).uid());
        cluster.put(&place, stable);
    }
}
