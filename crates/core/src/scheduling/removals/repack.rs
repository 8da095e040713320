//! Simulations whose new NodeClaims are packed by price.
//!
//! A simulation places pods as Karpenter does: into one node for as long as any type holds them. Whether several smaller ones
//! cost less than the nodes that go is asked here, for a few sets of nodes that look as if they would; it costs a
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
        removals::base::{BasePlacement, Whole, simulation},
        request::{Effort, Purpose, Request},
    },
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

/// The last simulation on a base placement, with its new NodeClaims packed by price.
pub(super) fn repack(
    base: &mut BasePlacement,
    prepared: &mut PreparedSnapshot,
    without: &[usize],
    terms: &Repack<'_>,
) -> Option<Plan> {
    if base.opens() {
        return None;
    }
    let Whole { pass, pods, classes } = base.last_whole()?;
    repacked(pass, prepared, &simulation(pods, without, Purpose::Consolidation), classes, terms)
}

/// A simulation where nothing else needs a place, with its new NodeClaims packed by price.
pub(super) fn repack_alone(
    prepared: &mut PreparedSnapshot,
    moved: &[Arc<Pod>],
    without: &[usize],
    terms: &Repack<'_>,
) -> Option<Plan> {
    let request = simulation(moved, without, Purpose::Consolidation);
    let PreparedSnapshot { tables, placement, asked, .. } = prepared;
    let asked = asked.next(tables, placement, moved);
    let (mut pass, distinct) = Pass::begin(tables, placement, &request, &asked, Strategy::KARPENTER);
    let unplaced = pass.place_all(tables, placement, moved, &asked.classes, asked.queue);
    let plan = if unplaced.is_empty() {
        repacked(&mut pass, prepared, &request, &asked.classes, terms)
    } else {
        None
    };
    pass.restore(&prepared.tables, &mut prepared.placement, &distinct);
    plan
}

/// What it opens, packed by price. All of its pods have a place.
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
