//! A node that was recreated for pods that a consolidation had evicted is not deleted without a replacement within
//! an hour: deleting it would recreate it once more. After ten minutes, nodes that were created later may take its pods: that it was
//! recreated says nothing about them.

use jiff::Timestamp;

use super::Gate;
use crate::disruption::{Candidate, Command, Context, Unconsolidatable, lineage};

/// Rejects commands that replace such a node by fewer nodes.
pub(super) struct WouldRecreate;

impl WouldRecreate {
    /// `oldest_receiver` is when the oldest node that takes its pods was created, where that is known.
    fn check(
        context: &Context<'_>,
        candidate: &Candidate,
        oldest_receiver: Option<Timestamp>,
    ) -> Result<(), Unconsolidatable> {
        let claim = candidate.node.claim.as_ref();
        let Some(since) = claim.and_then(|claim| lineage::recreated(claim, context.now)) else {
            return Ok(());
        };
        if !lineage::is_recent(since, context.now) && oldest_receiver.is_some_and(|created| since < created) {
            return Ok(());
        }
        Err(Unconsolidatable::WouldRecreate { since })
    }
}

impl Gate for WouldRecreate {
    fn admit_merge(&self, context: &Context<'_>, candidate: &Candidate) -> Result<(), Unconsolidatable> {
        Self::check(context, candidate, None)
    }

    fn admit_command(&self, context: &Context<'_>, command: &mut Command) -> Result<(), Unconsolidatable> {
        if command.replacements.len() >= command.candidates.len() {
            return Ok(());
        }
        command
            .candidates
            .iter()
            .try_for_each(|candidate| Self::check(context, candidate, command.oldest_receiver))
    }
}
