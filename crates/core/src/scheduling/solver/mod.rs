//! The solver: everything about a snapshot that does not depend on what is asked, built once and then brought up to
//! date; each request costs what it moves, each newer snapshot what has changed.
//!
//! - `intern`, `amounts`, `bits`: labels, requirements and resources as small integers.
//! - `pools`, `ranks`, `nodes`: what there is to buy, and what there is.
//! - `follow`: a newer snapshot.
//! - `ground`: what what-ifs have in common; `counted`: pods that leave.
//! - `topology`, `domains`: counters per group and domain, with an undo log.
//! - `compile`, `defaults`, `contradiction`: pods as classes with levels of relaxation.
//! - `asked`, `pass`, `ladder`, `on_node`, `on_claim`, `claim`, `narrow`: one request, pod by pod in Karpenter's order.
//! - `patterns`: pods that topology says nothing about, packed together at the least price.
//! - `devices`: pods with resource claims.
//! - `rearrange`: new NodeClaims packed again once topology has had its say; `repack`: those of a what-if, to cost less than what goes.
//! - `finish`, `explain`: the result as a [`Plan`]; `floor`: what it must cost at least.

mod amounts;
mod asked;
mod bits;
mod claim;
mod compile;
mod contradiction;
mod counted;
mod defaults;
mod devices;
mod domains;
mod explain;
mod finish;
mod floor;
mod follow;
mod ground;
mod intern;
mod ladder;
mod narrow;
mod nodes;
mod on_claim;
mod on_node;
mod pass;
mod patterns;
mod placement;
mod pools;
mod ranks;
mod rearrange;
mod repack;
mod tables;
mod topology;

use std::sync::Arc;

pub use self::repack::Repack;
use self::{asked::Asked, placement::Placement, tables::Tables};
/// What ids are of.
pub(super) use self::{
    claim::Claim,
    compile::{Class, Level, Shape},
    nodes::NodeRow,
    pools::{Pool, Reservations, Row},
    topology::{Group, LabelSet},
};
pub(super) use self::{pass::Strategy, patterns::Share, rearrange::Start};
use super::{LeastCost, Packer, Plan, Request, Rules};
use crate::model::Snapshot;

/// A snapshot made ready for scheduling: build once, ask often, [`update`](Self::update) as the cluster changes.
///
/// Asking leaves no trace in the answers: every request sees the snapshot as it is.
#[derive(Debug)]
pub struct Solver {
    /// What the snapshot means.
    tables: Tables,
    /// What what-ifs go on from. While it is there, nodes and counters are as it leaves them.
    ground: Option<Box<ground::Ground>>,
    /// The last large request.
    asked: Asked,
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
            Self { tables, ground: None, asked: Asked::default(), placement: Placement::default() };
        follow::settle_in(&mut this.tables, &mut this.placement);
        this
    }

    /// Schedules a request with [`super::LeastCost`]. Deterministic but for [`super::Effort::While`].
    pub fn solve(&mut self, request: &Request<'_>) -> Plan {
        self.lift();
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
