//! A claim that does not get its instance or its node in time is given up.

use std::time::Duration;

use jiff::Timestamp;

use super::{ClaimStep, ClaimView, Next, remaining};
use crate::{
    cloud::LAUNCH_DEADLINE,
    model::{NodeClaim, nodeclaim::ConditionType},
    safety::Cause,
};

/// How long a launch may take, unless the provider asks for more.
pub const LAUNCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
const _: () = assert!(
    LAUNCH_DEADLINE.as_secs() < LAUNCH_TIMEOUT.as_secs(),
    "a slow call is answered before its claim is deleted"
);
/// How long a node may take to join, unless the provider asks for more.
pub const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Deletes NodeClaims whose launch or registration takes too long.
#[derive(Clone, Copy, Debug)]
pub struct Liveness {
    /// When this process first saw the claim, if no launch had been requested by then: by the clock that judges the claim, its launch did
    /// not begin earlier. Its creation time is of the API server's clock; if that is minutes slow, a new claim would count as one that
    /// cannot be launched, and so would its successor.
    pub unasked: Option<Timestamp>,
}

impl Liveness {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
        let claim = view.claim;
        if claim.deleting.is_some() || claim.is(ConditionType::Registered) {
            return Next::nothing();
        }
        let (since, timeout, cause) = if claim.is(ConditionType::Launched) {
            let since = pending_since(claim, ConditionType::Registered);
            let patience = view.provider.patience.registration.max(REGISTRATION_TIMEOUT);
            (since, patience, Cause::RegistrationTimeout)
        } else {
            let since = pending_since(claim, ConditionType::Launched);
            let since = self.unasked.map_or(since, |unasked| unasked.max(since));
            (since, view.provider.patience.launch.max(LAUNCH_TIMEOUT), Cause::LaunchTimeout)
        };
        match remaining(since, timeout, now) {
            Some(left) => Next::wait(left),
            None => Next::steps([ClaimStep::CountRegistration(false), ClaimStep::Delete(cause)]),
        }
    }
}

/// Since when a condition waits: its last transition, or the claim's birth.
fn pending_since(claim: &NodeClaim, condition: ConditionType) -> Timestamp {
    claim.conditions.get(&condition).map_or(claim.created, |condition| condition.since)
}
