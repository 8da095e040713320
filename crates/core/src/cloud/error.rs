//! Errors of a cloud: one variant per decision of the caller.

use std::time::Duration;

use crate::model::Str;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloudError {
    /// There is no such instance: a termination is complete.
    #[error("nodeclaim not found, {0}")]
    NotFound(Str),
    /// Not ours: never touch it again.
    #[error("instance {id} is not owned by this cluster: {why}")]
    NotOwned {
        /// The instance.
        id: Str,
        /// What shows it.
        why: Str,
    },
    /// Asked too often: wait.
    #[error("throttled by the cloud, next try in {after:?}")]
    RateLimited {
        /// How long to wait.
        after: Duration,
    },
    /// Denied: disable the feature and report the missing permission.
    #[error("not authorized to perform {action}")]
    Unauthorized {
        /// The cloud's name of the action.
        action: Str,
    },
    /// The class is not ready to be used.
    #[error("NodeClassRef not ready, {0}")]
    NodeClassNotReady(Str),
    /// Something is wrong with the input, and repeating does not help.
    #[error("invalid {field}: {message}")]
    Invalid {
        /// The field.
        field: Str,
        /// What is wrong and how to fix it.
        message: Str,
    },
    /// Anything else: try again later.
    #[error("{0}")]
    Unavailable(Str),
}

/// Why an instance was not launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// None of the allowed offerings has capacity: delete the claim, schedule its pods again. The provider remembers what
    /// was unavailable in its catalogue.
    #[error("insufficient capacity, {0}")]
    InsufficientCapacity(Str),
    /// The class is not there or not ready: delete the claim.
    #[error("NodeClassRef not ready, {0}")]
    NodeClassNotReady(Str),
    /// The launch failed for a reason that a condition should show: launch by the next attempt.
    #[error("creating nodeclaim, {message}")]
    Failed {
        /// Reason in one word.
        reason: Str,
        /// What is wrong and how to fix it.
        message: Str,
    },
    /// The launch is under way and not a failure: call again with the same batch and attempt. The NodeClaim is given up after
    /// [`Patience::launch`](super::Patience::launch).
    #[error("launch is under way, {message}")]
    Pending {
        /// What it waits for.
        message: Str,
        /// When to ask again.
        after: Duration,
    },
    /// The account may not have more: delete the claim, schedule its pods again, which other offerings may serve.
    #[error("quota {quota} is reached, {message}")]
    QuotaExceeded {
        /// The cloud's name of the quota.
        quota: Str,
        /// Its value, and how to raise it.
        message: Str,
    },
    /// It is not known whether an instance was created: call again with the same batch and attempt.
    #[error("launch outcome unknown, {0}")]
    Unknown(Str),
    /// Asked too often, and nothing was launched: call again with the same batch and attempt, later.
    #[error("throttled by the cloud, next try in {after:?}")]
    RateLimited {
        /// How long to wait.
        after: Duration,
    },
}
