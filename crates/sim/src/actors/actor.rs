//! The trait of an actor, and the loop that runs one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;

use super::{
    cache::{Change, Key, Tables},
    ctx::{CallError, Ctx},
    queue::Mailbox,
};

/// Delay after the first failure of a key; doubled at each further one.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Longest delay after a failure.
const LAST_RETRY: Duration = Duration::from_secs(30);

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

/// Runs one actor forever, one key at a time.
pub(crate) async fn run(ctx: Ctx, actor: Arc<dyn Actor>, mailbox: Arc<Mailbox>) {
    let mut failures: BTreeMap<Key, u32> = BTreeMap::new();
    ctx.synced().await;
    loop {
        let key = match mailbox.pop() {
            Ok(key) => key,
            Err(None) => {
                mailbox.news().await;
                continue;
            }
            Err(Some(wait)) => {
                tokio::select! {
                    biased;
                    () = mailbox.news() => {}
                    () = ctx.clock.sleep(wait) => {}
                }
                continue;
            }
        };
        match actor.reconcile(&ctx, &key).await {
            Ok(again) => {
                failures.remove(&key);
                if let Requeue::After(delay) = again {
                    mailbox.later(key, delay);
                }
            }
            Err(error) => {
                let count = failures.entry(key.clone()).or_default();
                let delay = FIRST_RETRY.saturating_mul(1 << (*count).min(16)).min(LAST_RETRY);
                *count = count.saturating_add(1);
                tracing::debug!(actor = actor.name(), ?key, %error, ?delay, "reconcile failed");
                mailbox.later(key, delay);
            }
        }
        // A long queue must not starve the watches.
        tokio::task::yield_now().await;
    }
}
