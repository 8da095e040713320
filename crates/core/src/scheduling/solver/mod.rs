//! The solver: everything about a snapshot that does not depend on what is asked, built once and then brought up to
//! date; each request costs what it moves, each newer snapshot what has changed.
//!
//! - `intern`, `amounts`, `bits`: labels, requirements and resources as small integers.
//! - `pools`, `ranks`, `nodes`: what there is to buy, and what there is.
//! - `follow`: a newer snapshot.
//! - `tables`: what the snapshot means; `placement`: what has been placed, with the journal that undoes it.
//! - `base`: what simulations of removals have in common; `leaving`: pods that leave their nodes.
//! - `topology`, `domains`: topology groups and their domains.
//! - `pod_classes`, `defaults`, `contradiction`: pods as classes with levels of relaxation.
//! - `request_queue`, `pass`, `candidate_order`, `on_node`, `on_new_claim`, `claim`, `allowed_domains`: one request, pod by pod in Karpenter's order.
//! - `patterns`: pods that topology says nothing about, packed together at the least price.
//! - `devices`: pods with resource claims.
//! - `rearrange`: new NodeClaims packed again once topology has had its say; `repack`: those of a simulation, to cost less than what goes.
//! - `finish`, `explain`: the result as a [`Plan`]; `lower_bound`: what it must cost at least.

mod allowed_domains;
mod amounts;
mod base;
mod bits;
mod candidate_order;
mod claim;
mod contradiction;
mod defaults;
mod devices;
mod domains;
mod explain;
mod finish;
mod follow;
mod intern;
mod leaving;
mod lower_bound;
mod nodes;
mod on_new_claim;
mod on_node;
mod pass;
mod patterns;
mod placement;
mod pod_classes;
mod pools;
mod ranks;
mod rearrange;
mod relaxation;
mod repack;
mod request_queue;
mod tables;
mod topology;

use std::sync::Arc;

pub use self::repack::Repack;
/// What ids are of.
pub(super) use self::{
    claim::Claim,
    nodes::NodeRow,
    pod_classes::{Class, Compatibility, Level},
    pools::{Pool, Reservations, Row},
    topology::{Group, LabelSet},
};
pub(super) use self::{pass::Strategy, patterns::Share, rearrange::Start};
use self::{placement::Placement, request_queue::RequestQueue, tables::Tables};
use super::{LeastCost, Packer, Plan, Request, Rules};
use crate::model::Snapshot;

/// A snapshot made ready for scheduling: build once, ask often, [`update`](Self::update) as the cluster changes.
///
/// Asking leaves no trace in the answers: every request sees the snapshot as it is.
#[derive(Debug)]
pub struct Solver {
    /// What the snapshot means.
    tables: Tables,
    /// What simulations of removals start from. While it is there, the placement is as it leaves it.
    base: Option<Box<base::BasePlacement>>,
    /// The last large request.
    asked: RequestQueue,
    /// What is placed: between requests as the snapshot says.
    placement: Placement,
}

impl Solver {
    /// Makes a snapshot ready.
    #[must_use]
    pub fn new(snapshot: &Snapshot, rules: &Rules) -> Self {
        Self::on(Arc::new(snapshot.clone()), rules)
    }

    /// Makes a shared snapshot ready.
    #[must_use]
    pub fn on(snapshot: Arc<Snapshot>, rules: &Rules) -> Self {
        let tables = Tables::of(snapshot, rules);
        let mut this =
            Self { tables, base: None, asked: RequestQueue::default(), placement: Placement::default() };
        follow::settle_in(&mut this.tables, &mut this.placement);
        this
    }

    /// Schedules a request with [`super::LeastCost`]. Deterministic but for [`super::Effort::While`].
    pub fn solve(&mut self, request: &Request<'_>) -> Plan {
        self.rewind_base();
        LeastCost.pack(self, request)
    }

    /// The snapshot that requests are answered on.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.tables.snapshot
    }

    /// One pass, pod by pod.
    pub(super) fn pass(&mut self, request: &Request<'_>, strategy: Strategy) -> Plan {
        pass::run(self, request, strategy, None).0
    }

    /// One pass, and what becomes of its new NodeClaims when they are packed again for as long as the request's effort lasts;
    /// `None` where that saves nothing.
    pub(super) fn pass_and_rearrange(
        &mut self,
        request: &Request<'_>,
        strategy: Strategy,
        start: Start,
    ) -> (Plan, Option<Plan>) {
        pass::run(self, request, strategy, Some(start))
    }
}
