//! Bounded caches: moka bounds the size; the expiry of an entry is judged by the caller's clock.
//!
//! A cache holds what can be fetched or computed again. If losing an entry would change a decision, it is state and belongs in a map
//! whose owner removes entries.
//!
//! Above its bound a cache evicts the least recently used entry. Nothing depends on the order of entries, and no thread runs in the
//! background: the same calls leave the same entries.

use std::fmt;
use std::hash::Hash;

use jiff::{SignedDuration, Timestamp};
use moka::policy::EvictionPolicy;
use moka::sync;

use crate::recent::is_recent;

#[derive(Clone)]
struct Entry<V> {
    value: V,
    /// When it was inserted and how long it is valid; `None` for entries that do not expire.
    counts: Option<(Timestamp, SignedDuration)>,
}

/// A cache of at most `MAX` entries. Values are cloned on read: use an `Arc` for large ones.
pub struct Cache<K, V, const MAX: u64> {
    entries: sync::Cache<K, Entry<V>>,
}

impl<K, V, const MAX: u64> Default for Cache<K, V, MAX>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn default() -> Self {
        let builder = sync::Cache::builder().max_capacity(MAX);
        // moka's default policy may reject a new entry in favour of frequently used ones.
        Self { entries: builder.eviction_policy(EvictionPolicy::lru()).build() }
    }
}

impl<K, V, const MAX: u64> Cache<K, V, MAX>
where
    K: Clone + Eq + Ord + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Returns an entry that is valid at `now`.
    #[must_use]
    pub fn get(&self, key: &K, now: Timestamp) -> Option<V> {
        let entry = self.entries.get(key)?;
        entry.counts.is_none_or(|(since, long)| is_recent(since, now, long)).then_some(entry.value)
    }

    /// Returns an entry even if it has expired, for callers that prefer an old answer to none.
    #[must_use]
    pub fn peek(&self, key: &K) -> Option<V> {
        self.entries.get(key).map(|entry| entry.value)
    }

    /// Inserts an entry that is valid for `long` from `now`. Returns whether the key was absent.
    pub fn insert(&self, key: K, value: V, now: Timestamp, long: SignedDuration) -> bool {
        self.put(key, Entry { value, counts: Some((now, long)) })
    }

    /// Inserts an entry that does not expire. Returns whether the key was absent.
    pub fn keep(&self, key: K, value: V) -> bool {
        self.put(key, Entry { value, counts: None })
    }

    fn put(&self, key: K, entry: Entry<V>) -> bool {
        let new = !self.entries.contains_key(&key);
        self.entries.insert(key, entry);
        self.run_evictions();
        new
    }

    /// Removes an entry.
    pub fn remove(&self, key: &K) -> Option<V> {
        let removed = self.entries.remove(key).map(|entry| entry.value);
        self.run_evictions();
        removed
    }

    /// Removes entries that have expired at `now`. Returns how many.
    pub fn sweep(&self, now: Timestamp) -> usize {
        self.retain(|_, _, counts| counts.is_none_or(|(since, long)| is_recent(since, now, long)))
    }

    /// Removes the entries for which `keeps` is false. Returns how many.
    pub fn retain_if(&self, keeps: impl Fn(&K, &V) -> bool) -> usize {
        self.retain(|key, value, _| keeps(key, value))
    }

    fn retain(&self, keeps: impl Fn(&K, &V, Option<(Timestamp, SignedDuration)>) -> bool) -> usize {
        if self.is_empty() {
            return 0;
        }
        let goes = |(key, entry): (std::sync::Arc<K>, Entry<V>)| {
            (!keeps(&key, &entry.value, entry.counts)).then_some(key)
        };
        let gone: Vec<_> = self.entries.iter().filter_map(goes).collect();
        for key in &gone {
            self.entries.invalidate(&**key);
        }
        if !gone.is_empty() {
            self.run_evictions();
        }
        gone.len()
    }

    /// Returns all entries by key, expired ones included.
    #[must_use]
    pub fn all(&self) -> Vec<(K, V)> {
        let mut all: Vec<(K, V)> =
            self.entries.iter().map(|(key, entry)| ((*key).clone(), entry.value)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries.entry_count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs moka's pending evictions now, so that the entries depend on the calls alone.
    fn run_evictions(&self) {
        self.entries.run_pending_tasks();
    }
}

impl<K, V, const MAX: u64> fmt::Debug for Cache<K, V, MAX>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cache").field("entries", &self.entries.entry_count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Bounds, expiry, and the same entries for the same calls.
    use super::*;

    const LONG: SignedDuration = SignedDuration::from_mins(3);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn entries_count_for_their_time_on_our_clock() {
        let cache: Cache<&str, i32, 10> = Cache::default();
        assert!(cache.insert("a", 1, at(0), LONG));
        assert!(!cache.insert("a", 2, at(60), LONG), "there was one");
        assert!(cache.keep("b", 3));
        assert_eq!((cache.get(&"a", at(239)), cache.get(&"a", at(240))), (Some(2), None));
        assert_eq!((cache.get(&"a", at(59)), cache.peek(&"a")), (None, Some(2)), "a clock that was set back");
        assert_eq!((cache.get(&"b", at(1_000_000)), cache.sweep(at(240)), cache.len()), (Some(3), 1, 1));
        assert_eq!((cache.remove(&"b"), cache.is_empty()), (Some(3), true));
    }

    /// The most recently used entries remain; two caches with the same calls hold the same entries, whatever their hashers.
    #[test]
    fn the_least_recently_used_entry_is_evicted_at_once() {
        let filled = || {
            let cache: Cache<i32, i32, 100> = Cache::default();
            for number in 0..1000 {
                cache.insert(number, number, at(0), LONG);
                assert!(cache.len() <= 100);
                assert_eq!(cache.get(&0, at(0)), Some(0));
            }
            cache
        };
        let left: Vec<i32> = filled().all().into_iter().map(|(key, _)| key).collect();
        assert_eq!(left.len(), 100);
        assert!(
            left.contains(&0) && left.contains(&999) && left.contains(&902) && !left.contains(&900),
            "{left:?}"
        );
        for _ in 0..5 {
            assert_eq!(filled().all().into_iter().map(|(key, _)| key).collect::<Vec<_>>(), left);
        }
    }
}
