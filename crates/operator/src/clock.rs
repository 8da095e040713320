//! The wall clock: the one place of the workspace that asks the operating system for the time.

use std::{future::Future, pin::Pin, time::Duration};

use fleetwright_core::clock::Clock;
use jiff::Timestamp;

/// Real time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam that everybody else goes through")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
