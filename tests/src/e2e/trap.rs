//! Traps for calls that change something: each kind of change is held once before it has an effect and once after.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::change::Change;

/// On which side of its effect a call is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The server does not receive the request.
    Before,
    /// The server executes the request, and the caller does not receive the answer.
    After,
}

/// The handling of a change by the traps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is forwarded.
    Passes,
    /// It is caught.
    Held(Side),
    /// Another one is caught: this one never gets anywhere.
    Waits,
}

/// Traps that several proxies share. Only one closes at a time: its prey is killed before the next may close, and gets
/// nothing else done meanwhile.
#[derive(Clone, Default)]
pub(crate) struct Traps(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<TrapState>,
    closed: Notify,
}

#[derive(Default)]
struct TrapState {
    armed: bool,
    /// The only change that is held, if not each.
    only: Option<&'static str>,
    /// How often each kind of change was held.
    held: BTreeMap<String, u8>,
    closing: Option<(String, Side)>,
    /// Whether the call is held, and no longer on its way to the server.
    closed: bool,
}

impl Traps {
    fn state(&self) -> MutexGuard<'_, TrapState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on changes are held.
    pub(crate) fn arm(&self) {
        self.state().armed = true;
    }

    /// From now on this change is held, and no other.
    pub(crate) fn arm_for(&self, change: &'static str) {
        let mut state = self.state();
        state.armed = true;
        state.only = Some(change);
    }

    /// What is to become of this change.
    pub(super) fn meet(&self, change: &Change) -> Fate {
        let mut state = self.state();
        if !state.armed || !change.is_of_instance() {
            return Fate::Passes;
        }
        if state.closing.is_some() {
            return Fate::Waits;
        }
        let what = change.to_string();
        if state.only.is_some_and(|only| only != what) {
            return Fate::Passes;
        }
        let held = state.held.entry(what.clone()).or_default();
        let side = match *held {
            0 => Side::Before,
            1 => Side::After,
            _ => return Fate::Passes,
        };
        *held += 1;
        state.closing = Some((what, side));
        Fate::Held(side)
    }

    /// Holds the caller for ever: it is about to be killed, which ends this.
    pub(super) async fn close<T>(&self) -> T {
        self.state().closed = true;
        self.0.closed.notify_one();
        match std::future::pending::<Infallible>().await {}
    }

    /// Waits until a trap has closed.
    pub(crate) async fn closed(&self) {
        while !self.state().closed {
            self.0.closed.notified().await;
        }
    }

    /// Opens the trap that has closed, after the caller was killed, and returns what it held.
    pub(crate) fn open(&self) -> Option<(String, Side)> {
        let mut state = self.state();
        state.closed = false;
        state.closing.take()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::Value;

    use super::*;

    fn launch() -> Change {
        Change::of(&Method::POST, "/launch", &Value::Null).unwrap()
    }

    #[test]
    fn a_change_is_held_before_then_after_then_never() {
        let traps = Traps::default();
        assert_eq!(traps.meet(&launch()), Fate::Passes, "traps have to be armed");
        traps.arm();
        assert_eq!(traps.meet(&launch()), Fate::Held(Side::Before));
        assert_eq!(traps.meet(&launch()), Fate::Waits, "one at a time");
        assert_eq!(traps.open(), Some(("launch".to_owned(), Side::Before)));
        assert_eq!(traps.meet(&launch()), Fate::Held(Side::After));
        traps.open();
        assert_eq!(traps.meet(&launch()), Fate::Passes);
        let other = Traps::default();
        other.arm_for("terminate");
        assert_eq!(other.meet(&launch()), Fate::Passes);
        assert_eq!(traps.open(), None);
    }
}
