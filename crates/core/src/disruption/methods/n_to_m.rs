//! Nodes replaced by several cheaper ones: one node is split, or many nodes become fewer or other ones.
//!
//! Karpenter refuses a set if more than one node would have to be created. Here single-node and multi-node consolidation
//! return such sets as hints, so that this method, which is the last, tries only sets that may be cheaper. More pods move than
//! in a deletion, so a command must save at least 15 %.
//!
//! Simulations place pods in Karpenter's order, on few nodes of the types that fit. Sets for which that is not cheaper, but
//! whose demand may cost less, are packed by price.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    disruption::{
        Budgets, Candidate, Command, Context, DisruptionClass, Method, MethodSpec, Refusal, SimulationSolver,
        Unconsolidatable, Verdict,
        consolidation::{self, cheaper_together},
        hints::Hints,
        simulation,
    },
    model::{DisruptionReason, Limits, PoolName, Resources, Str},
    scheduling::{NewClaim, Repack},
};

/// Rounds of improvement of a packing by price.
const ROUNDS: u32 = 64;

const SPEC: MethodSpec = MethodSpec {
    name: "n-to-m-consolidation",
    consolidation_type: "n-to-m",
    reason: DisruptionReason::Underutilized,
    class: DisruptionClass::Graceful,
    validated: true,
};

/// Replaces the set with the largest known saving, otherwise the first that packing by price makes cheaper.
pub(super) struct NToM;

impl Method for NToM {
    fn spec(&self) -> &'static MethodSpec {
        &SPEC
    }

    fn should_disrupt(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        consolidation::should_disrupt(context, candidate)
    }

    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        hints: Hints,
        budgets: &mut Budgets,
    ) -> Verdict {
        let mut verdict = Verdict::new(hints);
        if solver.simulations() == 0 {
            find_hints(context, solver, candidates, &mut verdict);
        }
        let by_index = candidates.iter().map(|candidate| (candidate.index, *candidate)).collect();
        for nodes in verdict.hints.splits() {
            let Some(set) = affordable(&nodes, &by_index, budgets) else { continue };
            if solver.is_exhausted() {
                verdict.unreached.extend(set.into_iter().cloned());
                continue;
            }
            match compute(context, solver, &set) {
                Ok(command) => {
                    verdict.accept(command);
                    return verdict;
                }
                Err(refusal) => {
                    let reason = verdict.absorb(context, &set, refusal);
                    // The reason of a set is not one of its nodes.
                    if let [one] = set.as_slice() {
                        verdict.refusals.push(((*one).clone(), reason));
                    }
                }
            }
        }
        try_by_price(context, solver, (candidates, &by_index), budgets, &mut verdict);
        verdict
    }

    fn is_still_valid(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        planned: &[NewClaim],
    ) -> bool {
        simulation::covers(context, solver, &SPEC, (candidates, planned))
            || by_price(context, solver, candidates)
                .is_ok_and(|new_claims| simulation::still_covers(planned, &new_claims))
    }
}

/// Candidates by index of their node.
type ByIndex<'c> = BTreeMap<usize, &'c Candidate>;

/// Finds hints if no other method has run in this pass.
fn find_hints(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    candidates: &[&Candidate],
    verdict: &mut Verdict,
) {
    for candidate in candidates {
        match consolidation::compute_consolidation(context, solver, &SPEC, &[candidate]) {
            // Single-node consolidation handles nodes with one replacement or none.
            Ok(command) => verdict.scores.extend(command.scores),
            Err(refusal) => {
                verdict.absorb(context, &[candidate], refusal);
            }
        }
    }
}

/// The candidates of a set; `None` if one is no candidate any more, or the budgets do not allow all of them.
fn affordable<'c>(
    nodes: &[usize],
    by_index: &ByIndex<'c>,
    budgets: &mut Budgets,
) -> Option<Vec<&'c Candidate>> {
    let set = nodes.iter().map(|index| by_index.get(index).copied()).collect::<Option<Vec<_>>>()?;
    let mut left = budgets.clone();
    if set.iter().all(|candidate| left.take(&candidate.pool.name)) {
        return Some(set);
    }
    budgets.constrained = true;
    None
}

fn compute(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    candidates: &[&Candidate],
) -> Result<Command, Refusal> {
    let plan = consolidation::planned(context, solver, &SPEC, candidates)?;
    let replacements = cheaper_together(context, candidates, plan.new_claims)?;
    consolidation::admit(context, &SPEC, candidates, (replacements, &plan.existing))
}

/// Packs sets by price, the best hint first, until one becomes a command or the pass has made all its trials.
fn try_by_price(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    (candidates, by_index): (&[&Candidate], &ByIndex<'_>),
    budgets: &mut Budgets,
    verdict: &mut Verdict,
) {
    while let Some(nodes) = verdict.hints.next(context.now, budgets, candidates) {
        let Some(set) = affordable(&nodes, by_index, budgets) else { continue };
        if solver.is_exhausted() || !verdict.hints.take_trial() {
            let left = verdict.hints.stop_trials(nodes);
            let left = left.iter().filter_map(|index| by_index.get(index).copied());
            verdict.unreached.extend(left.cloned());
            return;
        }
        match compute_by_price(context, solver, &set) {
            Ok(command) => {
                verdict.accept(command);
                return;
            }
            Err(refusal) => {
                verdict.hints.refuse(&nodes, context.now);
                let reason = verdict.absorb(context, &set, refusal);
                // An earlier method has reported that nothing is cheaper.
                let is_known =
                    matches!(reason, Unconsolidatable::NeedsSeveral(_) | Unconsolidatable::NotCheaper { .. });
                if let ([one], false) = (set.as_slice(), is_known) {
                    verdict.refusals.push(((*one).clone(), reason));
                }
            }
        }
    }
}

fn compute_by_price(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    candidates: &[&Candidate],
) -> Result<Command, Refusal> {
    let new_claims = by_price(context, solver, candidates)?;
    let replacements = cheaper_together(context, candidates, new_claims)?;
    within_limits(context, candidates, &replacements)?;
    consolidation::admit(context, &SPEC, candidates, (replacements, &[]))
}

/// The NodeClaims that would have to be created for the pods of `candidates`, packed by price, without the types of `candidates`:
/// a replacement of a candidate's own type saves nothing.
fn by_price(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    candidates: &[&Candidate],
) -> Result<Vec<NewClaim>, Unconsolidatable> {
    let now = consolidation::paid(candidates);
    let own = candidates.iter().filter_map(|candidate| candidate.instance_type.as_ref());
    let own: BTreeSet<Str> = own.map(|own| own.name.clone()).collect();
    let shunned: Vec<Str> = own.into_iter().collect();
    let terms = Repack { paid: now.effective, nodes: candidates.len(), shunned: &shunned, rounds: ROUNDS };
    let simulation = simulation::repack(context, solver, candidates, &terms);
    let simulation = simulation.ok_or_else(|| consolidation::not_cheaper(context, now, None, 0))?;
    match simulation.problem {
        Some(problem) => Err(problem),
        None => Ok(simulation.plan.new_claims),
    }
}

/// Checks the limits of the NodePools for `replacements` without `candidates`, each replacement as large as it may
/// become.
///
/// # Errors
/// The first limit that is exceeded, pools by name.
fn within_limits(
    context: &Context<'_>,
    candidates: &[&Candidate],
    replacements: &[NewClaim],
) -> Result<(), Unconsolidatable> {
    let mut added: BTreeMap<&PoolName, (&Limits, Resources, i64)> = BTreeMap::new();
    for new_claim in replacements.iter().filter(|new_claim| !new_claim.pool.limits.is_empty()) {
        let capacities = new_claim.instance_types.iter().map(|known| &known.capacity);
        let largest = capacities.fold(Resources::new(), |largest, capacity| largest.component_max(capacity));
        let empty = || (&new_claim.pool.limits, Resources::new(), 0);
        let (_, sum, nodes) = added.entry(&new_claim.pool.name).or_insert_with(empty);
        sum.add_assign(&largest);
        *nodes += 1;
    }
    for (pool, (limits, largest, nodes)) in added {
        let (mut used, mut count) = context.snapshot.usage(pool);
        let removed = candidates.iter().filter(|candidate| candidate.pool.name == *pool && !limits.hard);
        for candidate in removed {
            used.sub_assign(&candidate.node.charge());
            count -= 1;
        }
        if let Some((resource, usage, limit)) = limits.first_exceeded(&used.plus(&largest), count + nodes) {
            let pool = pool.as_str().into();
            return Err(Unconsolidatable::LimitExceeded { pool, resource, usage, limit });
        }
    }
    Ok(())
}
