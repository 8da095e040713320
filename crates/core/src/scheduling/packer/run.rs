//! One attempt at a request.

use crate::scheduling::{
    explain::{finish, lower_bound::lower_bound},
    greedy::pass::{Pass, Strategy},
    ids::{IdVec, PodClassId, PodId},
    improve::{
        patterns,
        rearrange::{Start, rearrange},
    },
    plan::Plan,
    prepared::PreparedSnapshot,
    request::{Effort, Purpose, Request},
};

/// One pass, pod by pod, and those that wait packed by price.
pub(crate) fn pass(prepared: &mut PreparedSnapshot, request: &Request<'_>, strategy: Strategy) -> Plan {
    run(prepared, request, strategy, None).0
}

/// One pass, and what becomes of its new NodeClaims when they are packed again for as long as the request's effort lasts;
/// `None` where that saves nothing.
pub(super) fn pass_and_rearrange(
    prepared: &mut PreparedSnapshot,
    request: &Request<'_>,
    strategy: Strategy,
    start: Start,
) -> (Plan, Option<Plan>) {
    run(prepared, request, strategy, Some(start))
}

/// Leaves what is prepared as it was.
fn run(
    prepared: &mut PreparedSnapshot,
    request: &Request<'_>,
    strategy: Strategy,
    start: Option<Start>,
) -> (Plan, Option<Plan>) {
    let PreparedSnapshot { tables, placement, asked, memo } = prepared;
    let queue = asked.next(tables, placement, request.pods);
    let (mut pass, distinct) = Pass::begin(tables, placement, request, &queue, strategy);
    let classes = &queue.classes;
    let mut unplaced = pass.place_all(tables, placement, request.pods, classes, queue.queue.clone());
    // The effort is for one search alone.
    let effort = if start.is_some() { Effort::First } else { request.effort };
    let leftover = patterns::pack(&mut pass, tables, classes, effort);
    if !leftover.is_empty() {
        let waiting = queue.queue.iter().copied().filter(|at| leftover.has(*at)).collect();
        unplaced.extend(pass.place_all(tables, placement, request.pods, classes, waiting));
    }
    pass.widen(tables);
    let mut plan = finish::plan(tables, placement, memo, &pass, (request, classes), unplaced);
    // What a disruption would cost at least nobody asks.
    if !strategy.first_fit && request.purpose == Purpose::Provisioning {
        let bound = lower_bound(tables, placement, &pass, request, classes);
        plan.cost.lower_bound = bound.min(plan.cost.hourly);
    }
    let second = start.and_then(|start| second(prepared, &mut pass, (request, classes), &plan, start));
    pass.restore(&prepared.tables, &mut prepared.placement, &distinct);
    prepared.asked.keep(queue);
    (plan, second)
}

/// The plan with the new NodeClaims packed again, where that saves something.
fn second(
    prepared: &mut PreparedSnapshot,
    pass: &mut Pass,
    (request, classes): (&Request<'_>, &IdVec<PodId, PodClassId>),
    plan: &Plan,
    start: Start,
) -> Option<Plan> {
    // New NodeClaims that hold devices are what they were tried as.
    if plan.partial || plan.cost.hourly <= plan.cost.lower_bound || pass.devices.is_some() {
        return None;
    }
    let PreparedSnapshot { tables, placement, memo, .. } = prepared;
    if !rearrange(pass, tables, placement, classes, start, request.effort) {
        return None;
    }
    let mut second = finish::plan(tables, placement, memo, pass, (request, classes), Vec::new());
    second.unplaced.extend(plan.unplaced.iter().cloned());
    second.nodes.clone_from(&plan.nodes);
    second.cost.lower_bound = plan.cost.lower_bound;
    Some(second)
}
