//! Pods of the input: those that count, and those that are left out, with the reason.

use std::collections::BTreeMap;

use fleetwright_core::model::NamespacedName;
use fleetwright_state::{WatchedKind, lower::requests};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::Loader;
use crate::{
    figures::names,
    input::{Source, prepare},
};

/// Notes on pods that are left out for one reason: position and reason, then the position of the note and the pods.
pub(super) type LeftOut = BTreeMap<(String, String), (usize, Vec<String>)>;

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
            self.leave_out(&id, "Forbidden", &why, source);
            return;
        }
        let problem = self.apply_pod(value, &id);
        if !node.is_empty() || !is_active {
            self.note_bound(&id, &node, problem, source, is_active);
        } else if let Some(why) = problem {
            self.leave_out(&id, "Invalid", &why, source);
        } else if !gates.is_empty() {
            let text = format!("has scheduling gates: {}", gates.join(", "));
            self.loaded.held_pods.insert(id, ("SchedulingGated", text));
        } else if !nominated.is_empty() {
            let text = format!("nominated by kube-scheduler to node {nominated}");
            self.loaded.held_pods.insert(id, ("Nominated", text));
        } else if !is_refused {
            let text = "kube-scheduler has not said that it fits no node (condition PodScheduled)".to_owned();
            self.loaded.held_pods.insert(id, ("NotRefused", text));
        }
    }

    /// Puts a pod into the index. Returns why it is invalid, if it is.
    fn apply_pod(&mut self, value: Value, id: &NamespacedName) -> Option<String> {
        let mut pod: Pod = match super::parse(value) {
            Ok(pod) => pod,
            Err(why) => return Some(why),
        };
        pod.spec = pod.spec.as_ref().map(requests::defaulted);
        self.loaded.index.apply(pod);
        let key = (Some(id.namespace.to_string()), Some(id.name.to_string()));
        self.invalid(WatchedKind::Pod, key).map(|(_, why)| why)
    }

    /// A pod without a node that is in no plan.
    fn leave_out(&mut self, id: &NamespacedName, word: &'static str, why: &str, source: &Source) {
        let (place, notes) = (source.to_string(), &mut self.loaded.notes);
        let (at, pods) = self.left_out.entry((place.clone(), why.to_owned())).or_insert_with(|| {
            notes.push(String::new());
            (notes.len() - 1, Vec::new())
        });
        pods.push(id.to_string());
        let (subject, verb) = if pods.len() == 1 { ("Pod", "is") } else { ("Pods", "are") };
        if let Some(note) = self.loaded.notes.get_mut(*at) {
            *note = format!("{place}: {subject} {} {verb} left out: {why}", names(pods));
        }
        self.loaded.broken_pods.insert(id.clone(), (word, why.to_owned()));
    }

    /// Reports an invalid pod of a node.
    fn note_bound(
        &mut self,
        id: &NamespacedName,
        node: &str,
        problem: Option<String>,
        source: &Source,
        is_active: bool,
    ) {
        let Some(why) = problem else { return };
        if self.loaded.index.pod(id).is_some() {
            self.note(source, format_args!("Pod {id} is invalid and counts only on its node: {why}"));
        } else if is_active && !node.is_empty() {
            self.loaded.gaps.push(format!(
                "{source}: Pod {id} is malformed and left out, so node {node} looks emptier and freer to disrupt than it is: {why}"
            ));
        } else {
            self.note(source, format_args!("Pod {id} is malformed and left out: {why}"));
        }
    }
}
