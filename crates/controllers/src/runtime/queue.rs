//! An ordered, deduplicating queue of keys with deadlines. One key is never handed out twice at once.
//!
//! All moments are of the steady clock ([`super::Ctx::steady`]): a wall clock that is set back must not hold up every deadline.

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

/// Waits that are kept until they are told; more are not counted.
const WAITS: usize = 1024;

/// The keys of one controller.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    limit: RateLimit,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// Due, first come first served.
    ready: VecDeque<Key>,
    /// The members of `ready`, and since when.
    is_ready: BTreeMap<Key, Instant>,
    /// How long keys waited that were handed out since that was last told.
    waits: Vec<Duration>,
    /// Due later: by deadline and order of arrival.
    later: BTreeMap<(Timestamp, u64), Key>,
    /// The members of `later`.
    due: BTreeMap<Key, (Timestamp, u64)>,
    /// Handed out; the value says whether it became due meanwhile.
    running: BTreeMap<Key, bool>,
    /// Failures in a row.
    failures: BTreeMap<Key, u32>,
    bucket: TokenBucket,
    sequence: u64,
    /// How many times keys became due since that was last told.
    added: usize,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(limit: RateLimit) -> Self {
        let state = State {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a key due now.
    pub fn add(&self, key: Key) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// Makes a key due at `at`, or earlier where it already is.
    pub fn add_at(&self, key: Key, at: Timestamp) {
        self.lock().add_at(key, at);
        self.changed.notify_one();
    }

    /// The next key that is due, which must be given back with [`Self::done`].
    pub fn next(&self, now: Timestamp) -> Option<Key> {
        let mut state = self.lock();
        state.ripen(now);
        let key = state.ready.pop_front()?;
        if let Some(since) = state.is_ready.remove(&key)
            && state.waits.len() < WAITS
        {
            state.waits.push(since.elapsed());
        }
        state.running.insert(key.clone(), false);
        Some(key)
    }

    /// Gives a key back after a success.
    pub fn done(&self, key: &Key) {
        let mut state = self.lock();
        state.failures.remove(key);
        state.finish(key);
    }

    /// Gives a key back after a failure: it comes again, later each time. Returns the delay.
    pub fn failed(&self, key: &Key, now: Timestamp) -> Duration {
        let mut state = self.lock();
        let failures = state.failures.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        let delay = self.limit.delay(*failures).max(state.bucket.owe(now));
        state.finish(key);
        state.add_at(key.clone(), later(now, delay));
        delay
    }

    /// When the next key becomes due that is not due yet.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.lock().later.keys().next().map(|(at, _)| *at)
    }

    /// How many keys are due.
    pub fn depth(&self) -> usize {
        self.lock().ready.len()
    }

    /// How many times keys became due since this was last asked.
    pub fn take_added(&self) -> usize {
        std::mem::take(&mut self.lock().added)
    }

    /// How long keys waited that were handed out since this was last asked.
    pub fn take_waits(&self) -> Vec<Duration> {
        std::mem::take(&mut self.lock().waits)
    }

    /// Completes when something was added. A change before the call counts too.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl State {
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

    /// Moves to `ready` what is due.
    fn ripen(&mut self, now: Timestamp) {
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

/// `now` and a duration after it.
#[must_use]
pub fn later(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
