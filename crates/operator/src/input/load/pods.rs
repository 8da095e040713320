//! Pods of the input: those that count, and those that are left out, with the reason.

use std::collections::BTreeMap;

use fleetwright_core::model::{NamespacedName, Quantity, ResourceName};
use fleetwright_state::{WatchedKind, lower::requests};
use k8s_openapi::{
    api::core::v1::{Pod, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::Value;

use super::{Loader, SetAside};
use crate::{
    figures::{self, names},
    input::{Source, prepare},
};

/// A container: its name, and what it requests.
pub(crate) type ContainerRequests = (String, Vec<(ResourceName, i64)>);

/// Notes on pods that are left out for one reason: position and reason, then the position of the note and the pods.
pub(super) type LeftOut = BTreeMap<(String, String), (usize, Vec<String>)>;

/// Why a pod cannot be placed.
enum PodProblem {
    /// It has not the form of a pod.
    Malformed(String),
    /// Its requests are known, and its constraints are not.
    Invalid(String),
}

impl PodProblem {
    fn into_text(self) -> String {
        match self {
            Self::Malformed(why) | Self::Invalid(why) => why,
        }
    }
}

impl Loader {
    pub(super) fn pod(&mut self, value: Value, source: &Source) {
        let of = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = NamespacedName::new(of("/metadata/namespace"), of("/metadata/name"));
        let node = of("/spec/nodeName");
        let is_active = !matches!(&*of("/status/phase"), "Succeeded" | "Failed");
        let nominated = of("/status/nominatedNodeName");
        let is_refused = prepare::is_refused(&value) || !of("/metadata/deletionTimestamp").is_empty();
        // Of two with one name, the last counts.
        self.loaded.broken_pods.remove(&id);
        self.loaded.held_pods.remove(&id);
        if let Source::File { .. } = source {
            self.namespaces.insert(id.namespace.to_string());
        }
        let gates: Vec<String> = value
            .pointer("/spec/schedulingGates")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|gate| gate["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        if let Some(why) = self.refused.get(&id).filter(|_| node.is_empty()).cloned() {
            let labels = labels(&value);
            self.leave_out(&id, SetAside { reason: "Forbidden", message: why, labels }, source);
            return;
        }
        let labels = labels(&value);
        if node.is_empty() && is_active {
            self.loaded.containers.insert(id.clone(), containers(&value));
        }
        let problem = self.apply_pod(value, &id);
        if !node.is_empty() || !is_active {
            if let Some(why) = problem {
                self.note_bound(&id, &node, why, source, is_active);
            }
        } else if let Some(why) = problem {
            self.leave_out(&id, SetAside { reason: "Invalid", message: why.into_text(), labels }, source);
        } else {
            let (reason, message) = if !gates.is_empty() {
                ("SchedulingGated", format!("has scheduling gates: {}", gates.join(", ")))
            } else if !nominated.is_empty() {
                ("Nominated", format!("nominated by kube-scheduler to node {nominated}"))
            } else if !is_refused {
                let text = "kube-scheduler has not said that it fits no node (condition PodScheduled)";
                ("NotRefused", text.to_owned())
            } else {
                return;
            };
            self.loaded.held_pods.insert(id, SetAside { reason, message, labels });
        }
    }

    /// Puts a pod into the index: of a malformed one what shows that it takes part of its node. Returns what is wrong with it.
    fn apply_pod(&mut self, value: Value, id: &NamespacedName) -> Option<PodProblem> {
        let parts = readable(&value);
        let mut pod: Pod = match super::parse(value) {
            Ok(pod) => pod,
            Err(why) => {
                self.loaded.index.apply_malformed_pod(parts, why.clone());
                return Some(PodProblem::Malformed(why));
            }
        };
        pod.spec = pod.spec.as_ref().map(requests::defaulted);
        self.loaded.index.apply(pod);
        let key = (Some(id.namespace.to_string()), Some(id.name.to_string()));
        self.invalid(WatchedKind::Pod, key).map(PodProblem::Invalid)
    }

    /// A pod without a node that is in no plan.
    fn leave_out(&mut self, id: &NamespacedName, pod: SetAside, source: &Source) {
        let (place, notes) = (source.to_string(), &mut self.loaded.notes);
        let why = &pod.message;
        let (at, pods) = self.left_out.entry((place.clone(), why.clone())).or_insert_with(|| {
            notes.push(String::new());
            (notes.len() - 1, Vec::new())
        });
        pods.push(id.to_string());
        let (subject, verb) = if pods.len() == 1 { ("Pod", "is") } else { ("Pods", "are") };
        if let Some(note) = self.loaded.notes.get_mut(*at) {
            *note = format!("{place}: {subject} {} {verb} left out: {why}", names(pods));
        }
        self.loaded.broken_pods.insert(id.clone(), pod);
    }

    /// Reports an invalid pod of a node.
    fn note_bound(
        &mut self,
        id: &NamespacedName,
        node: &str,
        problem: PodProblem,
        source: &Source,
        is_active: bool,
    ) {
        match problem {
            PodProblem::Invalid(why) => {
                self.note(source, format_args!("Pod {id} is invalid and counts only on its node: {why}"));
            }
            PodProblem::Malformed(why) if is_active && !node.is_empty() => self.loaded.gaps.push(format!(
                "{source}: Pod {id} is malformed: its requests are not counted, and node {node} looks emptier than it is: {why}"
            )),
            PodProblem::Malformed(why) => {
                self.note(source, format_args!("Pod {id} is malformed and left out: {why}"));
            }
        }
    }

    /// Reports the running pods whose node the input lacks: no node has them, and no plan. Kubernetes deletes a pod whose node is gone, and
    /// its controller creates another one, which the input does not have yet.
    pub(super) fn note_strays(&mut self) {
        let index = &self.loaded.index;
        let mut strays: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in index.pods().filter(|pod| pod.is_active()) {
            if let Some(node) = pod.node.as_ref().filter(|node| index.node(node).is_none()) {
                strays.entry(node.to_string()).or_default().push(pod.id.to_string());
            }
        }
        let pods: usize = strays.values().map(Vec::len).sum();
        let of_node = |(node, pods): (&String, &Vec<String>)| format!("{} on {node}", names(pods));
        let listed: Vec<String> = strays.iter().map(of_node).collect();
        if pods == 0 {
            return;
        }
        let (are, they) = if pods == 1 { ("is", "it counts") } else { ("are", "they count") };
        self.loaded.notes.push(format!(
            "{} {are} bound to {} that the input lacks: {they} on no node and {are} not planned; add the {}, or leave out pods whose node is gone: {}",
            figures::count(pods, "pod"),
            figures::count(strays.len(), "node"),
            if strays.len() == 1 { "node" } else { "nodes" },
            figures::first_few(&listed, "; "),
        ));
    }
}

/// Whether the controller of a kind, with its version, may create pods. Kinds of Kubernetes are known to create none, or their pods are read.
pub(super) fn may_create(kind: &str) -> bool {
    let group = kind.split_once('/').map_or("", |(group, _)| group);
    // `sparkoperator.k8s.io` is no group of Kubernetes.
    let is_own = group.ends_with(".k8s.io") && !group.ends_with("operator.k8s.io");
    group.contains('.') && !group.starts_with("karpenter.") && !is_own
}

/// The same of an object.
pub(crate) fn may_create_pods(value: &Value) -> bool {
    value["apiVersion"].as_str().is_some_and(|version| version.contains('/') && may_create(version))
}

/// The containers of a pod with what they request. A limit is a request where there is none, as the API server has it.
fn containers(pod: &Value) -> Vec<ContainerRequests> {
    let all = pod.pointer("/spec/containers").and_then(Value::as_array);
    let of_container = |container: &Value| {
        let mut amounts: BTreeMap<ResourceName, i64> = BTreeMap::new();
        for list in ["limits", "requests"] {
            for (name, amount) in container["resources"][list].as_object().into_iter().flatten() {
                let name = ResourceName::from(name.as_str());
                let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
                if let Ok(quantity) = text.parse::<Quantity>() {
                    let amount = name.demand(quantity);
                    amounts.insert(name, amount);
                }
            }
        }
        (container["name"].as_str().unwrap_or_default().to_owned(), amounts.into_iter().collect())
    };
    all.into_iter().flatten().map(of_container).collect()
}

/// The labels of a pod that can be read.
fn labels(pod: &Value) -> BTreeMap<String, String> {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

/// What can be read of a pod that is not well formed: its identity and owner, its node and its phase.
fn readable(value: &Value) -> Pod {
    let text = |at: &str| value.pointer(at).and_then(Value::as_str).map(str::to_owned);
    let metadata = serde_json::from_value(value["metadata"].clone()).unwrap_or_else(|_| ObjectMeta {
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
        ..ObjectMeta::default()
    });
    let spec = PodSpec { node_name: text("/spec/nodeName"), ..PodSpec::default() };
    let status = PodStatus { phase: text("/status/phase"), ..PodStatus::default() };
    Pod { metadata, spec: Some(spec), status: Some(status) }
}
