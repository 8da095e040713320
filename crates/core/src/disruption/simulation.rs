//! Scheduling simulations: where pods would be placed if some nodes were removed.

use std::{collections::BTreeSet, sync::Arc};

use super::{Candidate, Context, MethodSpec, SimulationSolver, Unconsolidatable};
use crate::{
    model::{Pod, PodUid, Snapshot},
    scheduling::{NewClaim, Placement, Plan, Repack},
};

/// The result of a simulation.
#[derive(Debug)]
pub struct Simulation {
    /// The placements of the pods.
    pub plan: Plan,
    /// Why the nodes may not be removed: an unschedulable pod, or a pod on a node that is not initialized.
    pub problem: Option<Unconsolidatable>,
}

/// Maximum number of pods in a message.
const PODS_NAMED: usize = 5;

/// Removes `candidates`, as the method of `spec` would, and schedules those of their pods that are evicted at once, pending pods,
/// and pods of deleting nodes.
#[must_use]
pub fn simulate(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    spec: &MethodSpec,
    candidates: &[&Candidate],
) -> Simulation {
    let (moved, without) = removal(candidates.iter().copied());
    let plan = solver.simulate(&moved, &without, spec.purpose());
    checked(context, plan, &moved)
}

/// [`simulate`] with new NodeClaims packed by price; `None` if no packing meets `terms`.
pub(super) fn repack(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    candidates: &[&Candidate],
    terms: &Repack<'_>,
) -> Option<Simulation> {
    let (moved, without) = removal(candidates.iter().copied());
    let plan = solver.repack(&moved, &without, terms)?;
    Some(checked(context, plan, &moved))
}

/// The pods that are evicted from `candidates` at once, and the indices of `candidates`. The other pods run until the terminationGracePeriod
/// of their node ends, and are not placed.
pub(super) fn removal<'c>(
    candidates: impl IntoIterator<Item = &'c Candidate>,
) -> (Vec<Arc<Pod>>, Vec<usize>) {
    let (mut moved, mut without) = (Vec::new(), Vec::new());
    for candidate in candidates {
        moved.extend(candidate.moved.iter().cloned());
        without.push(candidate.index);
    }
    (moved, without)
}

fn checked(context: &Context<'_>, plan: Plan, moved: &[Arc<Pod>]) -> Simulation {
    let problem = unscheduled(context.snapshot, &plan).or_else(|| uninitialized(&plan, moved));
    Simulation { plan, problem }
}

/// Pods that the removal makes unschedulable. A pending pod that was unschedulable before does not count.
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

/// Running pods of the candidates do not move to a node that may never initialize. Pending pods, and pods of
/// deleting nodes, may.
fn uninitialized(plan: &Plan, moved: &[Arc<Pod>]) -> Option<Unconsolidatable> {
    let is_ready = |placement: &&Placement| placement.node.is_initialized();
    let mut unready = plan.existing.iter().filter(|placement| !is_ready(placement)).peekable();
    unready.peek()?;
    let moved: BTreeSet<&PodUid> = moved.iter().map(|pod| &pod.uid).collect();
    let mut failed = Vec::new();
    for placement in unready {
        let node = &placement.node;
        let claim = node.claim_name().map(ToString::to_string).unwrap_or_default();
        let name = node.node_name().map(|name| format!(", node/{name}")).unwrap_or_default();
        // Virtual pods of a CapacityBuffer may wait.
        let running = placement.pods.iter().filter(|pod| !pod.is_virtual && moved.contains(&pod.uid));
        failed.extend(running.map(|pod| {
            format!("{} => would schedule against uninitialized nodeclaim/{claim}{name}", pod.id)
        }));
    }
    let more = failed.len().saturating_sub(PODS_NAMED);
    failed.truncate(PODS_NAMED);
    (!failed.is_empty()).then_some(Unconsolidatable::LandsOnUninitialized(failed, more))
}

/// Whether a simulation without `candidates` still creates the NodeClaims of `planned`.
pub(super) fn covers(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    spec: &MethodSpec,
    (candidates, planned): (&[&Candidate], &[NewClaim]),
) -> bool {
    let simulation = simulate(context, solver, spec, candidates);
    simulation.problem.is_none() && still_covers(planned, &simulation.plan.new_claims)
}

/// Whether `planned` has as many nodes as `needed`, a newer simulation, and names only instance types that the newer
/// simulation accepts.
pub(super) fn still_covers(planned: &[NewClaim], needed: &[NewClaim]) -> bool {
    planned.len() == needed.len()
        && planned.iter().zip(needed).all(|(planned, needed)| {
            let accepted =
                |name| needed.instance_types.iter().any(|instance_type| instance_type.name == name);
            planned.instance_types.iter().all(|instance_type| accepted(instance_type.name.clone()))
        })
}
