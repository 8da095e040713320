//! An ordered, deduplicating queue of keys with deadlines. A key is processed by one worker at a time.
//!
//! All times are of the steady clock ([`super::Clocks::steady`]): a wall clock that is set back must not delay every deadline.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::rate::TokenBucket;
use fleetwright_state::Key;
use jiff::Timestamp;
use tokio::{sync::Notify, time::Instant};

use super::limit::RateLimit;

/// Maximum number of queue waits that are kept until they are reported; further waits are not counted.
const MAX_WAITS: usize = 1024;

/// The keys of one controller.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<QueueState>,
    limit: RateLimit,
    changed: Notify,
}

#[derive(Debug)]
struct QueueState {
    /// Due keys, in order of arrival.
    ready: VecDeque<Key>,
    /// The members of `ready`, and since when.
    is_ready: BTreeMap<Key, Instant>,
    /// Queue waits of the keys that were taken since the last report.
    waits: Vec<Duration>,
    /// Keys that are due later, by deadline and order of arrival.
    later: BTreeMap<(Timestamp, u64), Key>,
    /// The members of `later`.
    due: BTreeMap<Key, (Timestamp, u64)>,
    /// Keys in progress; the value is whether the key became due again.
    running: BTreeMap<Key, bool>,
    /// Consecutive failures.
    failures: BTreeMap<Key, u32>,
    bucket: TokenBucket,
    sequence: u64,
    /// Number of times that keys became due since the last report.
    added: usize,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(limit: RateLimit) -> Self {
        let state = QueueState {
            ready: VecDeque::new(),
            is_ready: BTreeMap::new(),
            waits: Vec::new(),
            later: BTreeMap::new(),
            due: BTreeMap::new(),
            running: BTreeMap::new(),
            failures: BTreeMap::new(),
            bucket: TokenBucket::new(limit.burst, limit.per_second),
            sequence: 0,
            added: 0,
        };
        Self { state: Mutex::new(state), limit, changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues a key now.
    pub fn add(&self, key: Key) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// Enqueues a key at `at`, or earlier if it is already due earlier.
    pub fn add_at(&self, key: Key, at: Timestamp) {
        self.lock().add_at(key, at);
        self.changed.notify_one();
    }

    /// Takes the next due key, which must be returned with [`Self::done`].
    pub fn next(&self, now: Timestamp) -> Option<Key> {
        let mut state = self.lock();
        state.promote_due(now);
        let key = state.ready.pop_front()?;
        if let Some(since) = state.is_ready.remove(&key)
            && state.waits.len() < MAX_WAITS
        {
            state.waits.push(since.elapsed());
        }
        state.running.insert(key.clone(), false);
        Some(key)
    }

    /// Returns a key after a success.
    pub fn done(&self, key: &Key) {
        let mut state = self.lock();
        state.failures.remove(key);
        state.finish(key);
    }

    /// Returns a key after a failure; it is retried with exponential backoff. Returns the delay.
    pub fn failed(&self, key: &Key, now: Timestamp) -> Duration {
        let mut state = self.lock();
        let failures = state.failures.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        let delay = self.limit.delay(*failures).max(state.bucket.owe(now));
        state.finish(key);
        state.add_at(key.clone(), later(now, delay));
        delay
    }

    /// When the next delayed key becomes due.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.lock().later.keys().next().map(|(at, _)| *at)
    }

    /// Number of due keys.
    pub fn depth(&self) -> usize {
        self.lock().ready.len()
    }

    /// Number of times that keys became due since the last call.
    pub fn take_added(&self) -> usize {
        std::mem::take(&mut self.lock().added)
    }

    /// Queue waits of the keys that were taken since the last call.
    pub fn take_waits(&self) -> Vec<Duration> {
        std::mem::take(&mut self.lock().waits)
    }

    /// Completes when a key was added, also if it was added before the call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl QueueState {
    fn add(&mut self, key: Key) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = true;
            return;
        }
        if let Some(at) = self.due.remove(&key) {
            self.later.remove(&at);
        }
        if !self.is_ready.contains_key(&key) {
            self.is_ready.insert(key.clone(), Instant::now());
            self.added = self.added.saturating_add(1);
            self.ready.push_back(key);
        }
    }

    fn add_at(&mut self, key: Key, at: Timestamp) {
        if self.is_ready.contains_key(&key) {
            return;
        }
        if let Some(known) = self.due.get(&key) {
            if known.0 <= at {
                return;
            }
            self.later.remove(known);
        }
        self.sequence += 1;
        self.later.insert((at, self.sequence), key.clone());
        self.due.insert(key, (at, self.sequence));
    }

    /// Moves due keys to `ready`.
    fn promote_due(&mut self, now: Timestamp) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.add(key);
        }
    }

    fn finish(&mut self, key: &Key) {
        if self.running.remove(key) == Some(true) {
            self.add(key.clone());
        }
    }
}

/// Returns `now` plus a duration.
#[must_use]
pub fn later(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
