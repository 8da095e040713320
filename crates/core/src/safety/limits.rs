//! The recent acts of this process, as the limits count them.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::{Act, Facts, Held, Limit, RemovalWindow, admit, limits_of};
use crate::rate::TokenBucket;

/// A rate: tokens at once, and tokens per second over time.
pub type Rate = (u32, u32);

/// NodeClaims that are created.
const CREATIONS: Rate = (1000, 50);
/// Pods that are evicted.
const EVICTIONS: Rate = (500, 100);
/// A wait for the creation of many NodeClaims lasts until this many may be created.
const CREATIONS_AT_ONCE: u32 = 250;

/// What limits count. It belongs to the process: a restart forgets it, and windows in parts take that into account.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long disruption and expiration are suspended from the first attempt on, and when that was.
    startup_delay: Duration,
    began: Option<Timestamp>,
    windows: BTreeMap<Limit, RemovalWindow>,
    creations: TokenBucket,
    evictions: TokenBucket,
    retried_evictions: TokenBucket,
}

impl Default for Limits {
    fn default() -> Self {
        Self::with_rates(CREATIONS, EVICTIONS)
    }
}

impl Limits {
    /// Nothing done yet; NodeClaims are created and pods evicted at these rates.
    #[must_use]
    pub fn with_rates(creations: Rate, evictions: Rate) -> Self {
        let windows =
            Limit::ALL.into_iter().filter_map(|limit| Some((limit, RemovalWindow::new(limit.share()?))));
        let full = |(burst, per_second)| TokenBucket::new(burst, per_second);
        Self {
            startup_delay: Duration::ZERO,
            began: None,
            windows: windows.collect(),
            creations: full(creations),
            evictions: full(evictions),
            retried_evictions: full(EVICTIONS),
        }
    }

    /// Suspends disruption and expiration for `delay`, from the first attempt of either on.
    #[must_use]
    pub fn with_startup_delay(self, delay: Duration) -> Self {
        Self { startup_delay: delay, ..self }
    }

    /// Admits `act` and counts it.
    ///
    /// # Errors
    /// The limit that holds it. Nothing is counted then.
    pub fn take(&mut self, act: Act, facts: &Facts<'_>, now: Timestamp) -> Result<(), Held> {
        self.begin(act, now);
        admit(act, facts, self, now)?;
        for limit in limits_of(act) {
            if let Some(window) = self.windows.get_mut(limit) {
                window.count(facts.subject, now);
            }
        }
        if act == Act::CreateClaim {
            // Admitted: the tokens are there.
            let _ = self.creations.take(now, tokens(facts.count));
        }
        Ok(())
    }

    /// Notes that this process does acts of this kind from `now` on, unless it does so already.
    pub fn begin(&mut self, act: Act, now: Timestamp) {
        for limit in limits_of(act) {
            if *limit == Limit::StartupDelay {
                self.began.get_or_insert(now);
            }
            if let Some(window) = self.windows.get_mut(limit) {
                window.begin(now);
            }
        }
    }

    /// How many acts of this kind the windows let through, of `all` objects.
    #[must_use]
    pub fn room(&self, act: Act, all: usize, now: Timestamp) -> usize {
        let windows = limits_of(act).iter().filter_map(|limit| self.windows.get(limit));
        windows.map(|window| window.room(all, now)).min().unwrap_or(usize::MAX)
    }

    /// What holds acts of this kind beyond [`Self::room`].
    #[must_use]
    pub fn beyond_room(&self, act: Act, now: Timestamp) -> Option<Held> {
        let limit = limits_of(act).iter().find(|limit| self.windows.contains_key(limit))?;
        let window = self.windows.get(limit)?;
        Some(Held::Share { limit: *limit, share: window.share(), left: window.again(now) })
    }

    /// How long until the windows may let through more acts of this kind.
    #[must_use]
    pub fn again(&self, act: Act, now: Timestamp) -> Option<Duration> {
        limits_of(act).iter().filter_map(|limit| self.windows.get(limit)?.again(now)).max()
    }

    /// Gives back the token of a NodeClaim that was not created.
    pub fn not_created(&mut self) {
        self.creations.give_back();
    }

    /// How long until `count` NodeClaims may be created, or as many of them as are worth a pass.
    #[must_use]
    pub fn until_created(&self, count: usize, now: Timestamp) -> Duration {
        self.creations.clone().take(now, tokens(count).min(CREATIONS_AT_ONCE)).err().unwrap_or_default()
    }

    /// How long until a pod's turn to be evicted, which it takes. Turns are given in order. Pods that a PodDisruptionBudget
    /// blocked before are `retried`: their tries have a bucket of their own, so that they delay no other pod.
    pub fn eviction_turn(&mut self, retried: bool, now: Timestamp) -> Duration {
        if retried { self.retried_evictions.owe(now) } else { self.evictions.owe(now) }
    }

    /// A PodDisruptionBudget blocked an eviction: its token is given back.
    pub fn eviction_blocked(&mut self) {
        self.evictions.give_back();
    }

    /// A retried eviction succeeded: it counts like any other.
    pub fn retry_succeeded(&mut self, now: Timestamp) {
        self.evictions.owe(now);
    }

    /// How much longer the delay after the start lasts; `None` if it is over.
    pub(super) fn startup_wait(&self, now: Timestamp) -> Option<Duration> {
        let since = now.duration_since(self.began.unwrap_or(now)).unsigned_abs();
        self.startup_delay.checked_sub(since).filter(|left| !left.is_zero())
    }

    pub(super) fn window(&self, limit: Limit) -> Option<&RemovalWindow> {
        self.windows.get(&limit)
    }

    pub(super) fn creation_wait(&self, count: usize, now: Timestamp) -> Option<Duration> {
        self.creations.clone().take(now, tokens(count)).err()
    }
}

fn tokens(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
