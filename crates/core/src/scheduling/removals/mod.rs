//! Simulations of removals on a base placement: pending pods and pods on deleting nodes are placed once, in Karpenter's
//! order, and every simulation starts from there, at the cost of what it moves.
//!
//! A simulation excludes nodes. The pods that it moves are placed, in the same order, together with those that the base
//! placement has on the excluded nodes and with those that the base placement leaves unschedulable. An unschedulable pod
//! is thus placed before a scheduled one, on the cluster as it is at that moment: the order in which it will happen.
//! Karpenter's queue orders by size only, so pods may go to other nodes there when the cluster is tight.
//!
//! The last simulation can be kept in the base placement ([`Removals::keep`]): the next simulation of the pass starts
//! from it.

mod base;
pub(crate) mod repack;

use std::sync::Arc;

use self::{
    base::{BasePlacement, KeptRemoval, pods_to_place, simulation},
    repack::Repack,
};
use crate::{
    model::{Pod, Snapshot},
    scheduling::{
        greedy::request_queue, ids::TopologyGroupId, placement::follow, plan::Plan,
        prepared::PreparedSnapshot, request::Purpose, tables::Tables,
    },
};

/// Simulations of removals on a snapshot.
#[derive(Debug)]
pub struct Removals {
    prepared: PreparedSnapshot,
    /// The base placement, from the first simulation on. Until it is rewound, the placement contains it.
    base: Option<Box<BasePlacement>>,
}

impl Removals {
    /// For simulations on a snapshot.
    #[must_use]
    pub fn new(prepared: PreparedSnapshot) -> Self {
        Self { prepared, base: None }
    }

    /// Rewinds the simulations and returns the prepared snapshot.
    #[must_use]
    pub fn into_prepared(mut self) -> PreparedSnapshot {
        self.rewind_base();
        self.prepared
    }

    /// The snapshot that is simulated on.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        self.prepared.snapshot()
    }

    /// Moves on to another snapshot, as [`PreparedSnapshot::update`] does.
    pub fn update(&mut self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        self.rewind_base();
        self.prepared.update(snapshot)
    }

    /// Simulates the removal of some nodes, given as indices into [`Snapshot::nodes`]. The pods in `moved`, which run
    /// there, are placed elsewhere, after pending pods and pods of deleting nodes. The plan
    /// has all new NodeClaims; of placements it may have only those that differ without the nodes,
    /// and it has no reasons for pending pods. `purpose` decides which nodes take `moved`.
    pub fn without(&mut self, moved: &[Arc<Pod>], without: &[usize], purpose: Purpose) -> Plan {
        self.rewind_last();
        let tables = &self.prepared.tables;
        let deleting = tables.slots_of(without).meets(&tables.deleting);
        if deleting || claims_devices(tables, moved) || !self.place_base() {
            return self.alone(moved, (without, purpose));
        }
        let groups = self.prepared.tables.topology.groups.next_id();
        let PreparedSnapshot { tables, placement, .. } = &mut self.prepared;
        let (classes, _) = request_queue::compile(tables, placement, moved);
        let grew = self.prepared.tables.topology.groups.next_id() > groups;
        if grew && self.base.as_ref().is_some_and(|base| !base.is_empty()) {
            self.place_base_again(groups);
        }
        let Some(base) = &mut self.base else { return Plan::default() };
        base.ask(&mut self.prepared, moved, &classes, (without, purpose))
    }

    /// Makes a simulation ([`Self::without`]) part of the base placement, from which the next one starts. Only
    /// if existing nodes take all its pods; otherwise nothing changes, and it returns `false`.
    pub fn keep(&mut self, moved: &[Arc<Pod>], without: &[usize], purpose: Purpose) -> bool {
        let excluded = self.prepared.tables.slots_of(without);
        if !self.base.as_ref().is_some_and(|base| base.last_is(&excluded)) {
            drop(self.without(moved, without, purpose));
        }
        let keeps = self.base.as_ref().is_some_and(|base| base.last_is(&excluded) && base.last_fits_nodes());
        if keeps {
            self.keep_last(KeptRemoval { moved: moved.to_vec(), without: without.to_vec(), purpose });
        }
        keeps
    }

    /// [`Self::without`] with the new NodeClaims packed by price. `None` where they do not cost less than was paid, where
    /// some pod has no place, where pods wait for nodes of their own, or where something about a pod (ports, volumes,
    /// devices, affinity by hostname) or the cluster (reservations) keeps them as they are. Limits of pools are not
    /// counted down.
    pub fn repack(&mut self, moved: &[Arc<Pod>], without: &[usize], terms: &Repack<'_>) -> Option<Plan> {
        drop(self.without(moved, without, Purpose::Consolidation));
        repack::repack(self.base.as_mut()?, &mut self.prepared, without, terms)
    }

    /// Makes the last simulation part of the base placement as it is.
    fn keep_last(&mut self, kept: KeptRemoval) {
        let mark = self.prepared.placement.mark();
        if let Some(base) = &mut self.base {
            base.keep_last(kept, mark);
        }
    }

    /// Places the base, unless it is placed; `false` where its pods claim devices.
    fn place_base(&mut self) -> bool {
        if self.base.is_none() {
            let pods = pods_to_place(&self.prepared.tables);
            if claims_devices(&self.prepared.tables, &pods) {
                return false;
            }
            self.base = Some(Box::new(BasePlacement::new(&mut self.prepared, pods)));
        }
        true
    }

    /// Places all pods by one request, without a base placement.
    fn alone(&mut self, moved: &[Arc<Pod>], (without, purpose): (&[usize], Purpose)) -> Plan {
        self.rewind_base();
        let mut pods = pods_to_place(&self.prepared.tables);
        pods.extend(moved.iter().cloned());
        self.prepared.in_karpenters_order(&simulation(&pods, without, purpose))
    }

    /// Topology groups from `known` on were added on top of the base placement and counted its pods. Counts them as they
    /// should be, looks at all pods that run, so that no simulation brings another one, and places the base again.
    fn place_base_again(&mut self, known: TopologyGroupId) {
        let kept = self.base.as_mut().map(|base| base.take_kept()).unwrap_or_default();
        self.rewind_base();
        let PreparedSnapshot { tables, placement, .. } = &mut self.prepared;
        for group in tables.topology.groups.ids().filter(|group| *group >= known) {
            follow::count_again(tables, placement, group);
        }
        let snapshot = Arc::clone(&tables.snapshot);
        let pods = snapshot.nodes.iter().flat_map(|node| &node.pods);
        let running: Vec<Arc<Pod>> = pods.filter(|pod| pod.is_reschedulable()).cloned().collect();
        request_queue::compile(tables, placement, &running);
        self.place_base();
        // One after the other, in their order: together, pods could be placed on other nodes than those that were
        // decided on, or on none. A pod without a node stays unschedulable, so that no further node is removed.
        for kept in kept {
            drop(self.without(&kept.moved, &kept.without, kept.purpose));
            self.keep_last(kept);
        }
    }

    /// Rewinds the base placement, so that the placement is that of the snapshot.
    fn rewind_base(&mut self) {
        self.rewind_last();
        if let Some(base) = self.base.take() {
            base.rewind(&mut self.prepared);
        }
    }

    /// Rewinds the last simulation.
    fn rewind_last(&mut self) {
        if let Some(base) = &mut self.base {
            base.rewind_last(&mut self.prepared);
        }
    }
}

fn claims_devices(tables: &Tables, pods: &[Arc<Pod>]) -> bool {
    !tables.rules.ignore_dra && pods.iter().any(|pod| !pod.spec.resource_claims.is_empty())
}

#[cfg(test)]
impl Removals {
    /// Where the base placement has its pods, once the last simulation is taken back.
    pub(crate) fn base_plan(&mut self) -> Option<Plan> {
        self.rewind_last();
        self.base.as_ref().map(|base| base.plan(&mut self.prepared))
    }
}
