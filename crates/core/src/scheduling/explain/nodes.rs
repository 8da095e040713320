//! Why existing nodes do not take a class of pods: the first obstacle of each, counted.

use crate::{
    model::{ResourceName, Str, labels::HOSTNAME},
    scheduling::{
        explain::unplaced::last_level,
        greedy::pass::Pass,
        ids::{LevelId, NodeId, PodClassId},
        obstacle::{NodeObstacles, Obstacle},
        placement::{Placement, allowed_domains, claim::clash},
        request::Purpose,
        tables::{
            Tables,
            amounts::{fits_free, get},
            intern::{ANY, Key, Set, Side},
            nodes::first_obstacle,
        },
    },
};

/// The maximum number of distinct obstacles of a class.
const MAX_OBSTACLES: usize = 32;

/// The obstacles of a class on all nodes at the end of a pass; `None` for a simulation, and
/// if there are more nodes than `budget` has left.
pub(crate) fn obstacles(
    tables: &Tables,
    placement: &Placement,
    pass: &Pass,
    class: PodClassId,
    budget: &mut usize,
) -> Option<NodeObstacles> {
    if pass.purpose != Purpose::Provisioning || tables.slots.is_empty() {
        return None;
    }
    *budget = budget.checked_sub(tables.nodes.len())?;
    let level = last_level(tables, class);
    let mut summary = NodeObstacles::default();
    for node_id in tables.nodes.ids() {
        if !pass.is_there(node_id) || !(tables.nodes[node_id].usable || tables.nodes[node_id].deleting) {
            continue;
        }
        summary.total += 1;
        let Some(obstacle) = obstacle(tables, placement, pass, class, level, node_id) else { continue };
        match summary.obstacles.iter().position(|(known, _)| known.is_same_obstacle(&obstacle)) {
            Some(position) => {
                let (known, count) = &mut summary.obstacles[position];
                known.widen(&obstacle);
                *count += 1;
            }
            None if summary.obstacles.len() < MAX_OBSTACLES => summary.obstacles.push((obstacle, 1)),
            None => {}
        }
    }
    // The most common first; the order in which they were met decides between equals.
    summary.obstacles.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(summary)
}

/// The first obstacle of a class on a node.
fn obstacle(
    tables: &Tables,
    placement: &Placement,
    pass: &Pass,
    class: PodClassId,
    level: LevelId,
    node_id: NodeId,
) -> Option<Obstacle> {
    let (this, node) = (&tables.classes[class], &tables.nodes[node_id]);
    let wanted = &this.levels[level];
    if node.deleting {
        return Some(Obstacle::Leaving);
    }
    if let Some(taint) = first_obstacle(&node.taints, &this.pod, wanted.look_past_preferences) {
        return Some(Obstacle::Taint(taint.clone()));
    }
    let host = tables.compatibilities[wanted.compatibility].host.as_ref();
    if host.is_some_and(|set| !tables.universe.has(tables.hostname, set, node.host)) {
        return Some(Obstacle::Label(HOSTNAME.into()));
    }
    if let Some(key) = missed_label(tables, placement, class, level, node_id) {
        return Some(Obstacle::Label(key));
    }
    if !fits_free(&this.requests, &placement.room(node_id).free) {
        return shortfall(tables, placement, class, node_id);
    }
    let ports = &this.pod.spec.host_ports;
    let more = pass.ports.get(&node_id).map_or(&[][..], Vec::as_slice);
    let taken = ports.iter().find(|port| {
        let port = std::slice::from_ref(*port);
        clash(port, &node.ports) || clash(port, more)
    });
    if let Some(port) = taken {
        return Some(Obstacle::HostPort(port.port));
    }
    let open = placement.room(node_id).open;
    let reached = this
        .alternatives
        .iter()
        .any(|req| *req == ANY || tables.nodes[node_id].satisfies(open, &tables.universe, *req));
    if !reached || !tables.classes[class].attachments.is_empty() {
        return Some(Obstacle::Volumes);
    }
    let demand = allowed_domains::demand(tables, placement, class, level);
    let allowed = open.is_some() || allowed_domains::obeys_on(tables, placement, &demand, node_id);
    (!allowed).then_some(Obstacle::Topology)
}

/// The first label of which a node does not have a required value.
fn missed_label(
    tables: &Tables,
    placement: &Placement,
    class: PodClassId,
    level: LevelId,
    node_id: NodeId,
) -> Option<Str> {
    let req = tables.classes[class].levels[level].req;
    let open = placement.room(node_id).open;
    if tables.nodes[node_id].satisfies(open, &tables.universe, req) {
        return None;
    }
    let sets = tables.universe.sets(req);
    let misses = |(key, set): &&(Key, Set)| match open {
        None => match tables.nodes[node_id].label(*key) {
            Some(value) => !tables.universe.has(*key, set, value),
            None => !set.allows_missing(),
        },
        Some(open) => {
            let only = tables.universe.conjunction([(*key, set.clone())]);
            tables.universe.meet(open, only, Side::Claim).is_none()
        }
    };
    let key = sets.iter().find(misses).map(|(key, _)| *key)?;
    Some(tables.universe.name(key).clone())
}

/// The first resource of which a node has too little left.
fn shortfall(tables: &Tables, placement: &Placement, class: PodClassId, node_id: NodeId) -> Option<Obstacle> {
    let (requests, free) = (&tables.classes[class].requests, &placement.room(node_id).free);
    let slot = (0..requests.len()).find(|slot| requests[*slot] > 0 && requests[*slot] > get(free, *slot))?;
    let name: ResourceName = tables.resources.name(slot);
    Some(Obstacle::Resource { name, asked: requests[slot], most: get(free, slot).max(0) })
}
