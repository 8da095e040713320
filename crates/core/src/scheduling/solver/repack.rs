//! Simulations whose new NodeClaims are packed by price.
//!
//! A simulation places pods as Karpenter does: into one node for as long as any type holds them. Whether several smaller ones
//! cost less than the nodes that go is asked here, for a few sets of nodes that look as if they would; it costs a
//! hundred times as much as a simulation. Pods that nodes have room for stay there.

use std::sync::Arc;

use super::{
    Solver,
    base::{BasePlacement, Whole, simulation},
    pass::{Pass, Strategy},
};
use crate::scheduling::ids::{IdVec, PodClassId, PodId};
use crate::{
    model::{Pod, Price, Requirement, Requirements, Str, labels::INSTANCE_TYPE},
    scheduling::{Effort, Plan, Request, packer::NODE_OVERHEAD},
};

/// What the new NodeClaims of a simulation have to be when they are packed by price.
#[derive(Clone, Copy, Debug)]
pub struct Repack<'a> {
    /// What they have to cost less than, per hour.
    pub paid: Price,
    /// The nodes that cost that: a node weighs something beside its price.
    pub nodes: usize,
    /// Instance types that none of them may be.
    pub shunned: &'a [Str],
    /// How many rounds of improvement the search has.
    pub rounds: u32,
}

impl Solver {
    /// What would happen if some nodes went away and their pods `moved`, as [`Self::what_if`] asks, with the new NodeClaims
    /// packed by price. `None` where they do not cost less than was paid, where some pod has no place, where pods wait for
    /// nodes of their own, or where something about a pod (ports, volumes, devices, affinity by hostname) or the cluster
    /// (reservations) keeps them as they are. Limits of pools are not counted down.
    pub fn repack(&mut self, moved: &[Arc<Pod>], without: &[usize], terms: &Repack<'_>) -> Option<Plan> {
        drop(self.what_if(moved, without));
        let Some(mut base) = self.base.take() else {
            return if self.tables.pods_to_place().is_empty() {
                self.repack_alone(moved, without, terms)
            } else {
                None
            };
        };
        let plan = base.repack(self, without, terms);
        self.base = Some(base);
        plan
    }

    /// [`Self::repack`] where nothing else needs a place.
    fn repack_alone(&mut self, moved: &[Arc<Pod>], without: &[usize], terms: &Repack<'_>) -> Option<Plan> {
        let request = simulation(moved, without);
        let (mut pass, asked, distinct) = Pass::begin(self, &request, Strategy::KARPENTER);
        let unplaced = pass.place_all(self, moved, &asked.classes, asked.queue.clone());
        let plan =
            if unplaced.is_empty() { pass.repacked(self, &request, &asked.classes, terms) } else { None };
        pass.restore(self, &distinct);
        plan
    }
}

impl BasePlacement {
    /// The last simulation with its new NodeClaims packed by price.
    fn repack(&mut self, solver: &mut Solver, without: &[usize], terms: &Repack<'_>) -> Option<Plan> {
        if self.opens() {
            return None;
        }
        let Whole { pass, pods, classes } = self.last_whole()?;
        pass.repacked(solver, &simulation(pods, without), classes, terms)
    }
}

impl Pass {
    /// What it opens, packed by price. All of its pods have a place.
    fn repacked(
        &mut self,
        solver: &mut Solver,
        request: &Request<'_>,
        classes: &IdVec<PodId, PodClassId>,
        terms: &Repack<'_>,
    ) -> Option<Plan> {
        if self.exhausted || self.devices.is_some() || self.claims.is_empty() {
            return None;
        }
        let names = terms.shunned.iter().cloned();
        let within: Requirements = [Requirement::not_in(INSTANCE_TYPE, names)].into_iter().collect();
        let within = solver.tables.universe.req(&within);
        // The heap weighs as one node.
        let others = i64::try_from(terms.nodes.saturating_sub(1)).unwrap_or(i64::MAX);
        let paid = terms.paid.nanos().saturating_add(NODE_OVERHEAD.saturating_mul(others));
        if !self.rearrange_below(solver, classes, (within, paid), Effort::Iterations(terms.rounds)) {
            return None;
        }
        Some(super::finish::plan(solver, self, request, classes, Vec::new()))
    }
}
