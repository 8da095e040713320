//! Liveness of the loops of this process, as reported by `/healthz`.
//!
//! A loop is alive while it iterates, whether or not it finds work; idle loops and loops of a standby iterate too. A worker
//! must also complete its reconciles. A reconcile may wait (for validation, a launch, a list of many pages), but each call to
//! the API server ends after [`super::CALL_DEADLINE`] and each call to a cloud after its provider's own limit: a reconcile
//! that runs for [`STUCK`] waits for something that will not happen, and a restart resolves it.
//!
//! An unreachable API server does not make a loop stuck: watches and calls are retried for ever, and `/readyz` reports them.
//! All times are of the steady clock, see [`super::Clocks::steady`].

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

/// A loop that did not iterate for this long is silent.
pub const SILENT: Duration = Duration::from_secs(300);
/// A reconcile that runs for this long is stuck: three times [`SILENT`], because the longest reconciles (a launch over many
/// failing calls, a series of evictions) take minutes.
pub const STUCK: Duration = Duration::from_secs(900);
/// Every loop iterates at least this often.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(60);

/// The loops that are stuck, and since when.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stuck: {0}")]
pub struct Stuck(String);

/// A loop: its type, and its name.
pub(super) type Loop = (&'static str, Cow<'static, str>);

/// The last signs of life of all loops.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(Mutex<BTreeMap<Loop, Heartbeat>>);

#[derive(Clone, Copy, Debug)]
struct Heartbeat {
    last: Timestamp,
    /// Since when its oldest reconcile runs.
    busy: Option<Timestamp>,
}

impl Heartbeats {
    /// Records an iteration of a loop at `now`, whose oldest reconcile runs since `busy`.
    pub(super) fn beat(&self, of: Loop, now: Timestamp, busy: Option<Timestamp>) {
        let heartbeat = Heartbeat { last: now, busy };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(of, heartbeat);
    }

    /// Records that a loop ended as intended.
    pub(super) fn end(&self, of: &Loop) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(of);
    }

    /// Whether all loops are alive at `now`.
    pub(super) fn check(&self, now: Timestamp) -> Result<(), Stuck> {
        let since = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let mut report = String::new();
        for ((what, name), heartbeat) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let silent = since(heartbeat.last);
            let busy = heartbeat.busy.map(since).unwrap_or_default();
            let comma = if report.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            if silent > SILENT {
                let _ = write!(report, "{comma}{what} {name} has not iterated for {} s", silent.as_secs());
            } else if busy > STUCK {
                let _ = write!(report, "{comma}{what} {name} has been reconciling for {} s", busy.as_secs());
            }
        }
        if report.is_empty() { Ok(()) } else { Err(Stuck(report)) }
    }
}

#[cfg(test)]
impl Heartbeats {
    /// The registered loops.
    pub(super) fn loops(&self) -> Vec<Loop> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    //! Liveness of loops.
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_loop_that_iterates_and_finishes_its_work_is_alive() {
        let heartbeats = Heartbeats::default();
        assert_eq!(heartbeats.check(at(10_000)), Ok(()), "no loop has started");
        heartbeats.beat(("controller", "disruption".into()), at(0), None);
        heartbeats.beat(("controller", "provisioner".into()), at(0), Some(at(0)));
        heartbeats.beat(("watch", "Pod".into()), at(200), None);
        assert_eq!(heartbeats.check(at(300)), Ok(()));
        let report = |now| heartbeats.check(at(now)).map_err(|stuck| stuck.to_string());
        let silent = "controller disruption has not iterated for 301 s";
        assert_eq!(
            report(301),
            Err(format!("stuck: {silent}, controller provisioner has not iterated for 301 s"))
        );
        heartbeats.beat(("controller", "provisioner".into()), at(301), Some(at(0)));
        assert_eq!(report(301), Err(format!("stuck: {silent}")), "a reconcile may take longer");
        heartbeats.end(&("controller", "disruption".into()));
        assert_eq!(report(301), Ok(()), "it ended");
        for now in [900, 901] {
            heartbeats.beat(("controller", "provisioner".into()), at(now), Some(at(0)));
            heartbeats.beat(("watch", "Pod".into()), at(now), None);
        }
        assert_eq!(
            report(901),
            Err("stuck: controller provisioner has been reconciling for 901 s".to_owned())
        );
        heartbeats.beat(("controller", "provisioner".into()), at(901), Some(at(800)));
        assert_eq!(report(901), Ok(()));
    }

    #[test]
    fn two_watches_of_one_kind_are_two_loops() {
        let heartbeats = Heartbeats::default();
        let watch = |group: &str| ("watch", format!("nodeclasses.{group}").into());
        heartbeats.beat(watch("a"), at(0), None);
        heartbeats.beat(watch("b"), at(301), None);
        let report = heartbeats.check(at(301)).map_err(|stuck| stuck.to_string());
        assert_eq!(report, Err("stuck: watch nodeclasses.a has not iterated for 301 s".to_owned()));
    }
}
