//! Simulations whose new NodeClaims are packed by price.
//!
//! A simulation places pods as Karpenter does: into one node for as long as any type holds them. Whether several smaller ones
//! cost less than the removed nodes is decided here, for the few sets of nodes that look promising; it costs a
//! hundred times as much as a simulation. Pods that nodes have room for stay there.

use std::sync::Arc;

use crate::{
    model::{Pod, Price, Requirement, Requirements, Str, labels::INSTANCE_TYPE},
    scheduling::{
        explain::finish,
        greedy::pass::{Pass, Strategy},
        ids::{IdVec, PodClassId, PodId},
        improve::{
            NODE_OVERHEAD,
            improver::{Saving, improve},
            members::Scope,
        },
        plan::Plan,
        prepared::PreparedSnapshot,
        removals::base::{BasePlacement, CompleteSimulation, simulation},
        request::{Effort, Purpose, Request},
    },
};

/// Conditions on the new NodeClaims of a simulation that are packed by price.
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

/// The last simulation on a base placement, with its new NodeClaims packed by price.
pub(super) fn repack(
    base: &mut BasePlacement,
    prepared: &mut PreparedSnapshot,
    without: &[usize],
    terms: &Repack<'_>,
) -> Option<Plan> {
    if base.has_new_claims() {
        return None;
    }
    let CompleteSimulation { pass, pods, classes } = base.last_complete()?;
    repacked(pass, prepared, &simulation(pods, without, Purpose::Consolidation), classes, terms)
}

/// A simulation without other pods to place, with its new NodeClaims packed by price.
pub(super) fn repack_without_base(
    prepared: &mut PreparedSnapshot,
    moved: &[Arc<Pod>],
    without: &[usize],
    terms: &Repack<'_>,
) -> Option<Plan> {
    let request = simulation(moved, without, Purpose::Consolidation);
    let PreparedSnapshot { tables, placement, request_queue, .. } = prepared;
    let queue = request_queue.next(tables, placement, moved);
    let (mut pass, distinct) = Pass::begin(tables, placement, &request, &queue, Strategy::KARPENTER);
    let unplaced = pass.place_all(tables, placement, moved, &queue.classes, queue.queue);
    let plan = if unplaced.is_empty() {
        repacked(&mut pass, prepared, &request, &queue.classes, terms)
    } else {
        None
    };
    pass.restore(&prepared.tables, &mut prepared.placement, &distinct);
    plan
}

/// The new NodeClaims of a pass, packed by price. All of its pods are placed.
fn repacked(
    pass: &mut Pass,
    prepared: &mut PreparedSnapshot,
    request: &Request<'_>,
    classes: &IdVec<PodId, PodClassId>,
    terms: &Repack<'_>,
) -> Option<Plan> {
    if pass.exhausted || pass.devices.is_some() || pass.claims.is_empty() {
        return None;
    }
    let PreparedSnapshot { tables, placement, memo, .. } = prepared;
    let names = terms.shunned.iter().cloned();
    let within: Requirements = [Requirement::not_in(INSTANCE_TYPE, names)].into_iter().collect();
    let within = tables.universe.req(&within);
    let nodes = i64::try_from(terms.nodes).unwrap_or(i64::MAX);
    let paid = terms.paid.nanos().saturating_add(NODE_OVERHEAD.saturating_mul(nodes));
    let scope = Scope::replacements(within, paid);
    let effort = Effort::Iterations(terms.rounds);
    if improve(pass, tables, placement, classes, scope, effort) == Saving::None {
        return None;
    }
    Some(finish::plan(tables, placement, memo, pass, (request, classes), Vec::new()))
}
