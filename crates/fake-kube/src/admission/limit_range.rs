//! The plugin LimitRanger, as far as it gives defaults: what a container of a new pod does not request or limit, its namespace's
//! LimitRanges do. Minimum, maximum and ratio are not enforced.

use serde_json::{Map, Value};

use crate::{cluster::ClusterState, object};

/// Defaults of a LimitRange: limits follow the maximum; requests follow the limits, then the minimum.
pub(super) fn default(value: &mut Value) {
    let limits = object::at_mut(value, &["spec", "limits"]).and_then(Value::as_array_mut);
    for item in limits.into_iter().flatten().filter(|item| item["type"] == "Container") {
        for (list, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            fill(item, &[list], item.get(from).and_then(Value::as_object).cloned());
        }
    }
}

/// Adds the defaults of the namespace's LimitRanges to the containers of a pod. Given values are kept; of several LimitRanges the first
/// by name counts.
pub(super) fn admit(cluster: &ClusterState, value: &mut Value) {
    let namespace = object::text(value, &["metadata", "namespace"]).to_owned();
    let ranges: Vec<Value> =
        cluster.scan("limitranges.", &namespace).map(|range| (**range).clone()).collect();
    let items = ranges.iter().flat_map(|range| object::list(range, &["spec", "limits"]));
    for item in items.filter(|item| item["type"] == "Container") {
        for list in ["initContainers", "containers"] {
            let containers = object::at_mut(value, &["spec", list]).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                for (to, from) in [("limits", "default"), ("requests", "defaultRequest")] {
                    fill(container, &["resources", to], item.get(from).and_then(Value::as_object).cloned());
                }
            }
        }
    }
}

fn fill(value: &mut Value, path: &[&str], defaults: Option<Map<String, Value>>) {
    for (name, amount) in defaults.into_iter().flatten() {
        object::put_default(value, &[path, &[name.as_str()]].concat(), amount);
    }
}
