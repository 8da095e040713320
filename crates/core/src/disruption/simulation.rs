//! What would happen if some machines went away.

use std::{collections::BTreeSet, sync::Arc};

use super::{Context, blocker::Unconsolidatable, candidate::Candidate};
use crate::{
    model::{Pod, PodUid, Snapshot},
    scheduling::{Effort, Plan, Purpose, Request},
};

/// What would happen.
#[derive(Debug)]
pub struct Simulation {
    /// Where the pods would go.
    pub plan: Plan,
    /// Why it may not be done: a pod without a place, or one on a machine that is not ready.
    pub problem: Option<Unconsolidatable>,
}

/// How many pods a message names.
const PODS_NAMED: usize = 5;

/// Thinks `candidates` away and schedules their pods, the pending ones, and those of machines that go away already.
#[must_use]
pub fn simulate(context: &Context<'_>, candidates: &[&Candidate]) -> Simulation {
    let snapshot = context.snapshot;
    let without: Vec<usize> = candidates.iter().map(|candidate| candidate.index).collect();
    let leaving = context.solver.leaving();
    let moved = candidates.iter().flat_map(|candidate| candidate.pods.iter());
    let pods: Vec<Arc<Pod>> = snapshot.pending.iter().chain(moved).chain(&leaving).cloned().collect();
    let request =
        Request { pods: &pods, without: &without, purpose: Purpose::Simulation, effort: Effort::First };
    let plan = context.solver.what_if(&request);
    // A pending pod that cannot be helped is no worse off without the candidates.
    let tolerated: BTreeSet<&PodUid> = snapshot.pending.iter().map(|pod| &pod.uid).collect();
    let leaving: BTreeSet<&PodUid> = leaving.iter().map(|pod| &pod.uid).collect();
    let problem = unscheduled(&plan, &tolerated).or_else(|| {
        // Pods of the candidates have a place that works: they do not leave it for one that may never. Pods that wait,
        // or whose machine goes anyway, have none.
        let settled = |pod: &PodUid| leaving.contains(pod) || tolerated.contains(pod);
        uninitialized(snapshot, &plan, &settled)
    });
    Simulation { plan, problem }
}

fn unscheduled(plan: &Plan, tolerated: &BTreeSet<&PodUid>) -> Option<Unconsolidatable> {
    let failed: Vec<_> = plan.unplaced.iter().filter(|(pod, _)| !tolerated.contains(&pod.uid)).collect();
    let named = failed.iter().take(PODS_NAMED).map(|(pod, why)| format!("{} => {why}", pod.id)).collect();
    (!failed.is_empty())
        .then(|| Unconsolidatable::PodsWouldNotSchedule(named, failed.len().saturating_sub(PODS_NAMED)))
}

fn uninitialized(
    snapshot: &Snapshot,
    plan: &Plan,
    settled: &dyn Fn(&PodUid) -> bool,
) -> Option<Unconsolidatable> {
    let on_unready =
        plan.existing.iter().filter(|placement| !snapshot.nodes[placement.node].is_initialized());
    let hit = on_unready
        .clone()
        // Nobody waits for the room of a buffer.
        .find(|placement| placement.pods.iter().any(|pod| !pod.is_virtual && !settled(&pod.uid)))?;
    let node = &snapshot.nodes[hit.node];
    let claim = node.claim_name().map(ToString::to_string).unwrap_or_default();
    let name = node.node_name().map(|name| format!(", node/{name}")).unwrap_or_default();
    Some(Unconsolidatable::LandsOnUninitialized(format!("nodeclaim/{claim}{name}").into()))
}
