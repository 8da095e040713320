//! An ordered, deduplicating work queue: keys with their due time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::clock::SharedClock;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::{
    actor::Actor,
    cache::{Change, Key, Tables},
};

/// The delay between a change and its key: otherwise each of a thousand new pods would cause a reconciliation of its controller.
const GATHER: Duration = Duration::from_millis(50);

/// Keys by due time; each once, at the earliest requested time.
#[derive(Debug, Default)]
struct Queue {
    due: BTreeSet<(Timestamp, Key)>,
    at: BTreeMap<Key, Timestamp>,
}

impl Queue {
    fn push(&mut self, key: Key, at: Timestamp) {
        match self.at.get(&key) {
            Some(known) if *known <= at => return,
            Some(known) => {
                self.due.remove(&(*known, key.clone()));
            }
            None => {}
        }
        self.due.insert((at, key.clone()));
        self.at.insert(key, at);
    }

    /// The first due key, else the time until the next one.
    fn pop(&mut self, now: Timestamp) -> Result<Key, Option<Duration>> {
        let Some((at, _)) = self.due.first() else { return Err(None) };
        if *at > now {
            return Err(Some(now.duration_until(*at).unsigned_abs()));
        }
        let Some((_, key)) = self.due.pop_first() else { return Err(None) };
        self.at.remove(&key);
        Ok(key)
    }
}

/// An actor's queue, with the filter for changes.
pub(crate) struct Mailbox {
    actor: Arc<dyn Actor>,
    clock: SharedClock,
    queue: Mutex<Queue>,
    news: Notify,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Mailbox").field("actor", &self.actor.name()).finish_non_exhaustive()
    }
}

impl Mailbox {
    /// An empty mailbox.
    pub(crate) fn new(actor: Arc<dyn Actor>, clock: SharedClock) -> Self {
        Self { actor, clock, queue: Mutex::default(), news: Notify::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues the keys that a change affects, with a short delay so that simultaneous changes are handled together.
    pub(crate) fn deliver(&self, change: &Change, tables: &Tables) {
        let keys = self.actor.interested(change, tables);
        if keys.is_empty() {
            return;
        }
        let at = self.after(GATHER);
        let mut queue = self.queue();
        for key in keys {
            queue.push(key, at);
        }
        drop(queue);
        self.news.notify_one();
    }

    /// Enqueues a key for later.
    pub(crate) fn later(&self, key: Key, delay: Duration) {
        let at = self.after(delay);
        self.queue().push(key, at);
        self.news.notify_one();
    }

    fn after(&self, delay: Duration) -> Timestamp {
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        self.clock.now().checked_add(delay).unwrap_or(Timestamp::MAX)
    }

    /// The first due key, else the time until the next one, if any.
    pub(crate) fn pop(&self) -> Result<Key, Option<Duration>> {
        self.queue().pop(self.clock.now())
    }

    /// Completes when a key was added since the last call.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

#[cfg(test)]
mod tests {
    //! Order and deduplication.
    use super::*;

    #[test]
    fn keys_come_once_by_due_time_then_name() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let key = |name| Key::new("n", name);
        let mut queue = Queue::default();
        for (name, due) in [("c", 5), ("b", 1), ("a", 1), ("c", 9), ("d", 7), ("d", 2)] {
            queue.push(key(name), at(due));
        }
        assert_eq!(queue.pop(at(0)), Err(Some(Duration::from_secs(1))));
        let order: Vec<String> = std::iter::from_fn(|| queue.pop(at(10)).ok()).map(|key| key.name).collect();
        assert_eq!(order, ["a", "b", "d", "c"]);
        assert_eq!(queue.pop(at(10)), Err(None));
    }
}
