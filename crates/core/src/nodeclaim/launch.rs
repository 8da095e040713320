//! From NodeClaims to instances: a batch is launched by attempts, each of which is one call to the cloud.
//!
//! NodeClaims of one plan with equal launch requirements get a batch and a position when they are created. A NodeClaim
//! without them is a batch of one. An attempt launches the NodeClaims of a batch that have no instance:
//! 1. Write number and members of the attempt on each member, in a patch with its resource version. Members are those
//!    that exist and are not deleted then. A crash or a failed write within this step leaves a NodeClaim that the others name and that
//!    does not carry the attempt: the cloud was not called, and all of them are launched by the next attempt. If that one is cut off,
//!    too, a NodeClaim may be left with the earlier one, which the others no longer carry: the later one names it, so that neither was called.
//! 2. Call the cloud. Batch and number are the call's token, and it asks for as many instances as there are members, so
//!    that a repeated call is the same call. A crash within or after this step leaves an attempt that all members carry:
//!    the call is repeated, and answered with the same instances.
//! 3. Record the result: the instances, sorted by id, belong to the members in order of position. Members without an instance go into the
//!    next attempt, or are deleted if there is no capacity.
//!
//! A cloud that launches one by one ([`ProviderInfo::launches_one_by_one`]) takes step 1 for the batch, and steps 2 and 3 for each member by itself,
//! in any order: batch, number and rank are the token. A crash between two answers leaves members with and without an instance, and each of
//! the latter repeats its own call. A member that failed goes into the next attempt while calls for others run: it is not a member that they
//! wait for.
//!
//! [`ProviderInfo::launches_one_by_one`]: crate::cloud::ProviderInfo::launches_one_by_one
//!
//! A member that is deleted during an attempt keeps its finalizer until the outcome of the attempt is known
//! ([`super::trace`]), and one that is named by an attempt that it does not carry until that attempt is over ([`is_named`]).

use std::{sync::Arc, time::Duration};

use super::{ClaimStep, ClaimView, ConditionChange, Next, Notice};
use crate::{
    cloud::{Instance, LaunchError},
    model::{BatchId, NodeClaim, Positions, nodeclaim::ConditionType},
    rate::{doubled, jittered},
    safety::Cause,
};

/// Delay before a call is repeated, doubling up to [`MAX_BACKOFF`], and up to as much again that differs from batch to
/// batch.
pub const BACKOFF: Duration = Duration::from_secs(1);
/// The longest delay before a call is repeated.
pub const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Characters of a failure that a condition shows.
const MESSAGE_LIMIT: usize = 300;

/// Begins and repeats launches.
#[derive(Clone, Copy, Debug)]
pub struct Launch;

impl Launch {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>) -> Next {
        let claim = view.claim;
        if claim.deleting.is_some() || is_launched(claim) {
            Next::nothing()
        } else {
            Next::steps([ClaimStep::Launch])
        }
    }
}

/// A call to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The batch.
    pub batch: BatchId,
    /// The number of the call; with the batch its token.
    pub number: u32,
    /// The positions of the NodeClaims that it launches: one instance each.
    pub members: Positions,
}

impl Attempt {
    /// The attempt that a NodeClaim carries, if it is a member of it.
    #[must_use]
    pub fn of(claim: &NodeClaim) -> Option<Self> {
        let carried = claim.attempt > 0 && claim.attempt_members.rank(claim.position).is_some();
        let members = claim.attempt_members.clone();
        carried.then(|| Self { batch: claim.batch.clone(), number: claim.attempt, members })
    }
}

/// The next step of a launch.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchStep {
    /// Write the attempt on these NodeClaims, each with its position.
    Write(Attempt, Vec<(Arc<NodeClaim>, u32)>),
    /// Call the cloud for the members of the attempt that exist and have no instance.
    Call(Attempt, Vec<Arc<NodeClaim>>),
}

/// The next step for `claim`, which has no instance and is not deleted. `batch` are all NodeClaims of its batch, including `claim`, and
/// `is_failed` returns whether a NodeClaim's last call left it permanently without an instance.
pub fn step(
    claim: &Arc<NodeClaim>,
    batch: &[Arc<NodeClaim>],
    is_failed: impl Fn(&NodeClaim) -> bool,
) -> LaunchStep {
    if is_copy(claim, batch) {
        let attempt = Attempt { batch: own_batch(claim), number: 1, members: [0].into_iter().collect() };
        return LaunchStep::Write(attempt, vec![(claim.clone(), 0)]);
    }
    let called = |claim: &NodeClaim| {
        Attempt::of(claim).filter(|attempt| {
            claim.has_finalizer
                && !is_failed(claim)
                && batch.iter().all(|other| carries(other, attempt) && !names(other, claim))
        })
    };
    if let Some(attempt) = called(claim) {
        let open = |other: &&Arc<NodeClaim>| {
            other.attempt == attempt.number
                && other.provider_id.is_none()
                && attempt.members.rank(other.position).is_some()
                && !is_copy(other, batch)
        };
        let members = batch.iter().filter(open).cloned().collect();
        return LaunchStep::Call(attempt, members);
    }
    // A member of an attempt that was not called is part of the next one, also if its requirements have changed since: once others have a
    // later attempt than it carries, its own looks as if it was called.
    let waits = |other: &&Arc<NodeClaim>| {
        other.deleting.is_none()
            && other.provider_id.is_none()
            && called(other).is_none()
            && !is_copy(other, batch)
            && (other.attempt > 0 || is_alike(other, claim))
    };
    let mut members: Vec<&Arc<NodeClaim>> = batch.iter().filter(waits).collect();
    members.sort_by_key(|other| other.position);
    let last = batch.iter().map(|other| round(other.attempt)).max().unwrap_or_default();
    let first = members.first().map_or(0, |member| member.position);
    let attempt = Attempt {
        batch: claim.batch.clone(),
        number: last.saturating_mul(Positions::LIMIT).saturating_add(first).saturating_add(1),
        members: members.iter().map(|member| member.position).collect(),
    };
    let members = members.iter().map(|member| ((*member).clone(), member.position)).collect();
    LaunchStep::Write(attempt, members)
}

/// The round of an attempt, from 1; zero before the first. An attempt has the first number of its round plus its first position.
/// So attempts of one round have different numbers, although the members of the earlier one may be gone when the later one is made.
fn round(number: u32) -> u32 {
    number.div_ceil(Positions::LIMIT)
}

/// Whether a NodeClaim records an attempt, or is not a member of it.
fn carries(claim: &NodeClaim, attempt: &Attempt) -> bool {
    attempt.members.rank(claim.position).is_none() || claim.attempt >= attempt.number
}

/// Whether a NodeClaim carries an attempt that names another one, which does not carry it: neither that attempt was called, nor the earlier
/// one that the other carries, for members of a called attempt are not named by a later one before they have its answer.
fn names(claim: &NodeClaim, other: &NodeClaim) -> bool {
    claim.attempt > other.attempt && claim.attempt_members.rank(other.position).is_some()
}

/// Whether an older NodeClaim has the same position, as after a copy: a position has one instance.
fn is_copy(claim: &NodeClaim, batch: &[Arc<NodeClaim>]) -> bool {
    let age = |claim: &NodeClaim| (claim.created, claim.uid.clone());
    batch.iter().any(|other| other.position == claim.position && age(other) < age(claim))
}

/// Whether two NodeClaims have equal launch requirements.
fn is_alike(a: &NodeClaim, b: &NodeClaim) -> bool {
    a.requirements == b.requirements
        && a.class == b.class
        && a.pool == b.pool
        && a.labels == b.labels
        && a.taints == b.taints
        && a.startup_taints == b.startup_taints
}

/// Whether an attempt that is being written names a NodeClaim that does not carry it, or the other way round. While both exist, it is known
/// that the cloud was not called.
#[must_use]
pub fn is_named(claim: &NodeClaim, batch: &[Arc<NodeClaim>]) -> bool {
    batch.iter().any(|other| {
        other.deleting.is_none()
            && other.provider_id.is_none()
            && (names(other, claim) || names(claim, other))
    })
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
pub fn after_result(claim: &NodeClaim, answer: &Result<Instance, LaunchError>, unclear: u32) -> Next {
    let unknown = |reason: &str, message: String| {
        ConditionChange::unknown(ConditionType::Launched, reason, message).step(claim)
    };
    match answer {
        Ok(_) => Next::steps([
            ClaimStep::Adopt,
            ClaimStep::Condition(ConditionChange::holds(ConditionType::Launched)),
        ]),
        Err(LaunchError::InsufficientCapacity(why)) => Next::steps([
            ClaimStep::Publish(Notice::InsufficientCapacity(why.clone())),
            ClaimStep::Delete(Cause::InsufficientCapacity),
        ]),
        Err(LaunchError::NodeClassNotReady(why)) => Next::steps([
            ClaimStep::Publish(Notice::NodeClassNotReady(why.clone())),
            ClaimStep::Delete(Cause::NodeClassNotReady),
        ]),
        Err(LaunchError::Failed { reason, message }) => {
            let reason = if reason.is_empty() { "LaunchFailed" } else { reason };
            let wait = together(claim, backoff(round(claim.attempt)), claim.attempt);
            Next::steps(unknown(reason, shortened(message))).again(wait)
        }
        Err(LaunchError::QuotaExceeded { quota, message }) => Next::steps([
            ClaimStep::Publish(Notice::QuotaExceeded { quota: quota.clone(), message: message.clone() }),
            ClaimStep::CountRegistration(false),
            ClaimStep::Delete(Cause::InsufficientCapacity),
        ]),
        // The same answer is not a failure: the delay does not grow.
        Err(LaunchError::Pending { message, after }) => Next::steps(unknown(
            "LaunchPending",
            shortened(message),
        ))
        .again(together(claim, (*after).max(BACKOFF), 0)),
        Err(LaunchError::Unknown(why)) => Next::steps(unknown("LaunchFailed", shortened(why)))
            .again(together(claim, backoff(unclear), unclear)),
        Err(LaunchError::RateLimited { after }) => {
            let wait = together(claim, (*after).max(backoff(unclear)), unclear);
            Next::steps(unknown("LaunchFailed", "throttled by the cloud, the call is repeated".to_owned()))
                .again(wait)
        }
    }
}

/// A delay after which the claims of one batch are launched again, in step with each other and not with other batches.
fn together(claim: &NodeClaim, delay: Duration, failures: u32) -> Duration {
    jittered(delay, claim.batch.as_str(), failures)
}

/// The delay after a number of failures, before [`jittered`] at most doubles it.
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
