//! What every cluster holds from its first second.

use serde_json::{Value, json};

use crate::object;
use crate::seeded::Seeded;
use crate::store::Key;
use crate::world::{Place, Target, World, Write};

/// Namespaces that a cluster is born with.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
/// Priority classes that a cluster is born with.
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

/// Creates the system namespaces, with UIDs that depend on the seed and the name alone, and the system
/// priority classes.
pub(crate) fn fill(world: &mut World) {
    for name in NAMESPACES {
        create(world, "namespaces.", json!({ "metadata": { "name": name } }));
    }
    for (name, value, description) in CLASSES {
        let class = json!({ "metadata": { "name": name }, "value": value, "description": description });
        create(world, "priorityclasses.scheduling.k8s.io", class);
    }
    world.settle();
}

fn create(world: &mut World, storage: &str, value: Value) {
    let Some(resource) = world.registry.of_storage(storage) else { return };
    let target = Target { resource, namespace: String::new(), name: String::new() };
    let name = object::name(&value).to_owned();
    if world.create(&target, value, &Write::internal("kube-apiserver")).is_err() {
        tracing::error!(name, "the server could not create its own object");
        return;
    }
    let place = Place { storage: storage.into(), key: Key::new("", &name) };
    if let Some(stored) = world.get(&place) {
        let mut stable = Value::clone(stored);
        object::put(&mut stable, &["metadata", "uid"], Seeded::named(world.config.seed, &name).uid());
        world.put(&place, stable);
    }
}
