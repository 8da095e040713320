//! The controller trait: a name, the keys that a change enqueues, and one reconcile.

use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::{cloud::CloudError, model::NamespacedName};
use fleetwright_state::{Change, Index, Key};
use kube::core::ApiResource;

use super::limit::RateLimit;
use crate::settings::Settings;

/// A reconcile loop over keys.
///
/// Reconciles of one key never overlap; a key that changes during its reconcile is reconciled again. A future may be
/// dropped at any await, which equals a crash there: every reconcile must be repeatable.
#[async_trait]
pub trait Controller: Send + Sync + 'static {
    /// Karpenter's name of the controller, for logs and metrics.
    fn name(&self) -> &'static str;

    /// How many keys are reconciled at once.
    fn concurrency(&self, _settings: &Settings) -> usize {
        1
    }

    /// The rate limit of failed and requeued keys.
    fn rate_limit(&self) -> RateLimit {
        RateLimit::DEFAULT
    }

    /// Whether [`Key::singleton`] is due at start.
    fn is_singleton(&self) -> bool {
        false
    }

    /// Returns the keys that a change enqueues. Called with the index locked, for every change: it must be cheap.
    fn interested(&self, _change: &Change, _index: &Index) -> Vec<Key> {
        Vec::new()
    }

    /// The kinds that its objects refer to and that the index does not keep. Their watches are best effort: see
    /// [`super::References`].
    fn references(&self) -> Vec<ApiResource> {
        Vec::new()
    }

    /// Returns the keys of the objects that refer to the object `name` of such a kind, or without a name to any object of it.
    fn referring(&self, _kind: &ApiResource, _name: Option<&NamespacedName>, _index: &Index) -> Vec<Key> {
        Vec::new()
    }

    /// Reads the object of `key` and executes its next step.
    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError>;
}

/// When a key is reconciled again if nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When something changes.
    No,
    /// At once, behind the keys that are queued.
    Now,
    /// After this long, or when something changes.
    After(Duration),
    /// With exponential backoff, as after an error, but without an error log.
    Backoff,
}

impl From<Option<Duration>> for Requeue {
    fn from(after: Option<Duration>) -> Self {
        after.map_or(Self::No, Self::After)
    }
}

/// Why a reconcile failed. The key is retried with exponential backoff.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Another writer changed the object first; retried without an error log.
    #[error("{what}: conflict with another writer")]
    Conflict {
        /// The call.
        what: &'static str,
    },
    /// The object does not exist.
    #[error("{what}: not found")]
    NotFound {
        /// The call.
        what: &'static str,
    },
    /// A call exceeded its deadline; it may have had its effect.
    #[error("{what}: no answer within {after:?}")]
    Deadline {
        /// The call.
        what: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// The API server refused the call or was unreachable.
    #[error("{what}: {source}")]
    Kube {
        /// The call.
        what: &'static str,
        /// The response.
        source: Box<kube::Error>,
    },
    /// This process is not the leader any more; the call was not made.
    #[error("{what}: this process is not the leader any more")]
    NotLeading {
        /// The call.
        what: &'static str,
    },
    /// The cloud refused the call or was unreachable.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

impl ReconcileError {
    /// Classifies an error of a Kubernetes call.
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

    /// Whether the API server forbids the call.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Kube { source, .. } if matches!(&**source, kube::Error::Api(status) if status.code == 403))
    }

    /// Whether another writer changed the object first.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

/// Maps "not found" to `None`, as `client.IgnoreNotFound` of controller-runtime.
///
/// # Errors
/// Any other error.
pub fn ignore_not_found<T>(result: Result<T, ReconcileError>) -> Result<Option<T>, ReconcileError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
