//! Expired nodes, replaced within the budgets of their NodePool before they are deleted regardless of budgets.
//!
//! Opt-in per NodePool: Karpenter deletes expired nodes regardless of budgets. Budgets have no such reason, so an
//! expired node counts as drifted. Static drift replaces nodes of static NodePools one for one.

use crate::{
    disruption::{
        Budgets, Candidate, Context, DisruptionClass, Method, MethodSpec, SimulationSolver, Unconsolidatable,
        Verdict, hints::Hints,
    },
    model::DisruptionReason,
};

use super::drift::first_replaceable;

const SPEC: MethodSpec = MethodSpec {
    name: "expiration",
    consolidation_type: "",
    reason: DisruptionReason::Drifted,
    class: DisruptionClass::Eventual,
    validated: false,
};

/// Replaces expired nodes, the longest expired first; one at a time.
pub(super) struct Expiry;

impl Method for Expiry {
    fn spec(&self) -> &'static MethodSpec {
        &SPEC
    }

    fn should_disrupt(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        Ok(!candidate.pool.is_static() && candidate.expired_since(context.now).is_some())
    }

    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        hints: Hints,
        budgets: &mut Budgets,
    ) -> Verdict {
        let mut ordered = candidates.to_vec();
        ordered.sort_by_key(|candidate| (candidate.expired_since(context.now), candidate.name()));
        first_replaceable(&SPEC, (context, solver), &ordered, hints, budgets)
    }
}
