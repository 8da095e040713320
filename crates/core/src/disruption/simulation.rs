//! What would happen if some nodes went away.

use std::{collections::BTreeSet, sync::Arc};

use super::{Context, blocker::Unconsolidatable, candidate::Candidate};
use crate::{
    model::{Pod, PodUid, Snapshot},
    scheduling::{Placement, Plan, Repack},
};

/// What would happen.
#[derive(Debug)]
pub struct Simulation {
    /// Where the pods would go.
    pub plan: Plan,
    /// Why it may not be done: a pod without a place, or one on a node that is not ready.
    pub problem: Option<Unconsolidatable>,
}

/// How many pods a message names.
const PODS_NAMED: usize = 5;

/// Thinks `candidates` away and schedules their pods, the pending ones, and those of nodes that go away already.
#[must_use]
pub fn simulate(context: &Context<'_>, candidates: &[&Candidate]) -> Simulation {
    let without: Vec<usize> = candidates.iter().map(|candidate| candidate.index).collect();
    let moved: Vec<Arc<Pod>> =
        candidates.iter().flat_map(|candidate| candidate.pods.iter()).cloned().collect();
    judged(context, context.solver.what_if(&moved, &without), &moved)
}

/// [`simulate`], with what is opened packed by price; `None` where that cannot be had on these terms.
pub(super) fn repack(
    context: &Context<'_>,
    candidates: &[&Candidate],
    terms: &Repack<'_>,
) -> Option<Simulation> {
    let without: Vec<usize> = candidates.iter().map(|candidate| candidate.index).collect();
    let moved: Vec<Arc<Pod>> =
        candidates.iter().flat_map(|candidate| candidate.pods.iter()).cloned().collect();
    let plan = context.solver.repack(&moved, &without, terms)?;
    Some(judged(context, plan, &moved))
}

fn judged(context: &Context<'_>, plan: Plan, moved: &[Arc<Pod>]) -> Simulation {
    let problem =
        unscheduled(context.snapshot, &plan).or_else(|| uninitialized(context.snapshot, &plan, moved));
    Simulation { plan, problem }
}

/// A pending pod that cannot be helped is no worse off without the candidates; any other is.
fn unscheduled(snapshot: &Snapshot, plan: &Plan) -> Option<Unconsolidatable> {
    if plan.unplaced.is_empty() {
        return None;
    }
    let tolerated: BTreeSet<&PodUid> = snapshot.pending.iter().map(|pod| &pod.uid).collect();
    let failed: Vec<_> = plan.unplaced.iter().filter(|(pod, _)| !tolerated.contains(&pod.uid)).collect();
    let named = failed.iter().take(PODS_NAMED).map(|(pod, why)| format!("{} => {why}", pod.id)).collect();
    (!failed.is_empty())
        .then(|| Unconsolidatable::PodsWouldNotSchedule(named, failed.len().saturating_sub(PODS_NAMED)))
}

/// Pods of the candidates have a place that works: they do not leave it for one that may never. Pods that wait, or whose
/// node goes anyway, have none.
fn uninitialized(snapshot: &Snapshot, plan: &Plan, moved: &[Arc<Pod>]) -> Option<Unconsolidatable> {
    let is_ready = |placement: &&Placement| snapshot.nodes[placement.node].is_initialized();
    let mut unready = plan.existing.iter().filter(|placement| !is_ready(placement)).peekable();
    unready.peek()?;
    let moved: BTreeSet<&PodUid> = moved.iter().map(|pod| &pod.uid).collect();
    // Nobody waits for the room of a buffer.
    let hit = unready
        .find(|placement| placement.pods.iter().any(|pod| !pod.is_virtual && moved.contains(&pod.uid)))?;
    let node = &snapshot.nodes[hit.node];
    let claim = node.claim_name().map(ToString::to_string).unwrap_or_default();
    let name = node.node_name().map(|name| format!(", node/{name}")).unwrap_or_default();
    Some(Unconsolidatable::LandsOnUninitialized(format!("nodeclaim/{claim}{name}").into()))
}
