//! Machines without pods that need a place.

use super::{
    Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict, consolidation::is_consolidatable,
};
use crate::model::DisruptionReason;

/// Removes empty machines, all that the budgets allow in one command.
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

    fn propose(&self, _: &Context<'_>, candidates: &[Candidate], budgets: &mut Budgets) -> Verdict {
        let within: Vec<_> =
            candidates.iter().filter(|candidate| budgets.take(&candidate.pool.name)).cloned().collect();
        if within.is_empty() {
            return Verdict::default();
        }
        let command = Command {
            method: self.name(),
            consolidation_type: self.consolidation_type(),
            reason: self.reason(),
            candidates: within,
            replacements: Vec::new(),
            eventual: self.is_eventual(),
        };
        Verdict { commands: vec![command], ..Verdict::default() }
    }
}
