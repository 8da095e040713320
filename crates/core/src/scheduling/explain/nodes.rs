//! Why existing nodes do not take a class of pods: the first obstacle of each, counted.

use crate::{
    model::{Str, labels::HOSTNAME},
    scheduling::{
        explain::unplaced::Explained,
        greedy::on_node::reaches,
        ids::NodeId,
        obstacle::{NodeObstacles, Obstacle},
        placement::{claim::clash, domains::Domains},
        request::Purpose,
        tables::{
            amounts::get,
            intern::{Key, Set, Side},
            relaxation::first_obstacle,
        },
    },
};

/// The maximum number of distinct obstacles of a class.
const MAX_OBSTACLES: usize = 32;

impl Explained<'_> {
    /// The obstacles on all nodes; `None` for a simulation, and if there are more nodes than `budget` has left.
    pub(super) fn obstacles(&self, budget: &mut usize) -> Option<NodeObstacles> {
        let nodes = &self.tables.nodes;
        if self.pass.purpose != Purpose::Provisioning || self.tables.slots.is_empty() {
            return None;
        }
        *budget = budget.checked_sub(nodes.len())?;
        let mut summary = NodeObstacles::default();
        for (node_id, node) in nodes.entries() {
            if !self.pass.is_there(node_id) || !node.is_there() {
                continue;
            }
            summary.total += 1;
            let Some(obstacle) = self.obstacle(node_id) else { continue };
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

    /// The first obstacle on a node.
    fn obstacle(&self, node_id: NodeId) -> Option<Obstacle> {
        let Self { tables, placement, class, .. } = *self;
        let (level, node, room) = (self.level(), &tables.nodes[node_id], placement.room(node_id));
        if node.deleting {
            return Some(Obstacle::Leaving);
        }
        if let Some(taint) = first_obstacle(&node.taints, &class.pod, level.look_past_preferences) {
            return Some(Obstacle::Taint(taint.clone()));
        }
        let host = tables.compatibilities[level.compatibility].host.as_ref();
        if host.is_some_and(|set| !tables.universe.has(tables.universe.hostname(), set, node.host)) {
            return Some(Obstacle::Label(HOSTNAME.into()));
        }
        if let Some(key) = self.missed_label(node_id) {
            return Some(Obstacle::Label(key));
        }
        if let Some(shortfall) = self.shortfall(node_id) {
            return Some(shortfall);
        }
        let more = self.pass.ports.get(&node_id).map_or(&[][..], Vec::as_slice);
        let taken = class.pod.spec.host_ports.iter().find(|port| {
            let port = std::slice::from_ref(*port);
            clash(port, &node.ports) || clash(port, more)
        });
        if let Some(port) = taken {
            return Some(Obstacle::HostPort(port.port));
        }
        if !reaches(tables, placement, class, node_id) || !class.attachments.is_empty() {
            return Some(Obstacle::Volumes);
        }
        let allowed =
            room.open.is_some() || Domains::new(tables, placement).obeys_on(&self.demand(), node_id);
        (!allowed).then_some(Obstacle::Topology)
    }

    /// The first label of which a node does not have a required value.
    fn missed_label(&self, node_id: NodeId) -> Option<Str> {
        let universe = &self.tables.universe;
        let open = self.placement.room(node_id).open;
        let misses = |(key, set): &&(Key, Set)| match open {
            None => match self.tables.nodes[node_id].label(*key) {
                Some(value) => !universe.has(*key, set, value),
                None => !set.allows_missing(),
            },
            Some(open) => {
                let only = universe.conjunction([(*key, set.clone())]);
                universe.meet(open, only, Side::Claim).is_none()
            }
        };
        let (key, _) = universe.sets(self.level().req).iter().find(misses)?;
        Some(universe.name(*key).clone())
    }

    /// The first resource of which a node has too little left.
    fn shortfall(&self, node_id: NodeId) -> Option<Obstacle> {
        let (requests, free) = (&self.class.requests, &self.placement.room(node_id).free);
        let is_short = |slot: &usize| requests[*slot] > 0 && requests[*slot] > get(free, *slot);
        let slot = (0..requests.len()).find(is_short)?;
        let name = self.tables.resources.name(slot);
        Some(Obstacle::Resource { name, requested: requests[slot], most: get(free, slot).max(0) })
    }
}
