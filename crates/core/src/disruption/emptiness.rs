//! Nodes without pods that need a place.

use super::{
    Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict, consolidation::is_consolidatable,
};
use crate::model::DisruptionReason;

/// Removes empty nodes, all that the budgets allow in one command.
pub(super) struct Emptiness;

impl Method for Emptiness {
    fn name(&self) -> &'static str {
        "emptiness"
    }

    fn consolidation_type(&self) -> &'static str {
        "empty"
    }

    fn reason(&self) -> DisruptionReason {
        DisruptionReason::Empty
    }

    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        if candidate.pool.is_static() {
            return Ok(false);
        }
        if candidate.pool.consolidate_after.is_none() {
            return Err(Unconsolidatable::Disabled(candidate.pool.name.as_str().into()));
        }
        if candidate.node.buffered > 0 {
            return Err(Unconsolidatable::HoldsBuffer(candidate.name().into()));
        }
        Ok(candidate.is_empty() && is_consolidatable(context, candidate))
    }

    fn propose(&self, _: &Context<'_>, candidates: &[&Candidate], budgets: &mut Budgets) -> Verdict {
        let mut ordered = candidates.to_vec();
        // The dearest first, where the budget does not allow all.
        ordered.sort_by(|a, b| Candidate::by_savings_ratio(a, b));
        ordered.retain(|candidate| budgets.take(&candidate.pool.name));
        if ordered.is_empty() {
            return Verdict::default();
        }
        let within = ordered.into_iter().cloned().collect();
        Verdict { commands: vec![Command::of(self, within, Vec::new())], ..Verdict::default() }
    }
}
