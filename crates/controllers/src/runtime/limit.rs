//! How fast failed keys come back: exponential delays per key and a token bucket per controller, on our clock.

use std::time::Duration;

use jiff::Timestamp;

/// Delays of one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The delay after the first failure of a key; doubles with each further one.
    pub base: Duration,
    /// The longest delay.
    pub max: Duration,
    /// How many delayed keys per second come back over time.
    pub per_second: u32,
    /// How many may come back at once.
    pub burst: u32,
}

impl RateLimit {
    /// controller-runtime's: 5 ms to 1000 s, 10 per second, 100 at once.
    pub const DEFAULT: Self = Self::new(Duration::from_millis(5), Duration::from_secs(1000), 10, 100);
    /// 100 ms to 1 minute, 10 per second, 100 at once.
    pub const REASONABLE: Self = Self::new(Duration::from_millis(100), Duration::from_secs(60), 10, 100);

    /// Delays from `base` to `max`, and a bucket.
    #[must_use]
    pub const fn new(base: Duration, max: Duration, per_second: u32, burst: u32) -> Self {
        Self { base, max, per_second, burst }
    }

    /// The delay after so many failures in a row.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

/// A token bucket: how long the next taker must wait. Never refuses; the wait grows with the demand.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    interval: Duration,
    burst: Duration,
    /// When the bucket would be full again.
    full_at: Timestamp,
}

impl Bucket {
    /// A full bucket of `burst` tokens that refills by `per_second`.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, burst: interval.saturating_mul(burst.max(1)), full_at: Timestamp::MIN }
    }

    /// Takes a token and says how long to wait for it.
    pub fn take(&mut self, now: Timestamp) -> Duration {
        let empty_for = self.full_at.max(now);
        self.full_at = empty_for.checked_add(self.interval).unwrap_or(Timestamp::MAX);
        let owed = Duration::try_from(self.full_at.duration_since(now)).unwrap_or_default();
        owed.saturating_sub(self.burst)
    }

    /// Takes a token if there is one now.
    pub fn try_take(&mut self, now: Timestamp) -> bool {
        let before = *self;
        if self.take(now).is_zero() {
            return true;
        }
        *self = before;
        false
    }
}

#[cfg(test)]
mod tests {
    //! Delays and buckets.
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let limit = RateLimit::REASONABLE;
        let delays: Vec<u128> =
            [1, 2, 3, 10, 11, 40, u32::MAX].map(|failures| limit.delay(failures).as_millis()).into();
        assert_eq!(delays, [100, 200, 400, 51_200, 60_000, 60_000, 60_000]);
    }

    #[test]
    fn a_bucket_gives_its_burst_then_its_rate() {
        let mut bucket = Bucket::new(10, 3);
        let now = Timestamp::UNIX_EPOCH;
        let waits: Vec<u128> = (0..5).map(|_| bucket.take(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        assert!(!bucket.try_take(now));
        assert!(bucket.try_take(now + Duration::from_secs(10)));
        assert!(bucket.take(now + Duration::from_secs(20)).is_zero());
    }
}
