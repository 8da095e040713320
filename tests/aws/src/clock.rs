//! The wall clock, with time that a case may let pass at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fleetwright_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};

/// Real time, set forward by what cases have let pass.
#[derive(Debug, Default)]
pub(crate) struct Forward(Mutex<SignedDuration>);

impl Forward {
    /// Returns to real time.
    pub(crate) fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = SignedDuration::ZERO;
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, by: SignedDuration) {
        let mut ahead = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead = ahead.saturating_add(by);
    }
}

impl Clock for Forward {
    #[expect(clippy::disallowed_methods, reason = "moto lives in real time, so the tier does")]
    fn now(&self) -> Timestamp {
        let ahead = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Timestamp::now().checked_add(ahead).unwrap_or(Timestamp::MAX)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
