//! Places pods on existing and in-flight nodes.

use smallvec::SmallVec;

use crate::{
    model::{Pod, Str},
    scheduling::{
        greedy::place::Greedy,
        ids::{Id, NodeId, PodClassId, PodId},
        placement::{
            Placement,
            allowed_domains::{self, TopologyDemand},
            claim::clash,
            devices::devices_on_node,
            domains,
        },
        request::Purpose,
        tables::{
            Tables,
            amounts::fits_free,
            bits::Bits,
            intern::{Req, Side},
            pod_classes::{Class, volume_name},
        },
    },
};

/// Up to this many nodes are sorted rather than looked up in the order of all. Tests have few nodes.
const FEW: usize = if cfg!(test) { 2 } else { 64 };

impl Greedy<'_> {
    /// Places a pod on the first of the nodes that fit, in order.
    pub(super) fn attempt_nodes(
        &mut self,
        pod_id: PodId,
        demand: &TopologyDemand,
        fitting: &Bits<NodeId>,
    ) -> bool {
        let (tables, pod) = (self.tables, self.pod(pod_id));
        let compatibility = tables.classes[demand.class].levels[demand.level].compatibility;
        let mut start = 0;
        let mut few: SmallVec<[NodeId; FEW]> = SmallVec::new();
        let mut placed = None;
        while let Some(node_id) =
            fitting.first_without(&self.pass.excluded, self.placement.full(compatibility), start)
        {
            start = node_id.position() + 1;
            if tables.in_order {
                if self.try_node(demand, node_id, pod) {
                    placed = Some(node_id);
                    break;
                }
            } else if few.len() < FEW {
                few.push(node_id);
            } else {
                few.clear();
                placed = self.attempt_all_nodes(pod, demand, fitting);
                break;
            }
        }
        few.sort_unstable_by_key(|node_id| tables.places[*node_id]);
        let placed = placed.or_else(|| few.into_iter().find(|node_id| self.try_node(demand, *node_id, pod)));
        if let Some(node_id) = placed {
            self.pass.placed.entry(node_id).or_default().push(pod_id);
        }
        placed.is_some()
    }

    /// Starts behind the nodes that the last pod of the same compatibility found full.
    fn attempt_all_nodes(
        &mut self,
        pod: &Pod,
        demand: &TopologyDemand,
        fitting: &Bits<NodeId>,
    ) -> Option<NodeId> {
        let compatibility = self.tables.classes[demand.class].levels[demand.level].compatibility;
        let ordered = self.tables.fitting_in_order(demand.class, demand.level);
        let start = self.pass.skip(self.placement, compatibility, ordered);
        ordered[start..].iter().copied().find(|node_id| {
            let usable = fitting.has(*node_id)
                && self.pass.is_there(*node_id)
                && !self.placement.full(compatibility).has(*node_id);
            usable && self.try_node(demand, *node_id, pod)
        })
    }

    /// Places a pod on a node that fits, if the node has room for it and topology allows it.
    pub(super) fn try_node(&mut self, demand: &TopologyDemand, node_id: NodeId, pod: &Pod) -> bool {
        let (tables, class) = (self.tables, demand.class);
        self.pass.probes += 1;
        let (this, node) = (&tables.classes[class], &tables.nodes[node_id]);
        if !fits_free(&this.requests, &self.placement.room(node_id).free) {
            self.placement.note_full(this.levels[demand.level].compatibility, node_id);
            return false;
        }
        let in_consolidate_after =
            node.consolidatable_at.is_some_and(|until| until > tables.snapshot.taken_at);
        let is_barred = in_consolidate_after && self.pass.purpose == Purpose::Consolidation;
        if is_barred && !self.is_unschedulable(pod) {
            return false;
        }
        let ports = &this.pod.spec.host_ports;
        let taken = |node_id| self.pass.ports.get(&node_id).is_some_and(|more| clash(ports, more));
        if !ports.is_empty() && (clash(ports, &node.ports) || taken(node_id)) {
            return false;
        }
        if !self.attaches(this, node_id) {
            return false;
        }
        let open = self.placement.room(node_id).open;
        let open = match open {
            None => {
                if !allowed_domains::obeys_on(tables, self.placement, demand, node_id)
                    || !reaches(tables, self.placement, this, node_id)
                {
                    return false;
                }
                None
            }
            Some(open) => {
                let Some(narrower) = narrow_open(tables, self.placement, demand, node_id, open) else {
                    return false;
                };
                Some(narrower)
            }
        };
        let devices = self.pass.devices.as_deref_mut();
        let Some(open) = devices_on_node(devices, tables, class, node_id, open) else { return false };
        self.take_node(class, node_id, open);
        true
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

    /// Takes room for a pod on a node, which then has the requirements `open`.
    fn take_node(&mut self, class: PodClassId, node_id: NodeId, open: Option<Req>) {
        let this = &self.tables.classes[class];
        self.placement.take_room(node_id, &this.requests, open);
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

/// The requirements with which a node that is not launched takes a pod.
fn narrow_open(
    tables: &Tables,
    placement: &Placement,
    demand: &TopologyDemand,
    node_id: NodeId,
    open: Req,
) -> Option<Req> {
    let class = &tables.classes[demand.class];
    let met = tables.universe.meet(open, class.levels[demand.level].req, Side::Claim)?;
    let mut reachable =
        class.alternatives.iter().filter_map(|req| tables.universe.meet(met, *req, Side::Claim));
    reachable.find_map(|req| {
        let options = allowed_domains::narrow(tables, placement, demand, node_id.into(), req).ok()?;
        options.first().copied()
    })
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
