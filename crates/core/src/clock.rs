//! The seam to time: the only way in which async code of this workspace learns the time or waits.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use jiff::{
    SignedDuration, Timestamp,
    fmt::friendly::{Spacing, SpanPrinter},
};

mod jumps;

pub use jumps::{JUMP, Jumps, REST};

/// A duration as people write it in a manifest: `24h`, `1h30m`, `45s`; whole seconds, and `0s` for less than one.
#[must_use]
pub fn written(duration: Duration) -> String {
    let seconds = SignedDuration::from_secs(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX));
    SpanPrinter::new().spacing(Spacing::None).duration_to_string(&seconds)
}

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

#[cfg(test)]
mod tests {
    //! How durations are written.
    use super::*;

    #[test]
    fn durations_are_written_as_in_manifests() {
        let shown = |seconds| written(Duration::from_secs(seconds));
        assert_eq!(
            [0, 45, 60, 5400, 86_400, 90_061].map(shown),
            ["0s", "45s", "1m", "1h30m", "24h", "25h1m1s"]
        );
        assert_eq!(written(Duration::from_millis(1999)), "1s");
        assert!(written(Duration::MAX).ends_with('s'));
    }
}
