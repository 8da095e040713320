//! Virtual time over tokio's: scaled, and fast-forwarding if tokio's time is paused.

use std::{future::Future, pin::Pin, time::Duration};

use fleetwright_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock that starts at `origin` and runs `speed` times as fast as tokio's time.
///
/// With paused tokio time it is a virtual clock: it stands still while any task can run, and advances to the next timer otherwise.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Timestamp,
    start: Instant,
    speed: f64,
}

/// A speed out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("speed {0} is out of range: give a number from 0.001 to 100000")]
pub struct BadSpeed(pub f64);

impl TokioClock {
    /// A clock that starts at `origin`.
    ///
    /// # Errors
    /// If `speed` is not a number from 0.001 to 100,000.
    pub fn new(origin: Timestamp, speed: f64) -> Result<Self, BadSpeed> {
        // Written so that NaN is rejected too.
        if (0.001..=100_000.0).contains(&speed) {
            Ok(Self { origin, start: Instant::now(), speed })
        } else {
            Err(BadSpeed(speed))
        }
    }

    /// Virtual time since the origin.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        scale(self.start.elapsed(), self.speed)
    }

    /// The duration in tokio's time of a duration on this clock.
    #[must_use]
    pub fn real(&self, duration: Duration) -> Duration {
        scale(duration, self.speed.recip())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        self.origin.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(self.real(duration)))
    }
}

/// Multiplies; exact if `by` is one, saturating at the largest duration.
fn scale(duration: Duration, by: f64) -> Duration {
    if by.to_bits() == 1.0_f64.to_bits() {
        return duration;
    }
    Duration::try_from_secs_f64(duration.as_secs_f64() * by).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    //! Speed and bounds.
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_moves_the_clock_by_its_length_at_any_speed() {
        for speed in [1.0, 60.0, 0.5] {
            let clock = TokioClock::new(Timestamp::UNIX_EPOCH, speed).unwrap();
            clock.sleep(Duration::from_secs(600)).await;
            let off = clock.now().duration_since(Timestamp::UNIX_EPOCH).as_secs_f64() - 600.0;
            // Tokio's timers have a resolution of one millisecond.
            assert!((0.0..0.002 * speed.max(1.0)).contains(&off), "{speed}: {off}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn impossible_speeds_are_refused() {
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(TokioClock::new(Timestamp::UNIX_EPOCH, speed).is_err(), "{speed}");
        }
    }
}
