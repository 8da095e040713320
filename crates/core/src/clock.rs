//! The seam to time: the only way in which async code of this workspace learns the time or waits.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use jiff::Timestamp;

mod jumps;

pub use jumps::{JUMP, Jumps, REST};

/// A clock that can be read and waited on.
///
/// Production reads the wall clock; the simulator and the demo run a virtual one, many times faster.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;

    /// The present moment on a clock that nobody sets, from a start that means nothing: for how long ago something was, where
    /// a jump of [`Self::now`] must not make it longer ago. The same clock, where that cannot jump.
    fn steady(&self) -> Timestamp {
        self.now()
    }

    /// Completes when `duration` has passed on this clock.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A shared clock, as every loop holds it.
pub type SharedClock = Arc<dyn Clock>;
