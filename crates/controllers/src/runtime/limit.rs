//! Rate limit of failed keys: exponential backoff per key and a token bucket per controller, on our clock.

use std::time::Duration;

/// The rate limit of one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The delay after the first failure of a key; doubles with each further one.
    pub base: Duration,
    /// The longest delay.
    pub max: Duration,
    /// Sustained rate of retried keys per second.
    pub per_second: u32,
    /// Burst of retried keys.
    pub burst: u32,
}

impl RateLimit {
    /// As controller-runtime: 5 ms to 1000 s, 10 per second, burst 100.
    pub const DEFAULT: Self = Self::new(Duration::from_millis(5), Duration::from_secs(1000), 10, 100);
    /// 100 ms to 1 minute, 10 per second, burst 100.
    pub const REASONABLE: Self = Self::new(Duration::from_millis(100), Duration::from_secs(60), 10, 100);

    /// Delays from `base` to `max`, and a bucket.
    #[must_use]
    pub const fn new(base: Duration, max: Duration, per_second: u32, burst: u32) -> Self {
        Self { base, max, per_second, burst }
    }

    /// The delay after `failures` consecutive failures.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    //! Delays.
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let limit = RateLimit::REASONABLE;
        let delays: Vec<u128> =
            [1, 2, 3, 10, 11, 40, u32::MAX].map(|failures| limit.delay(failures).as_millis()).into();
        assert_eq!(delays, [100, 200, 400, 51_200, 60_000, 60_000, 60_000]);
    }
}
