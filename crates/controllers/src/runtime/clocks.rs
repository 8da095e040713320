//! The clocks of the controllers: each read of the wall clock is compared with the steady clock.

use std::{future::Future, sync::Arc, time::Duration};

use fleetwright_core::clock::{Jumps, REST, SharedClock};
use jiff::Timestamp;

use super::shared::Shared;
use crate::metrics::{Metrics, runtime as families};

/// A comparison of the clocks is skipped if the steady clock advances by more than this between its two reads: the thread
/// was suspended in between. The next read compares again.
const MAX_READ_GAP: Duration = Duration::from_secs(1);

/// The wall clock and the steady clock. Clones share the jumps that were detected.
#[derive(Clone)]
pub struct Clocks {
    clock: SharedClock,
    metrics: Arc<Metrics>,
    jumps: Shared<Jumps>,
}

impl Clocks {
    pub(super) fn new(clock: SharedClock, metrics: Arc<Metrics>) -> Self {
        Self { clock, metrics, jumps: Shared::default() }
    }

    /// The clock itself.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// The current time of the wall clock. Each call also checks whether the wall clock jumped.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        // Read under the lock: concurrent reads out of order would look like two jumps.
        let mut jumps = self.jumps.lock();
        let before = self.clock.steady();
        let wall = self.clock.now();
        let steady = self.clock.steady();
        if steady.duration_since(before).unsigned_abs() > MAX_READ_GAP {
            return wall;
        }
        if let Some(by) = jumps.look(wall, steady) {
            self.metrics.inc(&families::CLOCK_JUMPS, &[]);
            let by = format!("{by:#}");
            tracing::warn!(%by, rest = ?REST, "the wall clock jumped: expiration and disruption are suspended");
        }
        wall
    }

    /// The current time of the steady clock: see [`fleetwright_core::clock::Clock::steady`].
    #[must_use]
    pub fn steady(&self) -> Timestamp {
        self.clock.steady()
    }

    /// How long decisions that depend on the wall clock (ages, schedules, windows) remain suspended after it jumped; `None`
    /// if they are not suspended.
    #[must_use]
    pub fn wall_clock_cool_down(&self) -> Option<Duration> {
        let _ = self.now();
        self.jumps.lock().rest(self.clock.steady())
    }

    /// Waits.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.clock.sleep(duration)
    }

    /// Waits for `future`, at most until `deadline`.
    pub async fn within<T>(&self, deadline: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.sleep(deadline) => None,
        }
    }
}
