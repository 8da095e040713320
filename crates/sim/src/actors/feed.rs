//! Feeds the cache from the watch of a kind.

use std::{pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};

use super::{cache::WatchedKind, ctx::Ctx};

/// Delay after the first failure of a watch; doubled at each further one.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// Longest delay after a failure.
const LAST_RETRY: Duration = Duration::from_secs(10);

/// Watches a kind forever. A broken watch is resumed, an expired one (410) starts over with a list; both after a delay without jitter, so
/// that a run is repeatable.
pub(crate) async fn follow<K: WatchedKind>(ctx: Ctx) {
    let mut events = pin!(watcher::watcher(K::api(ctx.client.clone(), ""), watcher::Config::default()));
    let mut listed = Vec::new();
    let mut synced = false;
    let mut delay = FIRST_RETRY;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                delay = FIRST_RETRY;
                match event {
                    Event::Init => listed.clear(),
                    Event::InitApply(object) => listed.push(object),
                    Event::InitDone => {
                        ctx.cache.reset(std::mem::take(&mut listed));
                        if !std::mem::replace(&mut synced, true) {
                            ctx.one_more_synced();
                        }
                    }
                    Event::Apply(object) => drop(ctx.cache.put(object)),
                    Event::Delete(object) => ctx.cache.remove::<K>(object.meta()),
                }
            }
            Err(error) => {
                tracing::debug!(kind = %K::kind(&()), %error, ?delay, "watch broken");
                ctx.clock.sleep(delay).await;
                delay = delay.saturating_mul(2).min(LAST_RETRY);
            }
        }
    }
}
