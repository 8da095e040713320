//! Why the nodes that are there do not take a class of pods: the first obstacle of each, counted.

use super::{
    super::{
        Solver,
        amounts::{fits_free, get},
        claim::clash,
        intern::{ANY, Key, Set, Side},
        nodes::first_obstacle,
        pass::Pass,
    },
    labels::HOSTNAME,
};
use crate::scheduling::ids::{LevelId, NodeId, PodClassId};
use crate::{
    model::{ResourceName, Str},
    scheduling::{NodeObstacles, Obstacle, Purpose},
};

/// Obstacles of one class that are told apart.
const MAX_OBSTACLES: usize = 32;

impl Solver {
    /// What keeps a class off the nodes that are there, as they stand at the end of a pass; `None` for a what-if, and
    /// where more nodes would have to be asked than `budget` has left.
    pub(in crate::scheduling::solver) fn obstacles(
        &mut self,
        pass: &Pass,
        class: PodClassId,
        budget: &mut usize,
    ) -> Option<NodeObstacles> {
        if pass.purpose == Purpose::Simulation || self.slots.is_empty() {
            return None;
        }
        *budget = budget.checked_sub(self.nodes.len())?;
        let level = self.last_level(class);
        let mut found = NodeObstacles::default();
        for at in self.nodes.ids() {
            if !pass.is_there(at) || !(self.nodes[at].usable || self.nodes[at].deleting) {
                continue;
            }
            found.total += 1;
            let Some(obstacle) = self.obstacle(pass, class, level, at) else { continue };
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
    fn obstacle(&mut self, pass: &Pass, class: PodClassId, level: LevelId, at: NodeId) -> Option<Obstacle> {
        let (this, node) = (&self.classes[class], &self.nodes[at]);
        let wanted = &this.levels[level];
        if node.deleting {
            return Some(Obstacle::Leaving);
        }
        if let Some(taint) = first_obstacle(&node.taints, &this.pod, wanted.look_past_preferences) {
            return Some(Obstacle::Taint(taint.clone()));
        }
        let host = self.shapes[wanted.shape].host.as_ref();
        if host.is_some_and(|set| !self.universe.has(self.hostname, set, node.host)) {
            return Some(Obstacle::Label(HOSTNAME.into()));
        }
        if let Some(key) = self.missed_label(class, level, at) {
            return Some(Obstacle::Label(key));
        }
        let (this, node) = (&self.classes[class], &self.nodes[at]);
        if !fits_free(&this.requests, &self.placement.room(at).free) {
            return self.shortfall(class, at);
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
        let open = self.placement.room(at).open;
        let reached = alternatives
            .iter()
            .any(|req| *req == ANY || self.nodes[at].satisfies(open, &mut self.universe, *req));
        if !reached || !self.classes[class].attachments.is_empty() {
            return Some(Obstacle::Volumes);
        }
        let demand = self.demand(class, level);
        let allowed = open.is_some() || self.obeys_on(&demand, at);
        (!allowed).then_some(Obstacle::Topology)
    }

    /// The first label of which a node has no value that is asked for.
    fn missed_label(&mut self, class: PodClassId, level: LevelId, at: NodeId) -> Option<Str> {
        let req = self.classes[class].levels[level].req;
        let open = self.placement.room(at).open;
        if self.nodes[at].satisfies(open, &mut self.universe, req) {
            return None;
        }
        let sets = std::sync::Arc::clone(self.universe.sets(req));
        let misses = |(key, set): &&(Key, Set)| match open {
            None => match self.nodes[at].label(*key) {
                Some(value) => !self.universe.has(*key, set, value),
                None => !set.allows_missing(),
            },
            Some(open) => {
                let only = self.universe.conjunction([(*key, set.clone())]);
                self.universe.meet(open, only, Side::Claim).is_none()
            }
        };
        let key = sets.iter().find(misses).map(|(key, _)| *key)?;
        Some(self.universe.name(key).clone())
    }

    /// The first resource of which a node has too little left.
    fn shortfall(&self, class: PodClassId, at: NodeId) -> Option<Obstacle> {
        let (asked, free) = (&self.classes[class].requests, &self.placement.room(at).free);
        let slot = (0..asked.len()).find(|slot| asked[*slot] > 0 && asked[*slot] > get(free, *slot))?;
        let name: ResourceName = self.resources.name(slot);
        Some(Obstacle::Resource { name, asked: asked[slot], most: get(free, slot).max(0) })
    }
}
