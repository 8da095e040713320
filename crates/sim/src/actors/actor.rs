//! The trait of an actor.

use std::time::Duration;

use futures::future::BoxFuture;

use super::{
    cache::{Change, Key, Tables},
    ctx::{CallError, Ctx},
};

/// When a key is reconciled again without a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// Only after a change.
    No,
    /// After this long.
    After(Duration),
}

impl Requeue {
    /// The earlier of both.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::After(one), Self::After(two)) => Self::After(one.min(two)),
            (Self::No, other) => other,
            (own, Self::No) => own,
        }
    }
}

/// A control loop: reconciles one object at a time with its desired state.
pub(crate) trait Actor: Send + Sync + 'static {
    /// Name, for logs.
    fn name(&self) -> &'static str;

    /// The keys to reconcile after a change. Called with the cache locked: it must be cheap.
    fn interested(&self, change: &Change, tables: &Tables) -> Vec<Key>;

    /// Reconciles an object. Must be idempotent at any point.
    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>>;
}
