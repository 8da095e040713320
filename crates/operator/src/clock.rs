//! The wall clock: the only place of the workspace that reads the time of the operating system.

use std::{future::Future, pin::Pin, sync::OnceLock, time::Duration};

use fleetwright_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Waits by the wall clock, also where tokio's time is virtual, which stands still meanwhile.
#[cfg(feature = "lab")]
#[expect(clippy::disallowed_methods, reason = "virtual time is paced by it")]
pub(crate) async fn wait(duration: Duration) {
    // It cannot be cancelled before it starts, and does not panic.
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(duration)).await;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "all other code reads the time through this clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn steady(&self) -> Timestamp {
        static START: OnceLock<(Timestamp, Instant)> = OnceLock::new();
        let (origin, start) = START.get_or_init(|| (self.now(), Instant::now()));
        let passed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
        origin.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
