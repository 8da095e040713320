//! Pods of workloads.

use serde_json::{Value, json};

use super::nodes::Existing;
use super::{Draft, Workload, volumes};

/// Adds the pods of `workload`: those of the older revision on `nodes`, as far as there is room, and the pending ones.
pub(super) fn add(draft: &mut Draft, workload: &Workload, nodes: &mut [Existing]) {
    for number in 0..workload.running {
        let order = draft.dice.between(0, u64::try_from(nodes.len()).unwrap_or(1).saturating_sub(1));
        let Some(node) = nodes.get_mut(usize::try_from(order).unwrap_or(0)) else { break };
        if !node.take(workload.cpu, workload.memory) {
            continue;
        }
        let mut old = pod(workload, &format!("{}-old{number}", workload.app), "old");
        old["spec"]["nodeName"] = json!(node.spec.name);
        if number < workload.terminating {
            old["metadata"]["deletionTimestamp"] = json!("2099-01-01T00:00:00Z");
            old["metadata"]["deletionGracePeriodSeconds"] = json!(3600);
        }
        draft.objects.push(old);
    }
    for number in 0..workload.replicas {
        let name = format!("{}-{number}", workload.app);
        let mut pod = pod(workload, &name, "new");
        if let Some(source) = workload.volumes {
            pod["spec"]["volumes"] = volumes::add(draft, &name, source);
        }
        draft.objects.push(pod);
    }
}

/// Fills existing nodes by up to three quarters, each by one pod.
pub(super) fn fill(draft: &mut Draft, nodes: &mut [Existing]) {
    for (node, number) in nodes.iter_mut().zip(0_u64..) {
        let mut filler = Workload::plain(&format!("filler{number}"), 1);
        filler.cpu = node.cpu * draft.dice.between(20, 75) / 100;
        filler.memory = node.memory * draft.dice.between(20, 75) / 100;
        if node.take(filler.cpu, filler.memory) {
            let mut pod = pod(&filler, &format!("{}-0", filler.app), "new");
            pod["spec"]["nodeName"] = json!(node.spec.name);
            draft.objects.push(pod);
        }
    }
}

fn pod(workload: &Workload, name: &str, revision: &str) -> Value {
    let mut spec = Value::Object(workload.spec.clone());
    let mut container = json!({
        "name": "main", "image": "none",
        "resources": {"requests": {
            "cpu": format!("{}m", workload.cpu),
            "memory": format!("{}Mi", workload.memory),
        }},
    });
    if let Some(port) = &workload.host_port {
        container["ports"] = json!([port]);
    }
    spec["containers"] = json!([container]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {"app": workload.app, "pod-template-hash": revision},
        },
        "spec": spec,
    })
}
