//! Filters that consider one node without its topology: cordon, taints, affinity, ports, resources. In the order of kube-scheduler, with
//! its messages.

use k8s_openapi::api::core::v1::{Node, NodeSelectorTerm, PodSpec, Taint, Toleration};

use super::{
    node::NodeInfo,
    pod::{PodInfo, Port},
};
use crate::actors::selector::{self, Labels};

/// Why a node does not fit: one or more reasons.
pub(super) type Rejections = Vec<String>;

/// Whether a toleration covers a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if given(&toleration.effect).is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    match given(&toleration.key) {
        Some(key) if key != taint.key => return false,
        None if toleration.operator.as_deref() != Some("Exists") => return false,
        _ => {}
    }
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i64>().ok());
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or(""),
        "Gt" => {
            number(&taint.value).zip(number(&toleration.value)).is_some_and(|(taint, bound)| taint > bound)
        }
        "Lt" => {
            number(&taint.value).zip(number(&toleration.value)).is_some_and(|(taint, bound)| taint < bound)
        }
        _ => false,
    }
}

/// The first taint with one of these effects that no toleration covers.
pub(crate) fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    effects: &[&str],
) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// Whether the pod's node selector and required node affinity allow a node.
pub(crate) fn allowed(spec: &PodSpec, name: &str, labels: &Labels) -> bool {
    let plain = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    plain
        && required(spec)
            .is_none_or(|terms| terms.iter().any(|term| selector::term_selects(term, name, labels)))
}

fn required(spec: &PodSpec) -> Option<&[NodeSelectorTerm]> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(&required.node_selector_terms)
}

/// Whether a node is cordoned.
pub(crate) fn cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Whether the pod fits on the node, other nodes aside.
///
/// # Errors
/// The reasons, in kube-scheduler's words.
pub(super) fn node_fits(pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejections> {
    let empty = PodSpec::default();
    let spec = pod.spec().unwrap_or(&empty);
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let one = |reason: &str| Err(vec![reason.to_owned()]);
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if cordoned(&node.node) && !tolerations.iter().any(|toleration| tolerates(toleration, &cordon)) {
        return one("node(s) were unschedulable");
    }
    if let Some(taint) = untolerated(&node.taints, tolerations, &["NoSchedule", "NoExecute"]) {
        let value = taint.value.as_deref().unwrap_or_default();
        return Err(vec![format!("node(s) had untolerated taint {{{}: {value}}}", taint.key)]);
    }
    if !allowed(spec, &node.name, &node.labels) {
        return one("node(s) didn't match Pod's node affinity/selector");
    }
    if pod.ports.iter().any(|port| {
        node.pods
            .iter()
            .chain(node.reserved_from(pod))
            .flat_map(|other| &other.ports)
            .any(|used| clash(port, used))
    }) {
        return one("node(s) didn't have free ports for the requested pod ports");
    }
    resources(pod, node)
}

fn clash(one: &Port, two: &Port) -> bool {
    let anywhere = |address: &str| address == "0.0.0.0" || address == "::";
    (one.1 == two.1 && one.2 == two.2) && (one.0 == two.0 || anywhere(&one.0) || anywhere(&two.0))
}

fn resources(pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejections> {
    let mut free = node.allocatable.minus(&node.requested);
    node.reserved_from(pod).for_each(|other| free = free.minus(&other.requests));
    let short: Rejections = pod
        .requests
        .iter()
        .filter(|(name, wanted)| *wanted > 0 && *wanted > free.get(name))
        .map(|(name, _)| match name.as_str() {
            "pods" => "Too many pods".to_owned(),
            name => format!("Insufficient {name}"),
        })
        .collect();
    if short.is_empty() { Ok(()) } else { Err(short) }
}
