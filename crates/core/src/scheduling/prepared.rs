//! A snapshot made ready for scheduling: what does not depend on what is asked, built once and then brought up to date;
//! each request costs what it moves, each newer snapshot what has changed.

use std::sync::Arc;

use crate::{
    model::Snapshot,
    scheduling::{
        explain::{
            finish::{self, Memo},
            lower_bound::lower_bound,
        },
        greedy::{
            pass::{Pass, Strategy},
            request_queue::RequestQueue,
        },
        ids::{IdVec, PodClassId, PodId},
        improve::{
            improver::{Saving, improve},
            members::Scope,
        },
        placement::{Placement, follow},
        plan::Plan,
        request::{Effort, Purpose, Request, Rules},
        tables::Tables,
    },
};

/// A snapshot made ready for scheduling: build once, ask often, [`update`](Self::update) as the cluster changes.
///
/// Asking leaves no trace in the answers: every request sees the snapshot as it is.
#[derive(Debug)]
pub struct PreparedSnapshot {
    /// What the snapshot means.
    pub(crate) tables: Tables,
    /// What is placed: between requests as the snapshot says.
    pub(crate) placement: Placement,
    /// The last large request.
    pub(crate) asked: RequestQueue,
    /// What became of claims.
    pub(crate) memo: Memo,
}

impl PreparedSnapshot {
    /// Makes a snapshot ready.
    #[must_use]
    pub fn new(snapshot: &Snapshot, rules: &Rules) -> Self {
        Self::on(Arc::new(snapshot.clone()), rules)
    }

    /// Makes a shared snapshot ready.
    #[must_use]
    pub fn on(snapshot: Arc<Snapshot>, rules: &Rules) -> Self {
        let mut tables = Tables::of(snapshot, rules);
        let mut placement = Placement::default();
        follow::settle_in(&mut tables, &mut placement);
        Self { tables, placement, asked: RequestQueue::default(), memo: Memo::default() }
    }

    /// Brings it to a newer (or any other) snapshot, at the cost of what has changed since its own. It answers as one
    /// that is built on that snapshot. Returns the snapshot that it leaves: to drop the last reference to one costs as
    /// much as it has nodes, which the caller may want to do later.
    pub fn update(&mut self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        if !follow::can_follow(&self.tables, snapshot) {
            let fresh = Self::on(Arc::clone(snapshot), &self.tables.rules);
            return std::mem::replace(self, fresh).tables.snapshot;
        }
        self.asked = RequestQueue::default();
        follow::follow(&mut self.tables, &mut self.placement, snapshot)
    }

    /// The snapshot that requests are answered on.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.tables.snapshot
    }

    /// The rules that requests are answered by.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.tables.rules
    }

    /// One pass, pod by pod, and nothing else.
    pub(crate) fn place(&mut self, request: &Request<'_>, strategy: Strategy) -> Plan {
        self.run(request, strategy, None).0
    }

    /// One pass, and what becomes of its new NodeClaims when they are packed again for as long as the request's effort lasts,
    /// where that saves something.
    pub(crate) fn place_and_improve(
        &mut self,
        request: &Request<'_>,
        strategy: Strategy,
    ) -> (Plan, Option<(Plan, Saving)>) {
        self.run(request, strategy, Some(request.effort))
    }

    fn run(
        &mut self,
        request: &Request<'_>,
        strategy: Strategy,
        effort: Option<Effort<'_>>,
    ) -> (Plan, Option<(Plan, Saving)>) {
        let Self { tables, placement, asked, memo } = self;
        let queue = asked.next(tables, placement, request.pods);
        let (mut pass, distinct) = Pass::begin(tables, placement, request, &queue, strategy);
        let classes = &queue.classes;
        let unplaced = pass.place_all(tables, placement, request.pods, classes, queue.queue.clone());
        pass.widen(tables);
        let mut plan = finish::plan(tables, placement, memo, &pass, (request, classes), unplaced);
        // The least that a disruption would cost is not reported.
        if request.purpose == Purpose::Provisioning {
            let bound = lower_bound(tables, placement, &pass, request, classes);
            plan.cost.lower_bound = bound.min(plan.cost.hourly);
        }
        let second = effort.and_then(|effort| second(self, &mut pass, (request, classes), &plan, effort));
        pass.restore(&self.tables, &mut self.placement, &distinct);
        self.asked.keep(queue);
        (plan, second)
    }
}

/// The plan with the new NodeClaims packed again, where that saves something.
fn second(
    prepared: &mut PreparedSnapshot,
    pass: &mut Pass,
    (request, classes): (&Request<'_>, &IdVec<PodId, PodClassId>),
    plan: &Plan,
    effort: Effort<'_>,
) -> Option<(Plan, Saving)> {
    // What costs the bound cannot cost less. New NodeClaims that hold devices are what they were tried as.
    if plan.partial || plan.cost.hourly <= plan.cost.lower_bound || pass.devices.is_some() {
        return None;
    }
    let PreparedSnapshot { tables, placement, memo, .. } = prepared;
    let saving = improve(pass, tables, placement, classes, Scope::BATCH, effort);
    if saving == Saving::None {
        return None;
    }
    let mut second = finish::plan(tables, placement, memo, pass, (request, classes), Vec::new());
    second.unplaced.extend(plan.unplaced.iter().cloned());
    second.nodes.clone_from(&plan.nodes);
    second.cost.lower_bound = plan.cost.lower_bound;
    Some((second, saving))
}
