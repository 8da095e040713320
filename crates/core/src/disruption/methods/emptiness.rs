//! Emptiness: nodes without pods that would have to be rescheduled.

use crate::{
    disruption::{
        Budgets, Candidate, Command, Context, DisruptionClass, Method, MethodSpec, SimulationSolver,
        Unconsolidatable, Verdict, candidate::is_consolidatable, hints::Hints,
    },
    model::DisruptionReason,
};

const SPEC: MethodSpec = MethodSpec {
    name: "emptiness",
    consolidation_type: "empty",
    reason: DisruptionReason::Empty,
    class: DisruptionClass::Graceful,
    validated: true,
};

/// Removes empty nodes, as many as the budgets allow, in one command.
pub(super) struct Emptiness;

impl Method for Emptiness {
    fn spec(&self) -> &'static MethodSpec {
        &SPEC
    }

    fn should_disrupt(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        if candidate.pool.is_static() {
            return Ok(false);
        }
        if candidate.pool.consolidate_after.is_none() {
            return Err(Unconsolidatable::Disabled(candidate.pool.name.as_str().into()));
        }
        if candidate.node.buffered > 0 {
            return Err(Unconsolidatable::HasBufferPods(candidate.name().into()));
        }
        Ok(candidate.is_empty() && is_consolidatable(context.now, candidate))
    }

    fn propose(
        &self,
        _: &Context<'_>,
        _: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        hints: Hints,
        budgets: &mut Budgets,
    ) -> Verdict {
        let mut ordered = candidates.to_vec();
        // The most expensive first, if the budget does not allow all.
        ordered.sort_by(|a, b| Candidate::by_savings_ratio(a, b));
        ordered.retain(|candidate| budgets.take(&candidate.pool.name));
        let mut verdict = Verdict::new(hints);
        if !ordered.is_empty() {
            verdict.accept(Command::new(&SPEC, ordered.into_iter().cloned().collect(), Vec::new()));
        }
        verdict
    }
}
