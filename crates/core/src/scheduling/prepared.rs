//! A snapshot prepared for scheduling: built once and then updated; independent of requests;
//! a request costs in proportion to the pods that it moves, an update to what has changed.

use std::sync::Arc;

use crate::{
    model::{Pod, Snapshot},
    scheduling::{
        explain::{
            finish::{self, TermsCache},
            lower_bound::Bought,
        },
        greedy::{
            pass::{Pass, Strategy},
            place::Greedy,
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
        tables::{Tables, pod_classes},
    },
};

/// A snapshot prepared for scheduling: build once, use often, [`update`](Self::update) as the cluster changes.
///
/// Requests are independent: each sees the snapshot as it is.
#[derive(Debug)]
pub struct PreparedSnapshot {
    /// The solver's form of the snapshot.
    pub(crate) tables: Tables,
    /// The placement: between requests that of the snapshot.
    pub(crate) placement: Placement,
    /// Cached terms of claims.
    pub(crate) memo: TermsCache,
}

/// The new NodeClaims of a pass, packed again by price.
#[derive(Debug, Default)]
pub(crate) struct Improved {
    /// What the first effort saved.
    pub(crate) saving: Saving,
    /// The cheaper plans: that of the first effort, then that of the request's.
    pub(crate) plans: Vec<Plan>,
}

impl PreparedSnapshot {
    /// Prepares a snapshot.
    #[must_use]
    pub fn new(snapshot: &Snapshot, rules: &Rules) -> Self {
        Self::on(Arc::new(snapshot.clone()), rules)
    }

    /// Prepares a shared snapshot.
    #[must_use]
    pub fn on(snapshot: Arc<Snapshot>, rules: &Rules) -> Self {
        let mut tables = Tables::of(snapshot, rules);
        let mut placement = Placement::default();
        follow::insert_nodes(&mut tables, &mut placement);
        Self { tables, placement, memo: TermsCache::default() }
    }

    /// Updates it to a newer (or any other) snapshot, at the cost of what has changed since its own. The result equals one
    /// that is built on that snapshot. Returns the previous snapshot: to drop the last reference to one costs as
    /// much as it has nodes, which the caller may defer.
    pub fn update(&mut self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        if !follow::can_follow(&self.tables, snapshot) {
            let fresh = Self::on(Arc::clone(snapshot), &self.tables.rules);
            return std::mem::replace(self, fresh).tables.snapshot;
        }
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

    /// Raises the lower bound of a plan for a request of provisioning to what new nodes cost that hold whole pods, where no node that
    /// exists has room for any. Takes as long as half a second.
    pub fn tighten_bound(&mut self, request: &Request<'_>, plan: &mut Plan) {
        if plan.cost.lower_bound == plan.cost.effective {
            return;
        }
        let RequestQueue { distinct, .. } = self.queue(request.pods);
        let tables = &mut self.tables;
        let bought = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
        let placed: Vec<PodClassId> = bought.map(|pod| pod_classes::class_of(tables, pod)).collect();
        let bought = Bought::new(tables, placed, &tables.slots_of(request.without), distinct);
        let bound = bought.whole_pods_bound(tables).min(plan.cost.effective);
        plan.cost.lower_bound = plan.cost.lower_bound.max(bound);
    }

    /// The classes and the order of some pods: for all passes over one request.
    pub(crate) fn queue(&mut self, pods: &[Arc<Pod>]) -> RequestQueue {
        RequestQueue::new(&mut self.tables, &mut self.placement, pods)
    }

    /// Runs one pass in Karpenter's order.
    pub(crate) fn in_karpenters_order(&mut self, request: &Request<'_>) -> Plan {
        let queue = self.queue(request.pods);
        self.place(request, &queue, Strategy::KARPENTER, None).0
    }

    /// Runs one pass. With an effort, its new NodeClaims are packed again by price for so long.
    pub(crate) fn place(
        &mut self,
        request: &Request<'_>,
        queue: &RequestQueue,
        strategy: Strategy,
        effort: Option<Effort<'_>>,
    ) -> (Plan, Improved) {
        let Self { tables, placement, memo } = self;
        let mut pass = Pass::begin(tables, placement, request, &queue.distinct, strategy);
        let classes = &queue.classes;
        let unplaced = Greedy { tables, placement, pass: &mut pass, pods: request.pods, classes }
            .place_all(queue.queue.clone());
        pass.widen(tables);
        let mut plan = finish::plan(tables, placement, memo, &pass, (request, classes), unplaced);
        // The least that a disruption would cost is not reported.
        if request.purpose == Purpose::Provisioning && !pass.claims.is_empty() {
            let placed = pass.claims.iter().flat_map(|claim| &claim.pods).map(|pod| classes[*pod]);
            let bought = Bought::new(tables, placed, &pass.excluded, queue.distinct.iter().copied());
            plan.cost.lower_bound = bought.lower_bound(tables, placement).min(plan.cost.effective);
        }
        let improved = match effort {
            // A plan at the lower bound cannot be cheaper. New NodeClaims that hold devices are what they were tried as.
            Some(effort)
                if !plan.partial && plan.cost.effective > plan.cost.lower_bound && pass.devices.is_none() =>
            {
                improved(self, &mut pass, (request, classes), &plan, effort)
            }
            _ => Improved::default(),
        };
        pass.restore(&mut self.tables, &mut self.placement, &queue.distinct);
        (plan, improved)
    }
}

/// Plans with the new NodeClaims packed again. More effort begins as the first does, and yet its plan can be dearer: limits of NodePools
/// may leave its nodes no choice. So that the effort never costs, the plan of the first stands beside it.
fn improved(
    prepared: &mut PreparedSnapshot,
    pass: &mut Pass,
    (request, classes): (&Request<'_>, &IdVec<PodId, PodClassId>),
    plan: &Plan,
    effort: Effort<'_>,
) -> Improved {
    let PreparedSnapshot { tables, placement, memo, .. } = prepared;
    let mut found = Improved::default();
    let mut pack_again = |pass: &mut Pass, effort| {
        let saving = improve(pass, tables, placement, classes, Scope::BATCH, effort);
        if saving != Saving::None {
            let mut again = finish::plan(tables, placement, memo, pass, (request, classes), Vec::new());
            again.unplaced.extend(plan.unplaced.iter().cloned());
            again.nodes.clone_from(&plan.nodes);
            again.cost.lower_bound = plan.cost.lower_bound;
            found.plans.push(again);
        }
        saving
    };
    let begun = (pass.claims.clone(), pass.limits.clone(), pass.claims_before);
    let saving = pack_again(pass, Effort::First);
    if !matches!(effort, Effort::First) {
        (pass.claims, pass.limits, pass.claims_before) = begun;
        pack_again(pass, effort);
    }
    found.saving = saving;
    found
}
