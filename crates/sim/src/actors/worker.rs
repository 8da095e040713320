//! The loop that runs an actor.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    actor::{Actor, Requeue},
    cache::Key,
    ctx::Ctx,
    queue::Mailbox,
};

/// Delay after the first failure of a key; doubled at each further one.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Longest delay after a failure.
const LAST_RETRY: Duration = Duration::from_secs(30);

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
