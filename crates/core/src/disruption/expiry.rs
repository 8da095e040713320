//! Nodes that are past their age, replaced within the budgets of their pool before they are deleted by force.
//!
//! Only where the NodePool asks for it: Karpenter deletes at the age, whatever the budgets say. Budgets know no reason of
//! this name; a node that is too old counts as one that has drifted. Those of static pools are for static drift, which
//! replaces one for one.

use jiff::Timestamp;

use super::{Budgets, Candidate, Context, Method, Unconsolidatable, Verdict, drift};
use crate::model::DisruptionReason;

/// Replaces nodes past their age, the oldest first.
pub(super) struct Expiry;

/// When a node came of age, where that is so and its pool wants it replaced within budgets.
pub(super) fn expired_since(context: &Context<'_>, candidate: &Candidate) -> Option<Timestamp> {
    candidate.pool.expiry_grace?;
    let claim = candidate.node.claim.as_ref()?;
    let end = claim.created.checked_add(claim.expire_after?).ok()?;
    (end <= context.now).then_some(end)
}

impl Method for Expiry {
    fn name(&self) -> &'static str {
        "expiration"
    }

    fn consolidation_type(&self) -> &'static str {
        ""
    }

    fn reason(&self) -> DisruptionReason {
        DisruptionReason::Drifted
    }

    fn is_eventual(&self) -> bool {
        true
    }

    fn is_validated(&self) -> bool {
        false
    }

    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        Ok(!candidate.pool.is_static() && expired_since(context, candidate).is_some())
    }

    fn propose(&self, context: &Context<'_>, candidates: &[&Candidate], budgets: &mut Budgets) -> Verdict {
        let mut ordered = candidates.to_vec();
        ordered.sort_by_key(|candidate| (expired_since(context, candidate), candidate.name()));
        drift::first_that_can_go(self, context, &ordered, budgets)
    }
}
