//! A node that was recreated for pods that a consolidation had evicted is not deleted without a replacement within
//! an hour: deleting it would recreate it once more.

use super::Gate;
use crate::disruption::{Candidate, Command, Context, Unconsolidatable, lineage};

/// Rejects commands that replace such a node by fewer nodes.
pub(super) struct WouldRecreate;

impl WouldRecreate {
    fn check(context: &Context<'_>, candidate: &Candidate) -> Result<(), Unconsolidatable> {
        let claim = candidate.node.claim.as_ref();
        match claim.and_then(|claim| lineage::recreated(claim, context.now)) {
            Some(since) => Err(Unconsolidatable::WouldRecreate { since }),
            None => Ok(()),
        }
    }
}

impl Gate for WouldRecreate {
    fn admit_merge(&self, context: &Context<'_>, candidate: &Candidate) -> Result<(), Unconsolidatable> {
        Self::check(context, candidate)
    }

    fn admit_command(&self, context: &Context<'_>, command: &mut Command) -> Result<(), Unconsolidatable> {
        if command.replacements.len() >= command.candidates.len() {
            return Ok(());
        }
        command.candidates.iter().try_for_each(|candidate| Self::check(context, candidate))
    }
}
