//! Why the nodes that are there do not take a class of pods: the first obstacle of each, counted.

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

/// Obstacles of one class that are told apart.
const MAX_OBSTACLES: usize = 32;

/// What keeps a class off the nodes that are there, as they stand at the end of a pass; `None` for a simulation, and
/// where more nodes would have to be asked than `budget` has left.
pub(crate) fn obstacles(
    tables: &mut Tables,
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
    let mut found = NodeObstacles::default();
    for at in tables.nodes.ids() {
        if !pass.is_there(at) || !(tables.nodes[at].usable || tables.nodes[at].deleting) {
            continue;
        }
        found.total += 1;
        let Some(obstacle) = obstacle(tables, placement, pass, class, level, at) else { continue };
        match found.obstacles.iter().position(|(known, _)| known.is_like(&obstacle)) {
            Some(position) => {
                let (known, count) = &mut found.obstacles[position];
                known.widen(&obstacle);
                *count += 1;
            }
            None if found.obstacles.len() < MAX_OBSTACLES => found.obstacles.push((obstacle, 1)),
            None => {}
        }
    }
    // The most common first; the order in which they were met decides between equals.
    found.obstacles.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(found)
}

/// The first thing that keeps a class off a node, in the order in which they are asked.
fn obstacle(
    tables: &mut Tables,
    placement: &Placement,
    pass: &Pass,
    class: PodClassId,
    level: LevelId,
    at: NodeId,
) -> Option<Obstacle> {
    let (this, node) = (&tables.classes[class], &tables.nodes[at]);
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
    if let Some(key) = missed_label(tables, placement, class, level, at) {
        return Some(Obstacle::Label(key));
    }
    let (this, node) = (&tables.classes[class], &tables.nodes[at]);
    if !fits_free(&this.requests, &placement.room(at).free) {
        return shortfall(tables, placement, class, at);
    }
    let ports = &this.pod.spec.host_ports;
    let more = pass.ports.get(&at).map_or(&[][..], Vec::as_slice);
    let taken = ports.iter().find(|port| {
        let port = std::slice::from_ref(*port);
        clash(port, &node.ports) || clash(port, more)
    });
    if let Some(port) = taken {
        return Some(Obstacle::HostPort(port.port));
    }
    let alternatives = this.alternatives.clone();
    let open = placement.room(at).open;
    let reached = alternatives
        .iter()
        .any(|req| *req == ANY || tables.nodes[at].satisfies(open, &mut tables.universe, *req));
    if !reached || !tables.classes[class].attachments.is_empty() {
        return Some(Obstacle::Volumes);
    }
    let demand = allowed_domains::demand(tables, placement, class, level);
    let allowed = open.is_some() || allowed_domains::obeys_on(tables, placement, &demand, at);
    (!allowed).then_some(Obstacle::Topology)
}

/// The first label of which a node has no value that is asked for.
fn missed_label(
    tables: &mut Tables,
    placement: &Placement,
    class: PodClassId,
    level: LevelId,
    at: NodeId,
) -> Option<Str> {
    let req = tables.classes[class].levels[level].req;
    let open = placement.room(at).open;
    if tables.nodes[at].satisfies(open, &mut tables.universe, req) {
        return None;
    }
    let sets = std::sync::Arc::clone(tables.universe.sets(req));
    let misses = |(key, set): &&(Key, Set)| match open {
        None => match tables.nodes[at].label(*key) {
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
fn shortfall(tables: &Tables, placement: &Placement, class: PodClassId, at: NodeId) -> Option<Obstacle> {
    let (asked, free) = (&tables.classes[class].requests, &placement.room(at).free);
    let slot = (0..asked.len()).find(|slot| asked[*slot] > 0 && asked[*slot] > get(free, *slot))?;
    let name: ResourceName = tables.resources.name(slot);
    Some(Obstacle::Resource { name, asked: asked[slot], most: get(free, slot).max(0) })
}
