//! The wall clock as controllers read it: each read is compared with the steady clock.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fleetwright_core::clock::{Clock, Jumps, REST};
use jiff::Timestamp;

use crate::metrics::{Metrics, runtime as families};

/// A comparison of the clocks is skipped if the steady clock advances by more than this between its two reads: the thread
/// was suspended in between. The next read compares again.
const ONE_MOMENT: Duration = Duration::from_secs(1);

/// Detects jumps of the wall clock.
pub(super) struct Times {
    metrics: Arc<Metrics>,
    jumps: Mutex<Jumps>,
}

impl Times {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, jumps: Mutex::default() }
    }

    /// The current time of the wall clock of `clock`.
    pub(super) fn now(&self, clock: &dyn Clock) -> Timestamp {
        // Read under the lock: reads that overtake each other would look like jumps there and back.
        let mut jumps = self.jumps.lock().unwrap_or_else(PoisonError::into_inner);
        let before = clock.steady();
        let wall = clock.now();
        let steady = clock.steady();
        if steady.duration_since(before).unsigned_abs() > ONE_MOMENT {
            return wall;
        }
        if let Some(by) = jumps.look(wall, steady) {
            self.metrics.inc(&families::CLOCK_JUMPS, &[]);
            let by = format!("{by:#}");
            tracing::warn!(%by, rest = ?REST, "the wall clock jumped: expiration and disruption are suspended");
        }
        wall
    }

    /// How long decisions that depend on the wall clock remain suspended; `None` if they are not.
    pub(super) fn rest(&self, clock: &dyn Clock) -> Option<Duration> {
        let _ = self.now(clock);
        self.jumps.lock().unwrap_or_else(PoisonError::into_inner).rest(clock.steady())
    }
}
