//! Places pods on existing and in-flight nodes.

use smallvec::SmallVec;

use crate::{
    model::{Pod, Str},
    scheduling::{
        greedy::pass::Pass,
        ids::{CompatibilityId, Id, NodeId, PodClassId},
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
            intern::{ANY, Req, Side},
            pod_classes::volume_name,
        },
    },
};

/// Up to this many nodes are sorted rather than looked up in the order of all. Tests have few nodes.
const FEW: usize = if cfg!(test) { 2 } else { 64 };

impl Pass {
    /// Tries the nodes that fit, in order.
    pub(crate) fn attempt_nodes(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pod: &Pod,
        demand: &TopologyDemand,
        fitting: &Bits<NodeId>,
    ) -> Option<NodeId> {
        let TopologyDemand { class, level, .. } = *demand;
        let compatibility = tables.classes[class].levels[level].compatibility;
        let mut start = 0;
        let mut few: SmallVec<[NodeId; FEW]> = SmallVec::new();
        while let Some(node_id) = fitting.first_without(&self.excluded, placement.full(compatibility), start)
        {
            start = node_id.position() + 1;
            if tables.in_order {
                if self.try_node(tables, placement, demand, node_id, pod) {
                    return Some(node_id);
                }
            } else if few.len() < FEW {
                few.push(node_id);
            } else {
                return self.attempt_all_nodes(tables, placement, pod, demand, fitting);
            }
        }
        few.sort_unstable_by_key(|node_id| tables.places[*node_id]);
        few.into_iter().find(|node_id| self.try_node(tables, placement, demand, *node_id, pod))
    }

    /// Starts behind the nodes that the last pod of the same compatibility found full.
    fn attempt_all_nodes(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pod: &Pod,
        demand: &TopologyDemand,
        fitting: &Bits<NodeId>,
    ) -> Option<NodeId> {
        let TopologyDemand { class, level, .. } = *demand;
        let compatibility = tables.classes[class].levels[level].compatibility;
        let ordered = tables.fitting_in_order(class, level);
        let start = self.skip(placement, compatibility, ordered);
        ordered[start..].iter().copied().find(|node_id| {
            let usable = fitting.has(*node_id)
                && !self.excluded.has(*node_id)
                && !placement.full(compatibility).has(*node_id);
            usable && self.try_node(tables, placement, demand, *node_id, pod)
        })
    }

    /// The position of the first node of a compatibility that is neither excluded nor full.
    pub(crate) fn skip(
        &mut self,
        placement: &Placement,
        compatibility: CompatibilityId,
        ordered: &[NodeId],
    ) -> usize {
        let start = self.starts.entry(compatibility).or_insert(0);
        let usable =
            |node_id: &NodeId| !self.excluded.has(*node_id) && !placement.full(compatibility).has(*node_id);
        *start += ordered[*start..].iter().position(usable).unwrap_or(ordered.len() - *start);
        *start
    }

    pub(crate) fn try_node(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        demand: &TopologyDemand,
        node_id: NodeId,
        pod: &Pod,
    ) -> bool {
        let TopologyDemand { class, level, .. } = *demand;
        self.probes += 1;
        let (this, node) = (&tables.classes[class], &tables.nodes[node_id]);
        let compatibility = this.levels[level].compatibility;
        if !fits_free(&this.requests, &placement.room(node_id).free) {
            placement.note_full(compatibility, node_id);
            return false;
        }
        let in_consolidate_after =
            node.consolidatable_at.is_some_and(|until| until > tables.snapshot.taken_at);
        let is_barred = in_consolidate_after && self.purpose == Purpose::Consolidation;
        if is_barred && !self.is_unschedulable(tables, pod) {
            return false;
        }
        let ports = &this.pod.spec.host_ports;
        if !ports.is_empty()
            && (clash(ports, &node.ports) || self.ports.get(&node_id).is_some_and(|more| clash(ports, more)))
        {
            return false;
        }
        if !self.attaches(tables, class, node_id) {
            return false;
        }
        match placement.room(node_id).open {
            None => {
                if !allowed_domains::obeys_on(tables, placement, demand, node_id)
                    || !reaches(tables, placement, class, node_id)
                {
                    return false;
                }
                if devices_on_node(self.devices.as_deref_mut(), tables, class, node_id, None).is_none() {
                    return false;
                }
                self.take_node(tables, placement, class, node_id, None);
            }
            Some(open) => {
                let Some(narrower) = narrow_open(tables, placement, demand, node_id, open) else {
                    return false;
                };
                let Some(narrower) =
                    devices_on_node(self.devices.as_deref_mut(), tables, class, node_id, Some(narrower))
                else {
                    return false;
                };
                self.take_node(tables, placement, class, node_id, narrower);
            }
        }
        true
    }

    /// Whether a pod has no node to stay on: it is pending, or its node is removed.
    fn is_unschedulable(&self, tables: &Tables, pod: &Pod) -> bool {
        let Some(node) = &pod.node else { return true };
        let removed = |node_id: &NodeId| tables.nodes[*node_id].deleting || self.removed.has(*node_id);
        tables.by_node.get(node).is_none_or(removed)
    }

    fn attaches(&mut self, tables: &Tables, class: PodClassId, node_id: NodeId) -> bool {
        let (this, node) = (&tables.classes[class], &tables.nodes[node_id]);
        if this.attachments.is_empty() || node.state.volume_limits.is_empty() {
            return true;
        }
        let attached = self.attached.entry(node_id).or_insert_with(|| attachments_on(tables, node_id));
        node.state.volume_limits.iter().all(|(driver, limit)| {
            let of_driver = |(other, _): &&(Str, Str)| other == driver;
            let new =
                this.attachments.iter().filter(of_driver).filter(|volume| !attached.contains(volume)).count();
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            new == 0 || attached.iter().filter(of_driver).count() + new <= limit
        })
    }

    fn take_node(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        class: PodClassId,
        node_id: NodeId,
        open: Option<Req>,
    ) {
        let this = &tables.classes[class];
        placement.take_room(node_id, &this.requests, open);
        if !this.pod.spec.host_ports.is_empty() {
            self.ports.entry(node_id).or_default().extend(this.pod.spec.host_ports.iter().cloned());
        }
        if let Some(attached) = self.attached.get_mut(&node_id) {
            attached.extend(this.attachments.iter().cloned());
            attached.sort();
            attached.dedup();
        }
        domains::count_pods(tables, placement, node_id, this.label_set, 1);
        domains::count_anti_affinity(tables, placement, node_id, &this.keeps_away, 1);
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
fn reaches(tables: &Tables, placement: &Placement, class: PodClassId, node_id: NodeId) -> bool {
    let open = placement.room(node_id).open;
    let alternatives = &tables.classes[class].alternatives;
    alternatives
        .iter()
        .any(|req| *req == ANY || tables.nodes[node_id].satisfies(open, &tables.universe, *req))
}
