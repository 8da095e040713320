//! How fast the virtual time of a simulator passes.
//!
//! Time is virtual at any pace: it stands still while the simulator works, and between two steps while the wall clock catches up. The same
//! seed therefore plays the same story, however fast and however busy the computer is.

use std::{pin::Pin, time::Duration};

use fleetwright_core::clock::Clock as _;
use fleetwright_sim::{
    Simulator,
    simulator::{served_runtime, virtual_runtime},
};
use tokio::runtime::Runtime;

use crate::clock::{self, SystemClock};

/// How often keys are looked for, by the wall clock.
pub(crate) const KEYS_EVERY: Duration = Duration::from_millis(50);

/// A pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// As fast as possible, without I/O.
    Fastest,
    /// At most so many times as fast as the wall clock.
    Times(f64),
}

impl Pace {
    /// A runtime for simulators at this pace.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(crate) fn runtime(self) -> std::io::Result<Runtime> {
        match self {
            Self::Fastest => virtual_runtime(),
            Self::Times(_) => served_runtime(),
        }
    }

    /// Lets time pass in a simulator, and looks for keys meanwhile; `false` if a key or a signal ended it.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) async fn run_for(
        self,
        simulator: &Simulator,
        duration: Duration,
        mut ended: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
        mut keys: impl AsyncFnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        let Self::Times(speed) = self else {
            simulator.run_for(duration).await;
            return Ok(true);
        };
        let (mut left, mut worked) = (duration, Duration::ZERO);
        while !left.is_zero() {
            let step = left.min(KEYS_EVERY.mul_f64(speed));
            // Before the step: what the caller does after it comes before all else that is due at its end, as without a pace.
            tokio::select! {
                biased;
                () = ended.as_mut() => return Ok(false),
                () = clock::wait(step.div_f64(speed).saturating_sub(worked)) => {}
            }
            if !keys().await? {
                return Ok(false);
            }
            let started = SystemClock.now();
            simulator.run_for(step).await;
            worked = Duration::try_from(SystemClock.now().duration_since(started)).unwrap_or_default();
            left = left.saturating_sub(step);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    //! What comes first at the end of a step.
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use fleetwright_sim::SimulatorConfig;

    use super::*;

    #[test]
    fn at_any_pace_the_caller_comes_before_all_else_that_is_due() {
        const STEP: Duration = Duration::from_secs(5);
        for pace in [Pace::Fastest, Pace::Times(1_000.0)] {
            pace.runtime().unwrap().block_on(async {
                let mut config = SimulatorConfig::new(1, jiff::Timestamp::UNIX_EPOCH);
                config.controllers = false;
                let simulator = Simulator::new(config).await.unwrap();
                let (due, clock) = (Arc::new(AtomicBool::new(false)), simulator.clock());
                let seen = due.clone();
                tokio::spawn(async move {
                    clock.sleep(STEP).await;
                    due.store(true, Ordering::Relaxed);
                });
                let never = std::pin::pin!(std::future::pending());
                assert!(pace.run_for(&simulator, STEP, never, async || Ok(true)).await.unwrap());
                assert_eq!((simulator.elapsed(), seen.load(Ordering::Relaxed)), (STEP, false), "{pace:?}");
            });
        }
    }
}
