//! Rate limits of changes to the cluster: the creation of NodeClaims and the eviction of pods pass a token bucket each,
//! whichever controller decided them, so that a wrong decision takes effect slowly. Times are steady. The buckets belong to
//! the process: its successor starts with a full burst.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::rate::TokenBucket;
use jiff::Timestamp;

/// Creation of NodeClaims: burst, and rate per second.
pub const CLAIMS: (u32, u32) = (1000, 50);
/// Evictions: burst, and rate per second. Forced deletions after the deadline of a node are not limited.
pub const EVICTIONS: (u32, u32) = (500, 100);
/// Retried evictions of pods that a disruption budget refused before: mostly without effect, but a load on the API server.
pub const TRIES_AGAIN: (u32, u32) = EVICTIONS;
/// Maximum number of delayed NodeClaims that a pass waits for: one pass per NodeClaim would be a pass every 20 ms.
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
    /// Full buckets with burst and rate per second of NodeClaims and of evictions.
    #[must_use]
    pub fn new(claims: (u32, u32), evictions: (u32, u32)) -> Self {
        let full = |(burst, per_second)| Mutex::new(TokenBucket::new(burst, per_second));
        Self { claims: full(claims), evictions: full(evictions), tries_again: full(TRIES_AGAIN) }
    }

    /// Takes tokens for `n` NodeClaims, all or none.
    ///
    /// # Errors
    /// How long to wait.
    pub fn create(&self, now: Timestamp, n: usize) -> Result<(), Duration> {
        lock(&self.claims).take(now, u32::try_from(n).unwrap_or(u32::MAX))
    }

    /// How long until `n` NodeClaims, or as many of them as are worth a pass, may be created.
    pub fn until_created(&self, now: Timestamp, n: usize) -> Duration {
        let mut bucket = *lock(&self.claims);
        bucket.take(now, u32::try_from(n).unwrap_or(u32::MAX).min(GATHERED)).err().unwrap_or_default()
    }

    /// Returns the token of a NodeClaim that was not created.
    pub fn not_created(&self) {
        lock(&self.claims).give_back();
    }

    /// Reserves an eviction. Reservations are in order: a caller that returns at its reserved time need not ask again.
    pub fn evict(&self, now: Timestamp) -> Duration {
        lock(&self.evictions).owe(now)
    }

    /// Returns the token of an eviction that a disruption budget refused.
    pub fn not_evicted(&self) {
        lock(&self.evictions).give_back();
    }

    /// Reserves a retried eviction of a pod that a disruption budget refused. Retries never delay first evictions.
    pub fn try_again(&self, now: Timestamp) -> Duration {
        lock(&self.tries_again).owe(now)
    }

    /// Counts the eviction of a pod that a disruption budget had refused before.
    pub fn evicted_after_all(&self, now: Timestamp) {
        lock(&self.evictions).owe(now);
    }
}

fn lock(bucket: &Mutex<TokenBucket>) -> MutexGuard<'_, TokenBucket> {
    // A panic leaves no bucket half changed.
    bucket.lock().unwrap_or_else(PoisonError::into_inner)
}
