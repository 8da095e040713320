//! Bugs between an operator and its API server: fields are removed from requests or answers.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use serde_json::{Map, Value, json};

use super::Bug;
use fleetwright_sim::simulator::Distortion;

/// After this many pods, all pods are reported as finished.
const PODS: u64 = 200;
/// After this many pools, the inputs of the hash change.
const POOLS: u64 = 40;

/// A connection with a bug.
pub(super) struct DistortedConnection {
    pub(super) bug: Bug,
    /// The number of received objects of the bug's kind.
    pub(super) received: AtomicU64,
}

/// The map at a path within an object.
fn map<'a>(object: &'a mut Value, at: &str) -> Option<&'a mut Map<String, Value>> {
    object.pointer_mut(at).and_then(Value::as_object_mut)
}

fn remove(object: &mut Value, at: &str, key: &str) {
    if let Some(map) = map(object, at) {
        map.remove(key);
    }
}

fn is_owned_by(object: &Value, kind: &str) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner["kind"] == kind)
}

/// Whether a patch only replaces taints, by a list without the disruption taint.
fn takes_taint_off(body: &Value) -> bool {
    let alone = body.pointer("/metadata").and_then(Value::as_object).is_some_and(|meta| meta.len() == 1);
    let taints = body.pointer("/spec/taints").and_then(Value::as_array);
    alone && taints.is_some_and(|taints| taints.iter().all(|taint| taint["key"] != "karpenter.sh/disrupted"))
}

impl Distortion for DistortedConnection {
    fn request(&self, method: &Method, resource: &str, subresource: &str, body: &mut Value) {
        match (self.bug, resource) {
            (Bug::EvictionByName, "pods") if subresource == "eviction" => {
                remove(body, "/deleteOptions", "preconditions");
            }
            (Bug::DeletionByName, "nodeclaims" | "nodes") if *method == Method::DELETE => {
                remove(body, "", "preconditions");
            }
            (Bug::BlindPatches, "nodeclaims" | "nodes") if *method == Method::PATCH => {
                remove(body, "/metadata", "resourceVersion");
            }
            (Bug::PatchesByName, "nodeclaims" | "nodes" | "nodepools") if *method == Method::PATCH => {
                remove(body, "/metadata", "uid");
            }
            (Bug::AttemptForgotten, "nodeclaims") if *method == Method::PATCH => {
                remove(body, "/metadata/annotations", "fleetwright.dev/attempt");
            }
            (Bug::TaintKept, "nodes") if *method == Method::PATCH && takes_taint_off(body) => {
                *body = json!({"metadata": {"resourceVersion": body["metadata"]["resourceVersion"]}});
            }
            _ => {}
        }
    }

    fn received(&self, resource: &str, object: &mut Value) {
        match (self.bug, resource) {
            // Without its attempt in the answer, the operator would only refuse to continue.
            (Bug::AttemptForgotten, "nodeclaims") => {
                if let Some(annotations) = map(object, "/metadata/annotations") {
                    annotations.insert("fleetwright.dev/attempt".to_owned(), "1".into());
                }
            }
            (Bug::PodsForgotten, "nodeclaims") => {
                remove(object, "/metadata/annotations", "fleetwright.dev/nominated-pods");
            }
            (Bug::ReplacedForgotten, "nodeclaims") => {
                if let Some(lineage) = map(object, "/metadata/annotations")
                    .and_then(|annotations| annotations.get_mut("fleetwright.dev/lineage"))
                {
                    let text = lineage.as_str().unwrap_or_default();
                    let kept = text.split(';').filter(|field| !field.starts_with("replaced="));
                    *lineage = kept.collect::<Vec<_>>().join(";").into();
                }
            }
            (Bug::OwnersUnseen, "pods") if !is_owned_by(object, "DaemonSet") => {
                remove(object, "/metadata", "ownerReferences");
            }
            (Bug::PodsIgnored, "pods") if object.pointer("/spec/nodeName").is_none() => {
                remove(object, "/status", "conditions");
            }
            (Bug::LimitsUnseen, "nodepools") => remove(object, "/spec", "limits"),
            (Bug::BudgetsPruned, "nodepools") => {
                if let Some(disruption) = map(object, "/spec/disruption") {
                    disruption.insert("budgets".to_owned(), json!([{"nodes": "100%"}]));
                }
            }
            (Bug::ProtectionUnseen, "pods") => {
                remove(object, "/metadata/annotations", "karpenter.sh/do-not-disrupt");
            }
            (Bug::LeaseUnseen, "leases") => {
                if let Some(spec) = map(object, "/spec") {
                    spec.insert("holderIdentity".to_owned(), "".into());
                }
            }
            (Bug::PodsThoughtEnded, "pods") => {
                let ended = self.received.fetch_add(1, Ordering::Relaxed) > PODS;
                if let Some(status) = map(object, "/status").filter(|_| ended) {
                    status.insert("phase".to_owned(), "Succeeded".into());
                }
            }
            (Bug::HashChanges, "nodepools") => {
                let changed = self.received.fetch_add(1, Ordering::Relaxed) > POOLS;
                if let Some(labels) = map(object, "/spec/template/metadata/labels").filter(|_| changed) {
                    labels.insert("planted".to_owned(), "true".into());
                }
            }
            _ => {}
        }
    }
}
