//! Places pods on existing and in-flight nodes.

use std::{slice, vec};

use crate::{
    model::{Pod, Str},
    scheduling::{
        greedy::{pass::Outcome, place::Greedy},
        ids::{CompatibilityId, Host, Id, NodeId, PodClassId, PodId},
        placement::{Placement, allowed_domains::TopologyDemand, claim::clash, domains},
        request::Purpose,
        tables::{
            Tables,
            amounts::fits_free,
            bits::Bits,
            devices::DeviceGrant,
            intern::{Req, Side},
            pod_classes::{Class, volume_name},
        },
    },
};

/// Up to this many nodes are sorted rather than looked up in the order of all. Tests have few nodes.
const FEW: usize = if cfg!(test) { 2 } else { 64 };

/// A node with another pod.
struct NodeFit {
    /// The requirements that it has then, where they are open.
    open: Option<Req>,
    /// Devices for the resource claims of the pod.
    grant: Option<Box<DeviceGrant>>,
}

/// The nodes that are tried for a pod, in order.
enum NodeOrder<'a> {
    /// By slot, from this one on.
    Slots(usize),
    /// A few, sorted.
    Few(vec::IntoIter<NodeId>),
    /// All that fit the compatibility before anything is placed.
    All(slice::Iter<'a, NodeId>),
}

impl<'a> Greedy<'a> {
    /// Places a pod on the first of the nodes that fit, in order.
    pub(super) fn attempt_nodes(
        &mut self,
        pod_id: PodId,
        demand: &TopologyDemand,
        fitting: &Bits<NodeId>,
    ) -> Outcome {
        let mut order = self.node_order(demand, fitting);
        let mut outcome = Outcome::Failed;
        while let Some(node_id) = self.next_node(demand, fitting, &mut order) {
            outcome = outcome.or_else(|| self.try_node(pod_id, demand, node_id));
            if outcome == Outcome::Placed {
                break;
            }
        }
        outcome
    }

    /// Of many nodes it starts behind those that the last pod of the same compatibility found full.
    fn node_order(&mut self, demand: &TopologyDemand, fitting: &Bits<NodeId>) -> NodeOrder<'a> {
        let tables = self.tables;
        if tables.in_order {
            return NodeOrder::Slots(0);
        }
        let mut slots = NodeOrder::Slots(0);
        let mut few = Vec::new();
        while let Some(node_id) = self.next_node(demand, fitting, &mut slots) {
            if few.len() == FEW {
                let ordered = tables.fitting_in_order(demand.class, demand.level);
                let start = self.pass.skip(self.placement, self.compatibility(demand), ordered);
                return NodeOrder::All(ordered[start..].iter());
            }
            few.push(node_id);
        }
        few.sort_unstable_by_key(|node_id| tables.places[*node_id]);
        NodeOrder::Few(few.into_iter())
    }

    /// The next of the nodes that fit, are there and are not known to be full.
    fn next_node(
        &self,
        demand: &TopologyDemand,
        fitting: &Bits<NodeId>,
        order: &mut NodeOrder<'_>,
    ) -> Option<NodeId> {
        let full = self.placement.full(self.compatibility(demand));
        match order {
            NodeOrder::Slots(start) => {
                let node_id = fitting.first_without(&self.pass.excluded, full, *start)?;
                *start = node_id.position() + 1;
                Some(node_id)
            }
            NodeOrder::Few(few) => few.next(),
            NodeOrder::All(all) => all
                .copied()
                .find(|node_id| fitting.has(*node_id) && self.pass.is_there(*node_id) && !full.has(*node_id)),
        }
    }

    fn compatibility(&self, demand: &TopologyDemand) -> CompatibilityId {
        self.tables.classes[demand.class].levels[demand.level].compatibility
    }

    /// Places a pod on a node, if that can take it.
    pub(super) fn try_node(&mut self, pod_id: PodId, demand: &TopologyDemand, node_id: NodeId) -> Outcome {
        self.pass.probes += 1;
        match self.fit_node(pod_id, demand, node_id) {
            Ok(fit) => {
                self.take_node(demand.class, node_id, fit);
                self.pass.placed.entry(node_id).or_default().push(pod_id);
                Outcome::Placed
            }
            Err(outcome) => outcome,
        }
    }

    /// A node with the pod, if it has room for it and topology allows it.
    fn fit_node(
        &mut self,
        pod_id: PodId,
        demand: &TopologyDemand,
        node_id: NodeId,
    ) -> Result<NodeFit, Outcome> {
        let (tables, class) = (self.tables, demand.class);
        let (this, node) = (&tables.classes[class], &tables.nodes[node_id]);
        if !fits_free(&this.requests, &self.placement.room(node_id).free) {
            self.placement.note_full(self.compatibility(demand), node_id);
            return Err(Outcome::Failed);
        }
        let in_consolidate_after =
            node.consolidatable_at.is_some_and(|until| until > tables.snapshot.taken_at);
        let is_barred = in_consolidate_after && self.pass.purpose == Purpose::Consolidation;
        let ports = &this.pod.spec.host_ports;
        let taken = |node_id| self.pass.ports.get(&node_id).is_some_and(|more| clash(ports, more));
        if (is_barred && !self.is_unschedulable(self.pod(pod_id)))
            || (!ports.is_empty() && (clash(ports, &node.ports) || taken(node_id)))
            || !self.attaches(this, node_id)
        {
            return Err(Outcome::Failed);
        }
        let open = self.placement.room(node_id).open;
        let narrower = open.and_then(|open| self.narrow_open(demand, node_id, open));
        let allowed = match open {
            Some(_) => narrower.is_some(),
            None => {
                self.domains().obeys_on(demand, node_id) && reaches(tables, self.placement, this, node_id)
            }
        };
        if !allowed {
            return Err(Outcome::Failed);
        }
        let Some(devices) = self.pass.devices.as_deref().filter(|_| this.claims_devices()) else {
            return Ok(NodeFit { open: narrower, grant: None });
        };
        let grant = devices.fit_node(tables, class, node_id, narrower).map_err(|_| Outcome::LacksDevices)?;
        Ok(NodeFit { open: narrower.map(|_| grant.at), grant: Some(Box::new(grant)) })
    }

    /// Whether a pod has no node to stay on: it is pending, or its node is removed.
    fn is_unschedulable(&self, pod: &Pod) -> bool {
        let Some(node) = &pod.node else { return true };
        let nodes = &self.tables.nodes;
        let removed = |node_id: &NodeId| nodes[*node_id].deleting || self.pass.removed.has(*node_id);
        self.tables.by_node.get(node).is_none_or(removed)
    }

    /// Whether a node can attach the volumes of a class.
    fn attaches(&mut self, this: &Class, node_id: NodeId) -> bool {
        let (tables, node) = (self.tables, &self.tables.nodes[node_id]);
        if this.attachments.is_empty() || node.state.volume_limits.is_empty() {
            return true;
        }
        let attached = self.pass.attached.entry(node_id).or_insert_with(|| attachments_on(tables, node_id));
        node.state.volume_limits.iter().all(|(driver, limit)| {
            let of_driver = |(other, _): &&(Str, Str)| other == driver;
            let new =
                this.attachments.iter().filter(of_driver).filter(|volume| !attached.contains(volume)).count();
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            new == 0 || attached.iter().filter(of_driver).count() + new <= limit
        })
    }

    /// The requirements with which a node that is not launched takes a pod.
    fn narrow_open(&self, demand: &TopologyDemand, node_id: NodeId, open: Req) -> Option<Req> {
        let (class, universe) = (&self.tables.classes[demand.class], &self.tables.universe);
        let met = universe.meet(open, class.levels[demand.level].req, Side::Claim)?;
        let mut reachable = class.alternatives.iter().filter_map(|req| universe.meet(met, *req, Side::Claim));
        reachable.find_map(|req| {
            let options = self.domains().narrow(demand, node_id.into(), req).ok()?;
            options.first().copied()
        })
    }

    /// Takes room for a pod on a node.
    fn take_node(&mut self, class: PodClassId, node_id: NodeId, fit: NodeFit) {
        let this = &self.tables.classes[class];
        self.placement.take_room(node_id, &this.requests, fit.open);
        if let Some(devices) = &mut self.pass.devices {
            devices.take(Host::Node(node_id), fit.grant, None);
        }
        if !this.pod.spec.host_ports.is_empty() {
            self.pass.ports.entry(node_id).or_default().extend(this.pod.spec.host_ports.iter().cloned());
        }
        if let Some(attached) = self.pass.attached.get_mut(&node_id) {
            attached.extend(this.attachments.iter().cloned());
            attached.sort();
            attached.dedup();
        }
        domains::count_pods(self.tables, self.placement, node_id, this.label_set, 1);
        domains::count_anti_affinity(self.tables, self.placement, node_id, &this.keeps_away, 1);
    }
}

/// Volumes that are attached to a node for its pods.
fn attachments_on(tables: &Tables, node_id: NodeId) -> Vec<(Str, Str)> {
    let mut attached = tables.nodes[node_id].state.attached.clone();
    for pod in &tables.nodes[node_id].state.pods {
        for volume in &pod.spec.volumes {
            let claim = tables.snapshot.volumes.get(&volume_name(pod, volume));
            attached.extend(claim.and_then(|claim| Some((claim.driver.clone()?, claim.handle.clone()))));
        }
    }
    attached.sort();
    attached.dedup();
    attached
}

/// Whether a node reaches the volumes of a class.
pub(crate) fn reaches(tables: &Tables, placement: &Placement, class: &Class, node_id: NodeId) -> bool {
    let open = placement.room(node_id).open;
    class.alternatives.iter().any(|req| tables.nodes[node_id].satisfies(open, &tables.universe, *req))
}
