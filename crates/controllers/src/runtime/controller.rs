//! What a controller is: a name, its interests, and one reconcile.

use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::CloudError;
use fleetwright_state::{Change, Index, Key};

use super::{ctx::Ctx, limit::RateLimit};
use crate::settings::Settings;

/// A loop that brings one object at a time closer to what is wanted.
///
/// Reconciles of one key never overlap; a key that changes meanwhile is reconciled again. A future that is dropped at
/// an await is a crash there: everything must be repeatable.
#[async_trait]
pub trait Controller: Send + Sync + 'static {
    /// Karpenter's name of the controller, for logs and metrics.
    fn name(&self) -> &'static str;

    /// How many keys are reconciled at once.
    fn concurrency(&self, _settings: &Settings) -> usize {
        1
    }

    /// How failed and requeued keys are slowed down.
    fn rate_limit(&self) -> RateLimit {
        RateLimit::DEFAULT
    }

    /// Whether [`Key::singleton`] is due at start.
    fn is_singleton(&self) -> bool {
        false
    }

    /// The keys that a change makes due. Called with the index locked, for every change: it must be cheap.
    fn interested(&self, _change: &Change, _index: &Index) -> Vec<Key> {
        Vec::new()
    }

    /// Looks at the object again and does the next step.
    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError>;
}

/// When a key is due again, changes aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When something changes.
    No,
    /// At once, behind what is queued.
    Now,
    /// After this long, or when something changes.
    After(Duration),
    /// With growing delays, like after an error, but without complaint.
    Backoff,
}

impl From<Option<Duration>> for Requeue {
    fn from(after: Option<Duration>) -> Self {
        after.map_or(Self::No, Self::After)
    }
}

/// Why a reconcile did not come to its end. The key is tried again with growing delays.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Another writer was faster: not worth a complaint.
    #[error("{what}: conflict with another writer")]
    Conflict {
        /// The call.
        what: &'static str,
    },
    /// The object is not there (any more).
    #[error("{what}: not found")]
    NotFound {
        /// The call.
        what: &'static str,
    },
    /// A call took too long; it may have had its effect.
    #[error("{what}: no answer within {after:?}")]
    Deadline {
        /// The call.
        what: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// The API server refused or could not be reached.
    #[error("{what}: {source}")]
    Kube {
        /// The call.
        what: &'static str,
        /// Its answer.
        source: Box<kube::Error>,
    },
    /// This process does not lead any more: nothing was called.
    #[error("{what}: this process does not lead any more")]
    NotLeading {
        /// The call.
        what: &'static str,
    },
    /// The cloud refused or could not be reached.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

impl ReconcileError {
    /// Sorts an error of a Kubernetes call.
    #[must_use]
    pub fn from_kube(what: &'static str, error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 409 => Self::Conflict { what },
            kube::Error::Api(status) if status.code == 404 => Self::NotFound { what },
            _ => Self::Kube { what, source: Box::new(error) },
        }
    }

    /// Whether the object was not found.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether another writer was faster.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

/// Takes "not found" as an answer: the object is gone.
///
/// # Errors
/// Any other error.
pub fn gone_is_ok<T>(result: Result<T, ReconcileError>) -> Result<Option<T>, ReconcileError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
