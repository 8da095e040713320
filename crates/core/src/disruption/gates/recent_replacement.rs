//! A replacement node is not consolidated within ten minutes of its initialization while it has its pods.

use super::Gate;
use crate::{
    disruption::{Candidate, Context, Unconsolidatable, candidate::is_consolidatable, lineage},
    model::nodeclaim::ConditionType,
};

/// Rejects recent replacements that still have all the pods that they were created for. A node that lost pods may be too
/// large, and is admitted.
pub(super) struct RecentReplacement;

impl Gate for RecentReplacement {
    fn admit_candidate(&self, context: &Context<'_>, candidate: &Candidate) -> Result<(), Unconsolidatable> {
        // The reason of a node within consolidateAfter is that one.
        if !is_consolidatable(context.now, candidate) {
            return Ok(());
        }
        let Some(claim) = &candidate.node.claim else { return Ok(()) };
        let Some(since) =
            claim.true_since(ConditionType::Initialized).filter(|_| lineage::is_replacement(claim))
        else {
            return Ok(());
        };
        if candidate.has_all_pods() && lineage::is_recent(since, context.now) {
            return Err(Unconsolidatable::RecentReplacement { since });
        }
        Ok(())
    }
}
