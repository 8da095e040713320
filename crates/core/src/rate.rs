//! How fast something may be done: token buckets, and delays that do not go in step.

use std::time::Duration;

use fleetwright_kube_semantics::fnv::fnv1a_64;
use jiff::Timestamp;

/// A token bucket: `burst` at once, `per_second` over time.
///
/// Moments are of a clock that nobody sets. Whatever is taken, in any order and at any moments that do not go back, no span of
/// `t` seconds holds more than `burst + t * per_second` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// How long one token takes to come.
    interval: Duration,
    /// How many there are at most.
    burst: u32,
    /// When the bucket would be full again.
    full_at: Timestamp,
}

impl TokenBucket {
    /// A full bucket. Nought counts as one: a bucket that never gives anything would be a loop that stands still.
    #[must_use]
    pub fn new(burst: u32, per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, burst: burst.max(1), full_at: Timestamp::MIN }
    }

    /// Takes `n` tokens, all or none; more than there ever are at once are taken as so many.
    ///
    /// # Errors
    /// How long to wait until they are there, if nobody else takes any.
    pub fn take(&mut self, now: Timestamp, n: u32) -> Result<(), Duration> {
        let after = self.after(now, n.min(self.burst));
        let wait = self.beyond(after, now);
        if wait.is_zero() {
            self.full_at = after;
            return Ok(());
        }
        Err(wait)
    }

    /// Takes a token that may still have to come, and says how long until it does. Never refuses; the wait grows with
    /// the demand, and takers are served in the order in which they asked.
    pub fn owe(&mut self, now: Timestamp) -> Duration {
        self.full_at = self.after(now, 1);
        self.beyond(self.full_at, now)
    }

    /// Gives a token back that was taken and not used.
    pub fn give_back(&mut self) {
        self.full_at = self.full_at.checked_sub(self.interval).unwrap_or(Timestamp::MIN);
    }

    /// When the bucket would be full again, with `n` tokens less.
    fn after(&self, now: Timestamp, n: u32) -> Timestamp {
        self.full_at.max(now).checked_add(self.interval.saturating_mul(n)).unwrap_or(Timestamp::MAX)
    }

    /// How long until a bucket that is full at `full_at` holds no less than nothing.
    fn beyond(&self, full_at: Timestamp, now: Timestamp) -> Duration {
        let owed = Duration::try_from(full_at.duration_since(now)).unwrap_or_default();
        owed.saturating_sub(self.interval.saturating_mul(self.burst))
    }
}

/// How long from `now` until `since + span`; `None` once that has come. A `since` in the future (a clock that was wrong)
/// is taken as it is: the wait is longer, and nothing ends early.
pub(crate) fn remaining(since: Timestamp, span: Duration, now: Timestamp) -> Option<Duration> {
    let end = since.checked_add(span).unwrap_or(Timestamp::MAX);
    let left = Duration::try_from(end.duration_since(now)).ok()?;
    (!left.is_zero()).then_some(left)
}

/// The delay after `failures` failures in a row: `first`, doubled with each further one, `longest` at most.
#[must_use]
pub fn doubled(first: Duration, longest: Duration, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// `delay`, and up to as much again, by who waits (`key`) and for which time: what failed together does not come again
/// together. The same for the same arguments, in every process: who must act together waits under one key.
#[must_use]
pub fn jittered(delay: Duration, key: &str, time: u32) -> Duration {
    let mut hash = fnv1a_64(key.bytes().chain(time.to_le_bytes()));
    // Spreads keys that differ in their last letter alone.
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    let share = u32::try_from(hash % 1000).unwrap_or(0);
    delay.saturating_add(delay.saturating_mul(share) / 1000)
}

#[cfg(test)]
mod tests {
    //! What buckets never give, and how delays spread.
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_750_000_000_000 + milliseconds).unwrap()
    }

    #[test]
    fn a_bucket_gives_its_burst_then_its_rate() {
        let mut bucket = TokenBucket::new(3, 10);
        assert_eq!(bucket.take(at(0), 2), Ok(()));
        assert_eq!(bucket.take(at(0), 2), Err(Duration::from_millis(100)), "all or none");
        assert_eq!(bucket.take(at(0), 1), Ok(()));
        assert_eq!(bucket.take(at(0), 1), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(at(100), 1), Ok(()));
        assert_eq!(bucket.take(at(100), 99), Err(Duration::from_millis(300)), "no more than there ever are");
        assert_eq!(bucket.take(at(400), 99), Ok(()));
    }

    #[test]
    fn what_is_owed_comes_in_order() {
        let mut bucket = TokenBucket::new(3, 10);
        let waits: Vec<u128> = (0..5).map(|_| bucket.owe(at(0)).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        assert_eq!(bucket.take(at(0), 1), Err(Duration::from_millis(300)));
        bucket.give_back();
        assert_eq!(bucket.take(at(0), 1), Err(Duration::from_millis(200)));
    }

    #[test]
    fn the_ends_of_time_do_not_matter() {
        let mut bucket = TokenBucket::new(2, 1);
        assert_eq!(bucket.take(Timestamp::MAX, 2), Ok(()));
        assert_eq!(TokenBucket::new(0, 0).take(Timestamp::MIN, u32::MAX), Ok(()));
        bucket.give_back();
    }

    proptest! {
        /// No span holds more than burst and rate allow, and who waits as long as was said gets what was asked for.
        #[test]
        fn no_span_holds_more(
            burst in 1_u32..20,
            per_second in 1_u32..50,
            asks in proptest::collection::vec((0_i64..400, 1_u32..30), 1..80),
        ) {
            let mut bucket = TokenBucket::new(burst, per_second);
            let mut now = 0;
            let mut taken: Vec<(i64, u32)> = Vec::new();
            for (step, n) in asks {
                now += step;
                match bucket.take(at(now), n) {
                    Ok(()) => taken.push((now, n.min(burst))),
                    Err(wait) => {
                        let mut later = bucket;
                        prop_assert!(later.take(at(now) + wait, n).is_ok());
                        let mut sooner = bucket;
                        let early = wait.saturating_sub(Duration::from_nanos(1));
                        prop_assert!(sooner.take(at(now) + early, n).is_err());
                    }
                }
            }
            for (from, (start, _)) in taken.iter().enumerate() {
                for to in from..taken.len() {
                    let sum: u32 = taken[from..=to].iter().map(|(_, n)| n).sum();
                    let allowed = i64::from(burst) * 1000 + (taken[to].0 - start) * i64::from(per_second);
                    // The interval is a whole number of nanoseconds: a rate of 3 is one of 3.000000009.
                    prop_assert!(i64::from(sum) * 1000 <= allowed + 1, "{sum} tokens, {allowed} thousandths allowed");
                }
            }
        }

        #[test]
        fn jitter_stays_within_once_more(ms in 0_u64..100_000, key in "[a-z0-9-]{0,40}", time: u32) {
            let delay = Duration::from_millis(ms);
            let waited = jittered(delay, &key, time);
            prop_assert!(waited >= delay && waited <= delay * 2);
            prop_assert_eq!(waited, jittered(delay, &key, time));
        }
    }

    #[test]
    fn jitter_spreads_what_failed_together() {
        let second = Duration::from_secs(1);
        let of =
            |time| (0..500).map(|n| jittered(second, &format!("uid-{n}"), time)).collect::<BTreeSet<_>>();
        assert!(of(1).len() > 350, "{} different delays of 500", of(1).len());
        let quarter = of(1).iter().filter(|delay| delay.as_millis() < 1250).count();
        assert!((60..140).contains(&quarter), "{quarter} in the first quarter");
        let both =
            |n: u32| (jittered(second, &format!("uid-{n}"), 1), jittered(second, &format!("uid-{n}"), 2));
        assert!((0..50).filter(|n| both(*n).0 == both(*n).1).count() < 5, "each time is another one");
    }
}
