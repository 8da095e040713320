//! Drift: nodes that no longer match their NodePool or NodeClass.

use crate::{
    disruption::{
        Budgets, Candidate, Command, Context, DisruptionClass, Method, MethodSpec, SimulationSolver,
        Unconsolidatable, Verdict, hints::Hints, simulate,
    },
    model::DisruptionReason,
};

const SPEC: MethodSpec = MethodSpec {
    name: "drift",
    consolidation_type: "",
    reason: DisruptionReason::Drifted,
    class: DisruptionClass::Eventual,
    validated: false,
};

/// Replaces drifted nodes, the longest drifted first, nodes without pods before others; one per pass.
pub(super) struct Drift;

impl Method for Drift {
    fn spec(&self) -> &'static MethodSpec {
        &SPEC
    }

    fn should_disrupt(&self, _: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        Ok(candidate.is_drifted() && !candidate.pool.is_static())
    }

    fn sort_candidates(&self, considered: &mut [&Candidate]) {
        considered
            .sort_by_key(|candidate| (!candidate.is_empty(), candidate.drifted_since(), candidate.name()));
    }

    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        hints: Hints,
        budgets: &mut Budgets,
    ) -> Verdict {
        first_replaceable(&SPEC, (context, solver), candidates, hints, budgets)
    }
}

/// A command for the first node, in this order, whose budget allows it and whose pods are schedulable elsewhere. Nodes
/// that the previous pass did not reach come first.
pub(super) fn first_replaceable(
    spec: &'static MethodSpec,
    (context, solver): (&Context<'_>, &mut SimulationSolver<'_>),
    ordered: &[&Candidate],
    hints: Hints,
    budgets: &mut Budgets,
) -> Verdict {
    let mut verdict = Verdict::new(hints);
    let (first, others) = context.unreached_first(ordered);
    for candidate in first.into_iter().chain(others) {
        if !budgets.has(&candidate.pool.name) {
            continue;
        }
        let mut replacements = Vec::new();
        if !candidate.is_empty() {
            if solver.is_exhausted() {
                verdict.unreached.push(candidate.clone());
                continue;
            }
            let simulation = simulate(context, solver, spec, &[candidate]);
            if let Some(problem) = simulation.problem {
                verdict.refusals.push((candidate.clone(), problem));
                continue;
            }
            replacements = simulation.plan.new_claims;
        }
        // Only a node that is replaced uses the budget; a blocked one leaves it to the next.
        budgets.take(&candidate.pool.name);
        verdict.accept(Command::new(spec, vec![candidate.clone()], replacements));
        return verdict;
    }
    verdict
}
