//! The clock of one operator: it may be wrong by any amount and jump, while time passes at the normal rate.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use fleetwright_core::clock::Clock;
use jiff::{SignedDuration, Timestamp};

use crate::clock::TokioClock;

/// A simulator's clock with an error in milliseconds. Clones share the error.
#[derive(Clone, Debug)]
pub(super) struct SkewedClock {
    right: TokioClock,
    off_ms: Arc<AtomicI64>,
}

impl SkewedClock {
    pub(super) fn new(right: TokioClock) -> Self {
        Self { right, off_ms: Arc::default() }
    }

    /// Sets the error.
    pub(super) fn set(&self, off: SignedDuration) {
        let off_ms = i64::try_from(off.as_millis()).unwrap_or(0);
        self.off_ms.store(off_ms, Ordering::Relaxed);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let right = self.right.now();
        let off = SignedDuration::from_millis(self.off_ms.load(Ordering::Relaxed));
        right.checked_add(off).unwrap_or(right)
    }

    fn steady(&self) -> Timestamp {
        self.right.steady()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.right.sleep(duration)
    }
}
