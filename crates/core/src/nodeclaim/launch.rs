//! From a claim to an instance: intent before effect, and the same call again when the outcome is not known.
//!
//! Batch and attempt name a call to the cloud, and the cloud answers the same call with the same instances. So a call
//! must always be about the same claims, and a crash anywhere is healed by calling again:
//! - All claims of a batch that are there when its launch begins get attempt 1; the group is closed then. A claim that
//!   comes too late for its batch becomes a batch of its own.
//! - After a definite failure a claim leaves its batch (the others may have been launched) and goes on alone, with the
//!   next attempt.
//! - After an outcome that is not known it stays: batch and attempt are called again.

use std::time::Duration;

use jiff::Timestamp;

use super::{ConditionChange, Next, Notice, Step, View, remaining};
use crate::{
    cloud::{Instance, LaunchError},
    model::{BatchId, NodeClaim, nodeclaim::ConditionType},
    rate::{doubled, jittered},
    safety::Cause,
};

/// How long the first claims of a batch wait for the others.
pub const GATHER: Duration = Duration::from_millis(100);
/// A claim of a batch that is older than this without an attempt does not wait for others (and none for it).
pub const LATE: Duration = Duration::from_secs(10);
/// Delay before a call is repeated, doubling up to [`MAX_BACKOFF`], and up to as much again that differs from claim to claim
/// or from batch to batch.
pub const BACKOFF: Duration = Duration::from_secs(1);
/// The longest delay before a call is repeated.
pub const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Characters of a failure that a condition shows.
const MESSAGE_LIMIT: usize = 300;

/// Begins and repeats launches.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Whether the group of the claim's batch is closed: the cloud was called for it, or may have been.
    pub closed: bool,
}

impl Launch {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &View<'_>, now: Timestamp) -> Next {
        let claim = view.claim;
        if claim.deleting.is_some() || is_launched(claim) {
            return Next::nothing();
        }
        if claim.has_finalizer && claim.attempt > 0 {
            return Next::steps([Step::Launch]);
        }
        let alone = own_batch(claim);
        if claim.batch == alone {
            return Next::steps([Step::Intend { batch: alone, attempt: claim.attempt.max(1) }]);
        }
        let late = remaining(claim.created, LATE, now).is_none();
        if self.closed || late {
            return Next::steps([Step::Intend { batch: alone, attempt: 1 }]);
        }
        Next::steps([Step::Intend { batch: claim.batch.clone(), attempt: 1 }])
    }
}

/// The batch of a claim that is launched alone: its UID.
#[must_use]
pub fn own_batch(claim: &NodeClaim) -> BatchId {
    BatchId::from(claim.uid.clone())
}

/// Whether the claim has its instance.
#[must_use]
pub fn is_launched(claim: &NodeClaim) -> bool {
    claim.is(ConditionType::Launched) && claim.provider_id.is_some()
}

/// Whether a call with the claim's batch and attempt may have been made whose outcome was not written down.
#[must_use]
pub fn is_outcome_open(claim: &NodeClaim) -> bool {
    claim.attempt > 0 && claim.provider_id.is_none()
}

/// What follows from the cloud's answer, given how often it was not a clear one.
#[must_use]
pub fn settle(claim: &NodeClaim, answer: &Result<Instance, LaunchError>, unclear: u32) -> Next {
    let unknown = |reason: &str, message: String| {
        ConditionChange::unknown(ConditionType::Launched, reason, message).step(claim)
    };
    match answer {
        Ok(_) => Next::steps([Step::Adopt, Step::Condition(ConditionChange::holds(ConditionType::Launched))]),
        Err(LaunchError::InsufficientCapacity(why)) => Next::steps([
            Step::Publish(Notice::InsufficientCapacity(why.clone())),
            Step::CountRegistration(false),
            Step::Delete(Cause::InsufficientCapacity),
        ]),
        Err(LaunchError::NodeClassNotReady(why)) => Next::steps([
            Step::Publish(Notice::NodeClassNotReady(why.clone())),
            Step::Delete(Cause::NodeClassNotReady),
        ]),
        Err(LaunchError::Failed { reason, message }) => {
            let reason = if reason.is_empty() { "LaunchFailed" } else { reason };
            let next = Step::Intend { batch: own_batch(claim), attempt: claim.attempt.saturating_add(1) };
            let shown = unknown(reason, shortened(message));
            // From here on it goes alone, and not in step with those that failed with it.
            let wait = jittered(backoff(claim.attempt), &claim.uid, claim.attempt);
            Next::steps(shown.into_iter().chain([next])).again(wait)
        }
        Err(LaunchError::Unknown(why)) => Next::steps(unknown("LaunchFailed", shortened(why)))
            .again(together(claim, backoff(unclear), unclear)),
        Err(LaunchError::RateLimited { after }) => {
            let wait = together(claim, (*after).max(backoff(unclear)), unclear);
            Next::steps(unknown("LaunchFailed", "throttled by the cloud, the call is repeated".to_owned()))
                .again(wait)
        }
    }
}

/// A delay after which the claims of one batch repeat their call, in step with each other and not with other batches.
fn together(claim: &NodeClaim, delay: Duration, unclear: u32) -> Duration {
    jittered(delay, claim.batch.as_str(), unclear)
}

/// The delay after so many failures, before [`jittered`] makes up to twice as much of it.
#[must_use]
pub fn backoff(failures: u32) -> Duration {
    doubled(BACKOFF, MAX_BACKOFF, failures)
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_LIMIT) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message.to_owned(),
    }
}
