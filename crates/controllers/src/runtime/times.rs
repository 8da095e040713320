//! The wall clock as controllers read it: each look holds it against the steady one.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fleetwright_core::clock::{Clock, Jumps, REST};
use jiff::Timestamp;

use crate::metrics::{Metrics, runtime as families};

/// Two clocks are not read at one moment where the steady one moves by more than this from before to after: the thread, or
/// the node, was held up in between. The next look tells.
const ONE_MOMENT: Duration = Duration::from_secs(1);

/// What is known of the jumps of the wall clock.
pub(super) struct Times {
    metrics: Arc<Metrics>,
    jumps: Mutex<Jumps>,
}

impl Times {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, jumps: Mutex::default() }
    }

    /// The present moment on the wall clock of `clock`.
    pub(super) fn now(&self, clock: &dyn Clock) -> Timestamp {
        // Read under the lock: looks that overtake each other would see jumps there and back.
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
            tracing::warn!(%by, rest = ?REST, "the wall clock jumped: expiration and disruption rest");
        }
        wall
    }

    /// For how long what goes by the wall clock must still rest; `None` where it need not.
    pub(super) fn rest(&self, clock: &dyn Clock) -> Option<Duration> {
        let _ = self.now(clock);
        self.jumps.lock().unwrap_or_else(PoisonError::into_inner).rest(clock.steady())
    }
}
