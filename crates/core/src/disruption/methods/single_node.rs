//! Single-node consolidation: one node removed, with one cheaper replacement or none. Nodes that a pass does not reach
//! come first in the next one.

use std::collections::BTreeMap;

use crate::{
    disruption::{
        Budgets, Candidate, Context, DisruptionClass, Method, MethodSpec, SimulationSolver, Unconsolidatable,
        Verdict, consolidation, hints::Hints,
    },
    model::{DisruptionReason, PoolName},
};

const SPEC: MethodSpec = MethodSpec {
    name: "single-node-consolidation",
    consolidation_type: "single",
    reason: DisruptionReason::Underutilized,
    class: DisruptionClass::Graceful,
    validated: true,
};

/// Tries the nodes, best saving per disruption first within each NodePool and the NodePools in turn, and takes the first that
/// can be removed.
pub(super) struct SingleNode;

impl Method for SingleNode {
    fn spec(&self) -> &'static MethodSpec {
        &SPEC
    }

    fn should_disrupt(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        consolidation::should_disrupt(context, candidate)
    }

    fn sort_candidates(&self, considered: &mut [&Candidate]) {
        considered.sort_by(|a, b| Candidate::by_savings_ratio(a, b));
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
        let (first, others) = context.unreached_first(candidates);
        for candidate in interleaved(&first).into_iter().chain(interleaved(&others)) {
            if !budgets.has(&candidate.pool.name) {
                continue;
            }
            if solver.is_exhausted() {
                verdict.unreached.push(candidate.clone());
                continue;
            }
            match consolidation::compute_consolidation(context, solver, &SPEC, &[candidate]) {
                Ok(command) => {
                    budgets.take(&candidate.pool.name);
                    verdict.accept(command);
                    return verdict;
                }
                Err(refusal) => {
                    let reason = verdict.absorb(context, &[candidate], refusal);
                    verdict.refusals.push((candidate.clone(), reason));
                }
            }
        }
        verdict
    }
}

/// Candidates in their order, the NodePools in turn, so that a large NodePool does not starve the others.
fn interleaved<'a>(candidates: &[&'a Candidate]) -> Vec<&'a Candidate> {
    let mut pools: BTreeMap<&PoolName, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        pools.entry(&candidate.pool.name).or_default().push(candidate);
    }
    let longest = pools.values().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|turn| pools.values().filter_map(move |members| members.get(turn).copied()))
        .collect()
}
