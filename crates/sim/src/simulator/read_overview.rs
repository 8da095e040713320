//! Reads an [`Overview`] from the API server and the cloud.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::{
    cloud::GroundTruth,
    model::{Price, Quantity, ResourceName, Resources},
};
use fleetwright_fake_kube::Server;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    actors::pod_requests,
    overview::{ClaimCounts, NodeOverview, NodePhase, Overview, PodCounts},
};

/// Reads the overview.
pub(super) fn read_overview(server: &Server, instances: &[Arc<GroundTruth>], at: Timestamp) -> Overview {
    let mut by_node: BTreeMap<String, (Resources, usize)> = BTreeMap::new();
    let mut pods = PodCounts::default();
    for pod in server.list("v1", "Pod", "") {
        let node = text(&pod, "/spec/nodeName");
        count(&pod, node, &mut pods);
        if !node.is_empty() && !matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed") {
            let on = by_node.entry(node.to_owned()).or_default();
            on.0.add_assign(&pod_requests(&pod));
            on.1 = on.1.saturating_add(1);
        }
    }
    let instances_by_id: BTreeMap<&str, &GroundTruth> =
        instances.iter().map(|instance| (instance.provider_id.as_str(), &**instance)).collect();
    let mut nodes: Vec<NodeOverview> = server
        .list("v1", "Node", "")
        .iter()
        .filter(|node| !text(node, "/metadata/labels/karpenter.sh~1nodepool").is_empty())
        .map(|node| read_node(node, &by_node, &instances_by_id))
        .collect();
    let claims = server.list("karpenter.sh/v1", "NodeClaim", "");
    let names: BTreeMap<&str, &str> = claims
        .iter()
        .map(|claim| (text(claim, "/status/providerID"), text(claim, "/metadata/name")))
        .collect();
    for node in &mut nodes {
        let id = std::mem::take(&mut node.claim);
        node.claim = names.get(id.as_str()).copied().unwrap_or_default().to_owned();
    }
    nodes.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let paid = instances.iter().filter(|instance| !instance.terminating);
    let hourly = paid.map(|instance| instance.price.nanos()).fold(0_i64, i64::saturating_add);
    Overview {
        at,
        nodes,
        claims: count_claims(&claims),
        pods,
        hourly: Price::from_nanos(hourly),
        ..Overview::default()
    }
}

fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

fn holds(object: &Value, name: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == name && condition["status"] == "True")
}

fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

fn count(pod: &Value, node: &str, pods: &mut PodCounts) {
    let of = match text(pod, "/status/phase") {
        "Succeeded" | "Failed" => &mut pods.ended,
        _ if is_deleting(pod) => &mut pods.terminating,
        "Running" => &mut pods.running,
        _ if node.is_empty() => &mut pods.pending,
        _ => &mut pods.starting,
    };
    *of = of.saturating_add(1);
}

/// A node. Its field `claim` has the provider id, until the caller replaces it by the NodeClaim's name.
fn read_node(
    node: &Value,
    by_node: &BTreeMap<String, (Resources, usize)>,
    instances: &BTreeMap<&str, &GroundTruth>,
) -> NodeOverview {
    let label = |name: &str| {
        let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
        labels.and_then(|labels| labels.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let name = text(node, "/metadata/name").to_owned();
    let id = text(node, "/spec/providerID").to_owned();
    let (requested, pods) = by_node.get(&name).cloned().unwrap_or_default();
    let instance = instances.get(id.as_str());
    NodeOverview {
        pool: label("karpenter.sh/nodepool"),
        instance_type: label("node.kubernetes.io/instance-type"),
        zone: label("topology.kubernetes.io/zone"),
        capacity_type: label("karpenter.sh/capacity-type"),
        price: instance.map_or(Price::ZERO, |instance| instance.price),
        phase: phase(node),
        allocatable: supply(node.pointer("/status/allocatable")),
        requested,
        pods,
        created: text(node, "/metadata/creationTimestamp").parse().unwrap_or_default(),
        claim: id,
        name,
    }
}

fn phase(node: &Value) -> NodePhase {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let disrupted = taints.into_iter().flatten().any(|taint| taint["key"] == "karpenter.sh/disrupted");
    if is_deleting(node) {
        NodePhase::Draining
    } else if disrupted {
        NodePhase::Disrupted
    } else if holds(node, "Ready") {
        NodePhase::Ready
    } else {
        NodePhase::Starting
    }
}

fn supply(list: Option<&Value>) -> Resources {
    let mut supply = Resources::new();
    for (name, amount) in list.and_then(Value::as_object).into_iter().flatten() {
        let name = ResourceName::from(name.as_str());
        if let Some(amount) = amount.as_str().and_then(|text| text.parse::<Quantity>().ok()) {
            supply.set(&name, name.supply(amount));
        }
    }
    supply
}

fn count_claims(claims: &[Arc<Value>]) -> ClaimCounts {
    let mut counts = ClaimCounts::default();
    for claim in claims {
        let of = if is_deleting(claim) {
            &mut counts.deleting
        } else if !holds(claim, "Launched") {
            &mut counts.launching
        } else if !holds(claim, "Registered") {
            &mut counts.registering
        } else if !holds(claim, "Initialized") {
            &mut counts.initializing
        } else {
            &mut counts.initialized
        };
        *of = of.saturating_add(1);
    }
    counts
}
