//! The pods of a trace, each with the time from which it is wanted until it is not.
//!
//! A pod that is evicted because its node was disrupted is followed by another of the same owner. That is the doing of the recorded
//! autoscaler, not load: both are one life, so that a variant that disrupts less has fewer evictions.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::trace::{Change, Id, Trace};
use crate::input::object::set;

/// How long after the end of an evicted pod its successor is created, at most.
const SUCCESSION: SignedDuration = SignedDuration::from_secs(60);
/// How long before that end: controllers may act first.
const EARLIER: SignedDuration = SignedDuration::from_secs(5);

/// A pod that is wanted for a time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodLife {
    pub(super) id: Id,
    pub(super) pod: Value,
    pub(super) from: Timestamp,
    /// When it was deleted.
    pub(super) until: Option<Timestamp>,
    /// How long it ran until it ended by itself.
    pub(super) runs_for: Option<Duration>,
    /// Whether it ended on a node that was being disrupted.
    was_evicted: bool,
}

/// The lives of all pods that a cluster's load consists of: those of DaemonSets and of nodes follow from nodes.
pub(super) fn lives(trace: &Trace) -> Vec<PodLife> {
    let mut scan = Scan::default();
    for (at, change) in &trace.changes {
        match change {
            Change::Put(object) if object["kind"] == "Pod" => scan.pod(*at, object),
            Change::Put(object) if object["kind"] == "Node" => scan.node(object),
            Change::Delete(id) if id.1 == "Pod" => scan.end(*at, id),
            Change::Delete(id) if id.1 == "Node" => {
                scan.disrupted.insert(id.3.clone());
            }
            _ => {}
        }
    }
    scan.lives.sort_by(|a, b| (a.from, &a.id).cmp(&(b.from, &b.id)));
    succeeded(scan.lives)
}

#[derive(Default)]
struct Scan {
    lives: Vec<PodLife>,
    /// The position of each pod that is wanted, and its UID.
    wanted: BTreeMap<Id, (usize, String)>,
    /// Nodes that are being disrupted or deleted, or that are gone.
    disrupted: BTreeSet<String>,
}

impl Scan {
    fn node(&mut self, node: &Value) {
        let name = text(node, "/metadata/name").to_owned();
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        let tainted = taints.into_iter().flatten().any(|taint| taint["key"] == "karpenter.sh/disrupted");
        if tainted || !text(node, "/metadata/deletionTimestamp").is_empty() {
            self.disrupted.insert(name);
        } else {
            self.disrupted.remove(&name);
        }
    }

    fn pod(&mut self, at: Timestamp, pod: &Value) {
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let of_node = |owner: &Value| owner["kind"] == "DaemonSet" || owner["kind"] == "Node";
        let mirror = pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some();
        if mirror || owners.into_iter().flatten().any(of_node) {
            return;
        }
        let id = crate::input::select::identity(pod);
        let uid = text(pod, "/metadata/uid");
        let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        // A StatefulSet's next pod has the name of the last.
        if self.wanted.get(&id).is_some_and(|(_, known)| known != uid) {
            self.end(at, &id);
        }
        if !text(pod, "/metadata/deletionTimestamp").is_empty() {
            self.see_node(&id, pod);
            return self.end(at, &id);
        }
        match self.wanted.get(&id) {
            None if has_ended => {}
            None => {
                self.wanted.insert(id.clone(), (self.lives.len(), uid.to_owned()));
                let (until, runs_for) = (None, None);
                self.lives.push(PodLife {
                    id,
                    pod: pod.clone(),
                    from: at,
                    until,
                    runs_for,
                    was_evicted: false,
                });
            }
            Some((position, _)) => {
                let life = &mut self.lives[*position];
                let started: Option<Timestamp> = text(pod, "/status/startTime").parse().ok();
                if has_ended && life.runs_for.is_none() {
                    let ran = at.duration_since(started.unwrap_or(life.from));
                    life.runs_for = Some(Duration::try_from(ran).unwrap_or_default());
                }
                self.see_node(&id, pod);
            }
        }
    }

    /// Remembers the node that a pod was bound to.
    fn see_node(&mut self, id: &Id, pod: &Value) {
        if let Some((position, _)) = self.wanted.get(id)
            && let Some(node) = pod.pointer("/spec/nodeName")
        {
            set(&mut self.lives[*position].pod, &["spec", "nodeName"], node.clone());
        }
    }

    fn end(&mut self, at: Timestamp, id: &Id) {
        if let Some((position, _)) = self.wanted.remove(id) {
            let life = &mut self.lives[position];
            life.until = Some(at);
            life.was_evicted = self.disrupted.contains(text(&life.pod, "/spec/nodeName"));
        }
    }
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// The controller of a pod that replaces its pods.
fn owner(pod: &Value) -> Option<String> {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true)?;
    let uid = owner["uid"].as_str().filter(|uid| !uid.is_empty())?;
    Some(uid.to_owned())
}

/// Lives in which an evicted pod and its successor are one.
fn succeeded(lives: Vec<PodLife>) -> Vec<PodLife> {
    let mut found: Vec<PodLife> = Vec::with_capacity(lives.len());
    // By owner, the evicted lives without a successor.
    let mut evicted: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for life in lives {
        let owner = owner(&life.pod);
        let waiting = owner.as_ref().and_then(|owner| evicted.get_mut(owner));
        let follows = |end: Timestamp| {
            let after = life.from.duration_since(end);
            after <= SUCCESSION && after >= -EARLIER
        };
        let predecessor = waiting.and_then(|waiting| {
            let at = waiting.iter().position(|position| found[*position].until.is_some_and(follows))?;
            Some(waiting.remove(at))
        });
        let position = match predecessor {
            Some(position) => {
                let (until, runs_for, was_evicted) = (life.until, life.runs_for, life.was_evicted);
                found[position] = PodLife { until, runs_for, was_evicted, ..found[position].clone() };
                position
            }
            None => {
                found.push(life);
                found.len() - 1
            }
        };
        if let Some(owner) = owner.filter(|_| found[position].was_evicted) {
            evicted.entry(owner).or_default().push(position);
        }
    }
    found
}
