//! Deletes an expired NodeClaim.

use jiff::Timestamp;

use super::{ClaimStep, ClaimView, Next, remaining};
use crate::safety::Cause;

/// Deletes NodeClaims older than their `expireAfter`: forcefully, as Karpenter does, without budget or replacement.
#[derive(Clone, Copy, Debug)]
pub struct Expiration;

impl Expiration {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
        let claim = view.claim;
        let Some(age) = claim.expire_after.filter(|_| claim.deleting.is_none()) else {
            return Next::nothing();
        };
        // With a grace period of the NodePool, disruption replaces the node within budgets first; this is the final deadline.
        let grace = view.pool.and_then(|pool| pool.expiry_grace).unwrap_or_default();
        match remaining(claim.created, age.saturating_add(grace), now) {
            Some(left) => Next::wait(left),
            None => Next::steps([ClaimStep::Delete(Cause::Expired)]),
        }
    }
}
