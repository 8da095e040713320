//! A snapshot made ready for scheduling: what does not depend on what is asked, built once and then brought up to date;
//! each request costs what it moves, each newer snapshot what has changed.

use std::sync::Arc;

use crate::{
    model::Snapshot,
    scheduling::{
        explain::finish::{self, Memo},
        greedy::{
            pass::{Pass, Strategy},
            request_queue::RequestQueue,
        },
        placement::{Placement, follow},
        plan::Plan,
        request::{Request, Rules},
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
        let Self { tables, placement, asked, memo } = self;
        let queue = asked.next(tables, placement, request.pods);
        let (mut pass, distinct) = Pass::begin(tables, placement, request, &queue, strategy);
        let order = queue.queue.clone();
        let unplaced = pass.place_all(tables, placement, request.pods, &queue.classes, order);
        let of = (request, &queue.classes);
        let plan = finish::plan(tables, placement, memo, &pass, of, unplaced);
        pass.restore(tables, placement, &distinct);
        asked.keep(queue);
        plan
    }
}
