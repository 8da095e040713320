//! Conditions and events: conditions of Fleetwright that report a problem, and a scenario's expectations.

use std::sync::Arc;

use fleetwright_fake_kube::Server;
use serde_json::Value;

use super::Expect;

/// Conditions that are in the report while they are not True.
const SHOWN: [(&str, &str, &str); 7] = [
    ("karpenter.k8s.aws/v1", "EC2NodeClass", "Ready"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass", "ClusterIdentityProven"),
    ("karpenter.sh/v1", "NodePool", "NodesAsExpected"),
    ("karpenter.sh/v1", "NodePool", "InitializationHealthy"),
    ("karpenter.sh/v1", "NodePool", "DriftWithinCap"),
    ("karpenter.sh/v1", "NodeClaim", "PodsFit"),
    ("karpenter.sh/v1", "NodeClaim", "InitializedInTime"),
];
/// Kinds whose conditions a scenario may expect.
const KINDS: [(&str, &str); 7] = [
    ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass"),
    ("karpenter.sh/v1alpha1", "NodeOverlay"),
    ("karpenter.sh/v1", "NodeClaim"),
    ("karpenter.sh/v1", "NodePool"),
    ("v1", "Node"),
];

fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}

/// One line for each condition of Fleetwright that reports a problem.
pub(super) fn troubles(server: &Server) -> Vec<String> {
    let mut lines = Vec::new();
    for (version, kind, condition) in SHOWN {
        for object in server.list(version, kind, "") {
            let found = conditions(&object).find(|c| c["type"] == condition && c["status"] != "True");
            lines.extend(found.map(|found| {
                format!(
                    "{kind} {}: {condition} {} {}: {}",
                    text(&object, "/metadata/name"),
                    text(found, "/status"),
                    text(found, "/reason"),
                    text(found, "/message"),
                )
            }));
        }
    }
    lines
}

/// Expectations about events and conditions that are not met.
pub(super) fn missing(server: &Server, expect: &Expect) -> Vec<String> {
    let events = server.list("v1", "Event", "");
    let is_published = |wanted: &str| {
        let (reason, words) = wanted.split_once(": ").unwrap_or((wanted, ""));
        events.iter().any(|event| event["reason"] == reason && text(event, "/message").contains(words))
    };
    let mut missing = Vec::new();
    for wanted in expect.events.iter().filter(|wanted| !is_published(wanted)) {
        missing.push(format!("events: {wanted:?} was not published"));
    }
    for unwanted in expect.no_events.iter().filter(|unwanted| is_published(unwanted)) {
        missing.push(format!("events: {unwanted:?} was published"));
    }
    for wanted in expect.conditions.iter().filter(|wanted| !has(server, wanted)) {
        missing.push(format!("conditions: no object has {wanted:?}; found {:?}", all(server, wanted)));
    }
    missing
}

fn has(server: &Server, wanted: &str) -> bool {
    all(server, wanted)
        .iter()
        .any(|found| found == wanted || found.split_once('/').is_some_and(|(status, _)| status == wanted))
}

/// All values of the condition in `wanted`.
fn all(server: &Server, wanted: &str) -> Vec<String> {
    let Some((kind, rest)) = wanted.split_once(' ') else { return Vec::new() };
    let name = rest.split_once('=').map_or(rest, |(name, _)| name);
    let Some((version, kind)) = KINDS.iter().find(|(_, known)| *known == kind) else { return Vec::new() };
    let objects: Vec<Arc<Value>> = server.list(version, kind, "");
    let of = |object: &Arc<Value>| -> Vec<String> {
        conditions(object)
            .filter(|condition| condition["type"] == name)
            .map(|found| format!("{kind} {name}={}/{}", text(found, "/status"), text(found, "/reason")))
            .collect()
    };
    objects.iter().flat_map(of).collect()
}
