//! How fast this process changes the cluster: what creates NodeClaims or evicts pods passes a token bucket each, whoever
//! decided it. A decision that goes wrong goes wrong slowly. In steady time, on the process's own account: it
//! forgets with it, and a flood that outlives its process has another burst.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::rate::TokenBucket;
use jiff::Timestamp;

/// NodeClaims that are created: at once, and per second over time.
pub const CLAIMS: (u32, u32) = (1000, 50);
/// Pods that are evicted: at once, and per second over time. Deletions past the deadline of a node are not slowed down.
pub const EVICTIONS: (u32, u32) = (500, 100);
/// Tries to evict pods that a disruption budget has kept before: they change nothing mostly, and are a load on the API server all
/// the same.
pub const TRIES_AGAIN: (u32, u32) = EVICTIONS;
/// So many NodeClaims that had to wait are waited for at most: a pass for each one would be a pass every 20 ms.
const GATHERED: u32 = 250;

/// The buckets of a process.
#[derive(Debug)]
pub struct Rates {
    claims: Mutex<TokenBucket>,
    evictions: Mutex<TokenBucket>,
    tries_again: Mutex<TokenBucket>,
}

impl Default for Rates {
    fn default() -> Self {
        Self::new(CLAIMS, EVICTIONS)
    }
}

impl Rates {
    /// Full buckets of so many at once and so many per second: of NodeClaims, and of evictions.
    #[must_use]
    pub fn new(claims: (u32, u32), evictions: (u32, u32)) -> Self {
        let full = |(burst, per_second)| Mutex::new(TokenBucket::new(burst, per_second));
        Self { claims: full(claims), evictions: full(evictions), tries_again: full(TRIES_AGAIN) }
    }

    /// Whether `n` NodeClaims may be created now, all or none.
    ///
    /// # Errors
    /// How long to wait.
    pub fn create(&self, now: Timestamp, n: usize) -> Result<(), Duration> {
        lock(&self.claims).take(now, u32::try_from(n).unwrap_or(u32::MAX))
    }

    /// How long until `n` NodeClaims may be created, or as many of them as are worth a pass.
    pub fn until_created(&self, now: Timestamp, n: usize) -> Duration {
        let mut bucket = *lock(&self.claims);
        bucket.take(now, u32::try_from(n).unwrap_or(u32::MAX).min(GATHERED)).err().unwrap_or_default()
    }

    /// A NodeClaim that might have been created was not.
    pub fn not_created(&self) {
        lock(&self.claims).give_back();
    }

    /// Takes a turn to evict a pod. Turns are given in order: who comes again when its own has come need not ask.
    pub fn evict(&self, now: Timestamp) -> Duration {
        lock(&self.evictions).owe(now)
    }

    /// A pod whose turn it was to be evicted was kept by a disruption budget.
    pub fn not_evicted(&self) {
        lock(&self.evictions).give_back();
    }

    /// Takes a turn to try it once more for a pod that was kept. However many there are, no turn of another pod is later for it.
    pub fn try_again(&self, now: Timestamp) -> Duration {
        lock(&self.tries_again).owe(now)
    }

    /// A pod was evicted that had been kept before: that counts like any other.
    pub fn evicted_after_all(&self, now: Timestamp) {
        lock(&self.evictions).owe(now);
    }
}

fn lock(bucket: &Mutex<TokenBucket>) -> MutexGuard<'_, TokenBucket> {
    // No statement leaves a bucket half changed.
    bucket.lock().unwrap_or_else(PoisonError::into_inner)
}
