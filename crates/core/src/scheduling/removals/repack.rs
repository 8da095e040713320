//! Simulations whose new NodeClaims are packed by price.
//!
//! A simulation places pods as Karpenter does: into one node for as long as any type holds them. Whether several smaller ones
//! cost less than the removed nodes is decided here, for the few sets of nodes that look promising; it costs a
//! hundred times as much as a simulation. Pods that nodes have room for stay there.

use crate::{
    model::{Price, Requirement, Str, labels::INSTANCE_TYPE},
    scheduling::{
        explain::finish,
        improve::{
            NODE_OVERHEAD,
            improver::{Saving, improve},
            members::Scope,
        },
        plan::Plan,
        prepared::PreparedSnapshot,
        removals::base::{BasePlacement, simulation},
        request::{Effort, Purpose},
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
    let (pass, (pods, classes)) = base.last_complete()?;
    if pass.exhausted || pass.devices.is_some() || pass.claims.is_empty() {
        return None;
    }
    let PreparedSnapshot { tables, placement, memo, .. } = prepared;
    let names = terms.shunned.iter().cloned();
    let within = tables.universe.req(&[Requirement::not_in(INSTANCE_TYPE, names)]);
    let nodes = i64::try_from(terms.nodes).unwrap_or(i64::MAX);
    let paid = terms.paid.nanos().saturating_add(NODE_OVERHEAD.saturating_mul(nodes));
    let scope = Scope::replacements(within, paid);
    let effort = Effort::Iterations(terms.rounds);
    if improve(pass, tables, placement, classes, scope, effort) == Saving::None {
        return None;
    }
    let request = simulation(pods, without, Purpose::Consolidation);
    Some(finish::plan(tables, placement, memo, pass, (&request, classes), Vec::new()))
}
