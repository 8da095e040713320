//! Why existing nodes do not take a pod.
//!
//! 1. Each node is asked alone, about a pod without topology constraints, and once more without each obstacle that it names: all of them are its own.
//! 2. Nodes without an obstacle are asked together, beside all other nodes and pods: what refuses the pod there is topology.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::{
    model::{Pod, Resources, Snapshot, StateNode, pod::PodSpec},
    scheduling::{Obstacle, Plan, PreparedSnapshot, Rules, Unplaced},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    constraints::ask,
    costs::topology,
    lifting::{drop_key, tolerating},
};

/// The most nodes that are asked, each alone: at most 14,000 questions about one node.
const MAX_NODES: usize = 2_000;
/// The most obstacles of one node: each is one more question.
const MAX_OBSTACLES: usize = 6;
/// The most nodes that are found to take the pod, each by one more question about all nodes.
const MAX_FITTING: usize = 20;

/// Why nodes refuse the pod.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NodeRow {
    /// The nodes.
    pub(super) nodes: Vec<String>,
    /// Their obstacles, or that there is none. Topology is named where it is the only one.
    pub(super) why: String,
}

/// Why nodes refuse a pod.
pub(super) struct Refusals {
    /// Nodes with equal reasons share a row.
    pub(super) rows: Vec<NodeRow>,
    /// How many nodes were not asked.
    pub(super) left_out: usize,
}

/// Why each node refuses the pod.
pub(super) fn refusals(snapshot: &Snapshot, rules: &Rules, pod: &Arc<Pod>) -> Refusals {
    // NodePools without instance types: only a node can take the pod.
    let mut nowhere = snapshot.clone();
    nowhere.catalogs.clear();
    nowhere.nodes.clear();
    let mut grouped = Grouped::default();
    let mut free: Vec<&Arc<StateNode>> = Vec::new();
    for node in snapshot.nodes.iter().take(MAX_NODES) {
        let alone = Snapshot { nodes: vec![node.clone()], ..nowhere.clone() };
        match obstacles(&mut PreparedSnapshot::new(&alone, rules), pod) {
            Verdict::Free => free.push(node),
            Verdict::Obstacles(obstacles) => grouped.add(node, obstacles),
            Verdict::Other(why) => grouped.add_text(node, why),
        }
    }
    nowhere.nodes.clone_from(&snapshot.nodes);
    for (node, why) in beside_others(nowhere, rules, pod, free) {
        grouped.add_text(node, why);
    }
    Refusals { rows: grouped.rows(), left_out: snapshot.nodes.len().saturating_sub(MAX_NODES) }
}

/// What a node says of a pod.
enum Verdict {
    /// Nothing of its own refuses it.
    Free,
    Obstacles(Vec<Obstacle>),
    Other(String),
}

/// The obstacles of the one node of a snapshot.
fn obstacles(prepared: &mut PreparedSnapshot, pod: &Pod) -> Verdict {
    let mut asked = pod.clone();
    let mut spec = (*pod.spec).clone();
    without_topology(&mut spec);
    let mut found: Vec<Obstacle> = Vec::new();
    while found.len() < MAX_OBSTACLES {
        asked.spec = Arc::new(spec.clone());
        let asked = Arc::new(asked.clone());
        let plan = ask(prepared, &asked);
        let first = plan.nodes.get(&asked.uid).and_then(|nodes| nodes.obstacles.first());
        match first {
            // Pods of the node that exclude this one: beside the others it is said again.
            Some((Obstacle::Topology, _)) => break,
            Some((obstacle, _)) if !found.contains(obstacle) => {
                found.push(obstacle.clone());
                if !lift(&mut spec, obstacle) {
                    break;
                }
            }
            None if found.is_empty() && plan.existing.is_empty() => {
                return Verdict::Other(no_obstacle(&plan));
            }
            _ => break,
        }
    }
    if found.is_empty() { Verdict::Free } else { Verdict::Obstacles(found) }
}

fn no_obstacle(plan: &Plan) -> String {
    match plan.unplaced.first() {
        Some((_, Unplaced::NoPools | Unplaced::NoPoolFits(_))) => {
            "is not a node that pods are placed on".to_owned()
        }
        Some((_, why)) => why.to_string(),
        None => "no verdict".to_owned(),
    }
}

/// Takes what one obstacle is about away from a pod. Whether there is anything to take.
fn lift(spec: &mut PodSpec, obstacle: &Obstacle) -> bool {
    match obstacle {
        Obstacle::Taint(taint) => spec.tolerations.push(tolerating(taint)),
        Obstacle::Label(key) => drop_key(spec, key),
        Obstacle::Resource { name, most, .. } if name.as_str() != "pods" => {
            spec.requests.set(name, (*most).max(0));
        }
        Obstacle::HostPort(_) => spec.host_ports.clear(),
        Obstacle::Volumes => spec.volumes.clear(),
        _ => return false,
    }
    true
}

fn without_topology(spec: &mut PodSpec) {
    spec.topology_spread.clear();
    spec.pod_affinity.clear();
    spec.pod_anti_affinity.clear();
    spec.preferred_pod_affinity.clear();
    spec.preferred_pod_anti_affinity.clear();
}

/// What nodes without an obstacle of their own say beside all other nodes, of which none has room.
fn beside_others<'a>(
    mut all: Snapshot,
    rules: &Rules,
    pod: &Arc<Pod>,
    mut free: Vec<&'a Arc<StateNode>>,
) -> Vec<(&'a Arc<StateNode>, String)> {
    let mut said = Vec::new();
    if free.is_empty() {
        return said;
    }
    for node in &mut all.nodes {
        if !free.iter().any(|known| known.name() == node.name()) {
            fill(node);
        }
    }
    for _ in 0..MAX_FITTING {
        let mut prepared = PreparedSnapshot::new(&all, rules);
        let taker = ask(&mut prepared, pod).existing.first().map(|taker| taker.node.name().to_owned());
        let at = taker.and_then(|taker| free.iter().position(|node| node.name() == taker));
        let Some(at) = at else {
            let why = forbidden_by(&mut prepared, pod);
            said.extend(free.drain(..).map(|node| (node, why.clone())));
            return said;
        };
        let taker = free.remove(at);
        said.push((taker, "has room for it".to_owned()));
        if free.is_empty() {
            return said;
        }
        if let Some(node) = all.nodes.iter_mut().find(|node| node.name() == taker.name()) {
            fill(node);
        }
    }
    let why = "has room for it, if spread and affinity with other pods allow it";
    said.extend(free.into_iter().map(|node| (node, why.to_owned())));
    said
}

/// Takes the room of a node; its pods still count for topology.
fn fill(node: &mut Arc<StateNode>) {
    let node = Arc::make_mut(node);
    let requested: Resources = std::mem::take(&mut node.requested);
    node.requested = requested.with("pods", i64::MAX);
}

/// Which of its topology constraints keep a pod from the nodes of a snapshot that have room: those without which one of them takes it.
fn forbidden_by(prepared: &mut PreparedSnapshot, pod: &Pod) -> String {
    let mut names: Vec<String> = Vec::new();
    for (name, lift) in topology(&pod.spec) {
        let mut spec = (*pod.spec).clone();
        lift(&mut spec);
        let asked = Arc::new(Pod { spec: Arc::new(spec), ..pod.clone() });
        if !ask(prepared, &asked).existing.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    match names.as_slice() {
        // Several together, or the anti-affinity of other pods.
        [] => "has room, but spread or affinity with other pods forbids it".to_owned(),
        names => format!("has room, but its {} forbids it", names.join(" or ")),
    }
}

/// Nodes by what they say.
#[derive(Default)]
struct Grouped(BTreeMap<String, (Vec<Obstacle>, Vec<String>)>);

impl Grouped {
    /// Nodes with too little of one resource share a row, whatever each of them has free; the figure is that of the one with the most.
    fn add(&mut self, node: &StateNode, obstacles: Vec<Obstacle>) {
        let name = |obstacle: &Obstacle| match obstacle {
            Obstacle::Resource { name, .. } => name.as_str().to_owned(),
            other => other.to_string(),
        };
        let key = obstacles.iter().map(name).collect::<Vec<_>>().join("; ");
        let (known, nodes) = self.0.entry(key).or_insert_with(|| (obstacles.clone(), Vec::new()));
        for (known, new) in known.iter_mut().zip(obstacles) {
            if free(known) < free(&new) {
                *known = new;
            }
        }
        nodes.push(node.name().to_owned());
    }

    fn add_text(&mut self, node: &StateNode, why: String) {
        self.0.entry(why).or_default().1.push(node.name().to_owned());
    }

    /// The largest group first.
    fn rows(self) -> Vec<NodeRow> {
        let row = |(why, (obstacles, nodes)): (String, (Vec<Obstacle>, Vec<String>))| {
            let all: Vec<String> = obstacles.iter().map(ToString::to_string).collect();
            NodeRow { nodes, why: if all.is_empty() { why } else { all.join("; ") } }
        };
        let mut rows: Vec<NodeRow> = self.0.into_iter().map(row).collect();
        rows.sort_by(|a, b| b.nodes.len().cmp(&a.nodes.len()).then_with(|| a.why.cmp(&b.why)));
        rows
    }
}

/// What a node has free of the resource of an obstacle.
fn free(obstacle: &Obstacle) -> Option<i64> {
    match obstacle {
        Obstacle::Resource { most, .. } => Some(*most),
        _ => None,
    }
}
