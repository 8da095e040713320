//! `DaemonSet`s, and their pods on existing nodes.

use serde_json::{Value, json};

use super::super::feature::Feature;
use super::super::{daemons, node};
use super::Draft;
use super::nodes::Existing;

/// Adds up to two `DaemonSet`s.
pub(super) fn add(draft: &mut Draft) -> Vec<Value> {
    if !draft.has(Feature::DaemonSets) {
        return Vec::new();
    }
    let count = draft.dice.between(1, 2);
    let sets: Vec<Value> = (0..count).map(|number| daemon_set(draft, number)).collect();
    draft.objects.extend(sets.iter().cloned());
    sets
}

fn daemon_set(draft: &mut Draft, number: u64) -> Value {
    let dice = &mut draft.dice;
    let name = format!("daemon{number}");
    let cpu = dice.pick([200, 500, 900]);
    let memory = dice.pick([128, 512]);
    let selector = match dice.between(0, 3) {
        0 => json!({"topology.kubernetes.io/zone": "test-zone-a"}),
        1 => json!({"karpenter.sh/capacity-type": "on-demand"}),
        _ => json!({}),
    };
    let tolerations = if dice.chance(50) { json!([{"operator": "Exists"}]) } else { json!([]) };
    let ports = if dice.chance(40) {
        json!([{"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"}])
    } else {
        json!([])
    };
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "uid": format!("00000000-0000-0000-0000-00000000000{number}")},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": selector,
                    "tolerations": tolerations,
                    "containers": [{
                        "name": "main", "image": "none", "ports": ports,
                        "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}},
                    }],
                },
            },
        },
    })
}

/// Adds the pods of `sets` on the existing nodes; a node that has no room for one has none.
pub(super) fn run(draft: &mut Draft, sets: &[Value], nodes: &mut [Existing]) {
    for each in nodes {
        let [manifest, _] = node::manifests(&each.spec);
        for set in sets {
            let Some(pod) = daemons::pod(set, &manifest) else { continue };
            let (cpu, memory) = requests(&pod);
            if each.take(cpu, memory) {
                draft.objects.push(pod);
            }
        }
    }
}

/// Millicores and MiB of a pod that this module made.
fn requests(pod: &Value) -> (u64, u64) {
    let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
    let number = |key: &str, unit: &str| {
        requests[key].as_str().and_then(|text| text.strip_suffix(unit)?.parse().ok()).unwrap_or(0)
    };
    (number("cpu", "m"), number("memory", "Mi"))
}
