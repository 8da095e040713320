//! The batch window: pods that become pending together are scheduled together.
//!
//! A pure state machine: the window opens with the first pod, and closes after the idle duration without a new pod, or after
//! the maximum duration. A pod that is in the window already does not extend it.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

/// A batch window.
#[derive(Clone, Debug)]
pub struct Batch {
    idle: Duration,
    max: Duration,
    window: Option<Window>,
}

#[derive(Clone, Debug)]
struct Window {
    opened: Timestamp,
    last: Timestamp,
    uids: BTreeSet<String>,
}

impl Batch {
    /// An empty batch whose window closes after `idle` without a new pod, and after `max` at the latest.
    #[must_use]
    pub fn new(idle: Duration, max: Duration) -> Self {
        Self { idle, max, window: None }
    }

    /// Adds a pod or node by its UID.
    pub fn push(&mut self, uid: &str, now: Timestamp) {
        let window =
            self.window.get_or_insert_with(|| Window { opened: now, last: now, uids: BTreeSet::new() });
        if window.uids.insert(uid.to_owned()) {
            window.last = now;
        }
    }

    /// When the window closes; `None` if it is not open.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let window = self.window.as_ref()?;
        let after = |start: Timestamp, wait: Duration| start.checked_add(wait).unwrap_or(Timestamp::MAX);
        Some(after(window.last, self.idle).min(after(window.opened, self.max)))
    }

    /// Closes the window. Returns the number of distinct UIDs in it.
    pub fn take(&mut self) -> usize {
        self.window.take().map_or(0, |window| window.uids.len())
    }
}

#[cfg(test)]
mod tests {
    //! When the window closes.
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn due(pushes: &[(&str, i64)]) -> Option<i64> {
        let mut batch = Batch::new(Duration::from_secs(1), Duration::from_secs(10));
        for (uid, time) in pushes {
            batch.push(uid, at(*time));
        }
        batch.due().map(Timestamp::as_millisecond)
    }

    #[test]
    fn the_idle_duration_closes_the_window() {
        assert_eq!(due(&[]), None);
        assert_eq!(due(&[("a", 0)]), Some(1000));
        assert_eq!(due(&[("a", 0), ("b", 900)]), Some(1900));
    }

    #[test]
    fn a_known_pod_does_not_extend_the_window() {
        assert_eq!(due(&[("a", 0), ("a", 900)]), Some(1000));
    }

    #[test]
    fn the_maximum_duration_closes_the_window() {
        let pushes: Vec<(String, i64)> = (0..40).map(|n| (n.to_string(), n * 500)).collect();
        let pushes: Vec<(&str, i64)> = pushes.iter().map(|(uid, time)| (uid.as_str(), *time)).collect();
        assert_eq!(due(&pushes), Some(10_000));
    }

    #[test]
    fn take_closes_the_window() {
        let mut batch = Batch::new(Duration::from_secs(1), Duration::from_secs(10));
        batch.push("a", at(0));
        batch.push("b", at(1));
        assert_eq!((batch.take(), batch.due(), batch.take()), (2, None, 0));
    }
}
