//! Virtual time over tokio's, fast-forwarding if that is paused.

use std::{future::Future, pin::Pin, time::Duration};

use fleetwright_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock that starts at `origin` and runs as tokio's time.
///
/// With paused tokio time it is a virtual clock: it stands still while any task can run, and advances to the next timer otherwise.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Timestamp,
    start: Instant,
}

impl TokioClock {
    /// A clock that starts at `origin`, now.
    #[must_use]
    pub fn new(origin: Timestamp) -> Self {
        Self { origin, start: Instant::now() }
    }

    /// Virtual time since the origin.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        self.origin.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
