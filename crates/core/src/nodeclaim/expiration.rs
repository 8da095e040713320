//! A claim that reached its age goes.

use jiff::Timestamp;

use super::{Next, Removal, Stage, Step, View, remaining};

/// Deletes what is older than its `expireAfter`: forcefully, as Karpenter does, without budget or replacement.
#[derive(Clone, Copy, Debug)]
pub struct Expiration;

impl Stage for Expiration {
    fn next(&self, view: &View<'_>, now: Timestamp) -> Next {
        let claim = view.claim;
        let Some(age) = claim.expire_after.filter(|_| claim.deleting.is_none()) else {
            return Next::nothing();
        };
        match remaining(claim.created, age, now) {
            Some(left) => Next::wait(left),
            None => Next::steps([Step::Delete(Removal::Expired)]),
        }
    }
}
