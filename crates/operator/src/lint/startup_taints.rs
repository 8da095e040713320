//! L106: registered nodes with a taint that a component removes while a node starts, and that their NodePool may not announce.

use std::borrow::Cow;

use serde_json::Value;

use super::{LintReport, cluster::pool_item};
use crate::input::Item;

/// Taints of starting nodes that Kubernetes, the cloud and Karpenter give and remove themselves, and their owners: no NodePool lists them.
const BUILT_IN: [(&str, &str); 4] = [
    ("node.cloudprovider.kubernetes.io/uninitialized", "the cloud-controller-manager"),
    ("node.kubernetes.io/network-unavailable", "the network plugin or the route controller of the cloud"),
    ("node.kubernetes.io/not-ready", "the kubelet with its network plugin"),
    ("karpenter.sh/unregistered", "the controller"),
];
/// Taints that agents remove once they run, and the agents.
const OF_AGENTS: [(&str, &str); 6] = [
    ("node.cilium.io/agent-not-ready", "the agent of Cilium"),
    ("ebs.csi.aws.com/agent-not-ready", "the node plugin of the EBS CSI driver"),
    ("efs.csi.aws.com/agent-not-ready", "the node plugin of the EFS CSI driver"),
    ("fsx.csi.aws.com/agent-not-ready", "the node plugin of the FSx CSI driver"),
    ("s3.csi.aws.com/agent-not-ready", "the node plugin of the S3 CSI driver"),
    ("cni.istio.io/not-ready", "the CNI plugin of Istio"),
];
/// The ends of the keys of other such taints, as agents name them by convention.
const AGENT_SUFFIXES: [&str; 2] = ["/agent-not-ready", "/not-ready"];
/// The start of the keys of the node readiness controller.
const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Adds the findings.
pub(super) fn check(items: &[Item], report: &mut LintReport) {
    for item in items.iter().filter(|item| item.value["kind"] == "Node") {
        let labels = &item.value["metadata"]["labels"];
        if labels["karpenter.sh/registered"] != "true" || labels["karpenter.sh/initialized"] == "true" {
            continue;
        }
        let pool = labels["karpenter.sh/nodepool"].as_str().unwrap_or_default();
        let announced = pool_item(items, pool).map(|pool| &pool.value);
        let taints = item.value.pointer("/spec/taints").and_then(Value::as_array);
        for (at, taint) in taints.into_iter().flatten().enumerate() {
            let key = taint["key"].as_str().unwrap_or_default();
            let is_announced = announced.is_some_and(|pool| announces(pool, taint));
            let Some((owner, is_built_in)) = owner(key, is_announced) else { continue };
            let fix = if is_announced || is_built_in {
                format!("see whether {owner} runs for the node and tolerates its taints")
            } else {
                format!(
                    "see whether {owner} runs there, and list the taint in spec.template.spec.startupTaints of the NodePool"
                )
            };
            report.add(
                "L106",
                item,
                &format!("spec.taints[{at}]"),
                format!("the node is registered and still has the taint {key}: {owner} has not removed it"),
                fix,
            );
        }
    }
}

/// Whether a NodePool has a taint among its startup taints.
fn announces(pool: &Value, taint: &Value) -> bool {
    let startup = pool.pointer("/spec/template/spec/startupTaints").and_then(Value::as_array);
    let is_same = |known: &Value| (&known["key"], &known["effect"]) == (&taint["key"], &taint["effect"]);
    startup.into_iter().flatten().any(is_same)
}

/// What removes a taint of a starting node, and whether that is a part of every cluster; `None` for other taints.
fn owner(key: &str, is_announced: bool) -> Option<(Cow<'static, str>, bool)> {
    let of_list = |list: &[(&'static str, &'static str)]| {
        list.iter().find(|(known, _)| *known == key).map(|(_, owner)| Cow::Borrowed(*owner))
    };
    if let Some(owner) = of_list(&BUILT_IN) {
        return Some((owner, true));
    }
    if key.starts_with(READINESS_PREFIX) {
        return Some(("the node readiness controller".into(), true));
    }
    let by_suffix = || {
        let domain = AGENT_SUFFIXES.iter().find_map(|suffix| key.strip_suffix(suffix))?;
        Some(Cow::Owned(format!("the agent of {domain}")))
    };
    let of_agent = of_list(&OF_AGENTS).or_else(by_suffix);
    // A startup taint of the NodePool has an owner that only the user knows.
    let owner = of_agent.or_else(|| is_announced.then(|| "its owner".into()))?;
    Some((owner, false))
}
