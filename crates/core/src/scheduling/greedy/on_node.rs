//! Pods onto nodes that exist or are on their way.

use smallvec::SmallVec;

use crate::{
    model::{Pod, Str},
    scheduling::{
        greedy::pass::Pass,
        ids::{CompatibilityId, Id, NodeId, PodClassId},
        placement::{
            Placement,
            allowed_domains::{self, Demand},
            claim::clash,
            devices::devices_on_node,
            domains::{counts_on, node_domains},
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

/// So few nodes are sorted rather than searched for in the order of all. Tests have few nodes.
const FEW: usize = if cfg!(test) { 2 } else { 64 };

impl Pass {
    /// Tries the nodes that fit, in order.
    pub(crate) fn attempt_nodes(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        pod: &Pod,
        demand: &Demand,
        fitting: &Bits<NodeId>,
    ) -> Option<NodeId> {
        let Demand { class, level, .. } = *demand;
        let compatibility = tables.classes[class].levels[level].compatibility;
        let mut start = 0;
        let mut few: SmallVec<[NodeId; FEW]> = SmallVec::new();
        while let Some(at) = fitting.first_without(&self.gone, placement.full(compatibility), start) {
            start = at.position() + 1;
            if tables.in_order {
                if self.try_node(tables, placement, demand, at, pod) {
                    return Some(at);
                }
            } else if few.len() < FEW {
                few.push(at);
            } else {
                return self.attempt_all_nodes(tables, placement, pod, demand, fitting);
            }
        }
        few.sort_unstable_by_key(|at| tables.places[*at]);
        few.into_iter().find(|at| self.try_node(tables, placement, demand, *at, pod))
    }

    /// Goes on where the last pod of the same compatibility found that all before are full for good.
    fn attempt_all_nodes(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        pod: &Pod,
        demand: &Demand,
        fitting: &Bits<NodeId>,
    ) -> Option<NodeId> {
        let Demand { class, level, .. } = *demand;
        let compatibility = tables.classes[class].levels[level].compatibility;
        let ordered = tables.fitting_in_order(class, level);
        let start = self.skip(placement, compatibility, &ordered);
        ordered[start..].iter().copied().find(|at| {
            let left = fitting.has(*at) && !self.gone.has(*at) && !placement.full(compatibility).has(*at);
            left && self.try_node(tables, placement, demand, *at, pod)
        })
    }

    /// Where the first node of a compatibility stands that is neither gone nor full.
    pub(crate) fn skip(
        &mut self,
        placement: &Placement,
        compatibility: CompatibilityId,
        ordered: &[NodeId],
    ) -> usize {
        let start = self.starts.entry(compatibility).or_insert(0);
        let left = |at: &NodeId| !self.gone.has(*at) && !placement.full(compatibility).has(*at);
        *start += ordered[*start..].iter().position(left).unwrap_or(ordered.len() - *start);
        *start
    }

    pub(crate) fn try_node(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        demand: &Demand,
        at: NodeId,
        pod: &Pod,
    ) -> bool {
        let Demand { class, level, .. } = *demand;
        self.probes += 1;
        let (this, node) = (&tables.classes[class], &tables.nodes[at]);
        let compatibility = this.levels[level].compatibility;
        if !fits_free(&this.requests, &placement.room(at).free) {
            placement.note_full(compatibility, at);
            return false;
        }
        let in_consolidate_after = node.settles.is_some_and(|until| until > tables.snapshot.taken_at);
        let is_barred = in_consolidate_after && self.purpose == Purpose::Consolidation;
        if is_barred && !self.is_unschedulable(tables, pod) {
            return false;
        }
        let ports = &this.pod.spec.host_ports;
        if !ports.is_empty()
            && (clash(ports, &node.ports) || self.ports.get(&at).is_some_and(|more| clash(ports, more)))
        {
            return false;
        }
        if !self.attaches(tables, class, at) {
            return false;
        }
        match placement.room(at).open {
            None => {
                if !allowed_domains::obeys_on(tables, placement, demand, at)
                    || !reaches(tables, placement, class, at)
                {
                    return false;
                }
                if devices_on_node(self.devices.as_deref_mut(), tables, class, at, None).is_none() {
                    return false;
                }
                self.take_node(tables, placement, class, at, None);
            }
            Some(open) => {
                let Some(narrower) = narrow_open(tables, placement, demand, at, open) else {
                    return false;
                };
                let Some(narrower) =
                    devices_on_node(self.devices.as_deref_mut(), tables, class, at, Some(narrower))
                else {
                    return false;
                };
                self.take_node(tables, placement, class, at, narrower);
            }
        }
        true
    }

    /// Whether a pod has no place now: it is pending, or its node is going away.
    fn is_unschedulable(&self, tables: &Tables, pod: &Pod) -> bool {
        let Some(node) = &pod.node else { return true };
        let gone = |at: &NodeId| tables.nodes[*at].deleting || self.settled.has(*at);
        tables.by_node.get(node).is_none_or(gone)
    }

    fn attaches(&mut self, tables: &Tables, class: PodClassId, at: NodeId) -> bool {
        let (this, node) = (&tables.classes[class], &tables.nodes[at]);
        if this.attachments.is_empty() || node.state.volume_limits.is_empty() {
            return true;
        }
        let attached = self.attached.entry(at).or_insert_with(|| attachments_on(tables, at));
        node.state.volume_limits.iter().all(|(driver, limit)| {
            let of_driver = |(of, _): &&(Str, Str)| of == driver;
            let new =
                this.attachments.iter().filter(of_driver).filter(|volume| !attached.contains(volume)).count();
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            new == 0 || attached.iter().filter(of_driver).count() + new <= limit
        })
    }

    fn take_node(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        class: PodClassId,
        at: NodeId,
        open: Option<Req>,
    ) {
        let this = &tables.classes[class];
        placement.take_room(at, &this.requests, open);
        if !this.pod.spec.host_ports.is_empty() {
            self.ports.entry(at).or_default().extend(this.pod.spec.host_ports.iter().cloned());
        }
        if let Some(attached) = self.attached.get_mut(&at) {
            attached.extend(this.attachments.iter().cloned());
            attached.sort();
            attached.dedup();
        }
        let label_set = this.label_set;
        for position in 0..tables.topology.label_sets[label_set].groups.len() {
            let group = tables.topology.label_sets[label_set].groups[position];
            if counts_on(tables, placement, group, at) {
                for domain in node_domains(tables, placement, group, at) {
                    placement.count(group, domain, false, 1);
                }
            }
        }
        for position in 0..tables.classes[class].keeps_away.len() {
            let group = tables.classes[class].keeps_away[position];
            for domain in node_domains(tables, placement, group, at) {
                placement.count(group, domain, true, 1);
            }
        }
    }
}

/// The first way in which a node whose choice is open can take a pod.
fn narrow_open(
    tables: &mut Tables,
    placement: &mut Placement,
    demand: &Demand,
    at: NodeId,
    open: Req,
) -> Option<Req> {
    let Demand { class, level, .. } = *demand;
    let wanted = tables.classes[class].levels[level].req;
    let met = tables.universe.meet(open, wanted, Side::Claim)?;
    for position in 0..tables.classes[class].alternatives.len() {
        let alternative = tables.classes[class].alternatives[position];
        let Some(reachable) = tables.universe.meet(met, alternative, Side::Claim) else { continue };
        if let Ok(options) = allowed_domains::narrow(tables, placement, demand, at.into(), reachable) {
            return options.first().copied();
        }
    }
    None
}

/// Volumes that are attached to a node for its pods.
fn attachments_on(tables: &Tables, at: NodeId) -> Vec<(Str, Str)> {
    let mut attached = tables.nodes[at].state.attached.clone();
    for pod in &tables.nodes[at].state.pods {
        for volume in &pod.spec.volumes {
            let claim = tables.snapshot.volumes.get(&volume_name(pod, volume));
            attached.extend(claim.and_then(|claim| Some((claim.driver.clone()?, claim.handle.clone()))));
        }
    }
    attached.sort();
    attached.dedup();
    attached
}

/// Whether a node is where the volumes of a class can be.
fn reaches(tables: &mut Tables, placement: &Placement, class: PodClassId, at: NodeId) -> bool {
    let open = placement.room(at).open;
    let alternatives = &tables.classes[class].alternatives;
    alternatives.iter().any(|req| *req == ANY || tables.nodes[at].satisfies(open, &mut tables.universe, *req))
}
