//! Clocks for tests.

use std::{future::Future, pin::Pin, time::Duration};

use fleetwright_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// A clock that a test moves by hand.
pub(crate) struct ManualClock(watch::Sender<Timestamp>);

impl ManualClock {
    /// A clock that stands at a round date.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new("2026-01-01T00:00:00Z".parse().unwrap()))
    }

    /// Moves it on.
    pub(crate) fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now = now.checked_add(SignedDuration::try_from(by).unwrap()).unwrap());
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut time = self.0.subscribe();
        let due =
            self.now().checked_add(SignedDuration::try_from(duration).unwrap()).unwrap_or(Timestamp::MAX);
        Box::pin(async move {
            // The clock outlives its sleepers.
            let _ = time.wait_for(|now| *now >= due).await;
        })
    }
}
