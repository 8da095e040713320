//! Feeds the cache from the watches of all kinds.

use std::{pin::pin, time::Duration};

use futures::{StreamExt as _, future::BoxFuture};
use kube::runtime::watcher::{self, Event};

use super::{
    cache::{KindVisitor, WatchedKind, each_kind},
    ctx::Ctx,
};

/// Delay after the first failure of a watch; doubled at each further one.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// Longest delay after a failure.
const LAST_RETRY: Duration = Duration::from_secs(10);

/// The watches of all kinds.
pub(crate) fn all(ctx: &Ctx) -> Vec<BoxFuture<'static, ()>> {
    struct Feeds<'a>(&'a Ctx, Vec<BoxFuture<'static, ()>>);
    impl KindVisitor for Feeds<'_> {
        fn visit<K: WatchedKind>(&mut self) {
            self.1.push(Box::pin(follow::<K>(self.0.clone())));
        }
    }
    let mut feeds = Feeds(ctx, Vec::new());
    each_kind(&mut feeds);
    feeds.1
}

/// Watches a kind forever. A broken watch is resumed, an expired one (410) starts over with a list; both after a delay without jitter, so
/// that a run is repeatable.
async fn follow<K: WatchedKind>(ctx: Ctx) {
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
