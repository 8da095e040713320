//! A token bucket on the cloud's clock, in thousandths of a token.

use jiff::Timestamp;

use super::config::Rate;

/// The tokens of one class of calls.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    milli: u64,
    filled_at: Timestamp,
}

impl Bucket {
    pub(super) fn new(rate: Rate, now: Timestamp) -> Self {
        Self { rate, milli: u64::from(rate.burst) * 1000, filled_at: now }
    }

    /// Takes a token, or returns the milliseconds until the next one.
    pub(super) fn take(&mut self, now: Timestamp) -> Result<(), u64> {
        let passed = now.duration_since(self.filled_at).as_millis();
        let passed = u64::try_from(passed).unwrap_or(0);
        // A rate per second equals as many thousandths per millisecond.
        let gained = passed.saturating_mul(u64::from(self.rate.per_second));
        self.milli = self.milli.saturating_add(gained).min(u64::from(self.rate.burst) * 1000);
        self.filled_at = self.filled_at.max(now);
        if self.milli >= 1000 {
            self.milli -= 1000;
            return Ok(());
        }
        Err((1000 - self.milli).div_ceil(u64::from(self.rate.per_second).max(1)))
    }
}

#[cfg(test)]
mod tests {
    //! A burst passes; further calls wait.
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_applies() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let mut bucket = Bucket::new(Rate { burst: 2, per_second: 2 }, at(0));
        assert_eq!([bucket.take(at(0)), bucket.take(at(0)), bucket.take(at(0))], [Ok(()), Ok(()), Err(500)]);
        assert_eq!(bucket.take(at(499)), Err(1));
        assert_eq!(bucket.take(at(500)), Ok(()));
        // A clock that stands still or is set back adds no tokens.
        assert_eq!(bucket.take(at(400)), Err(500));
    }
}
