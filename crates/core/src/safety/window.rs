//! A sliding window that lets through a share of all nodes.
//!
//! What was let through is known to the process only. So that a restart, or another leader, does not reset the window, a
//! share may be let through in parts, each in its own part of the window: a process that begins counts the current part as
//! used up. However often processes change, no window holds more than the share, and nothing has to be written.

use std::{collections::VecDeque, time::Duration};

use jiff::Timestamp;

use crate::{model::Str, rate::remaining};

/// The window in which at most the share is let through.
pub const WINDOW: Duration = Duration::from_secs(10 * 60);

/// How many nodes may be deleted within [`WINDOW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Percent of all, rounded up.
    pub percent: usize,
    /// But at least this many.
    pub few: usize,
    /// In how many parts they are let through. With one, all may pass at once, and a restart resets the window.
    pub parts: u32,
}

impl Share {
    /// Repair and garbage collection, of nodes that were registered.
    pub const NODES: Self = Self { percent: 5, few: 3, parts: 3 };
    /// Nodes that the cloud calls impaired: their drain has no grace period, so that no PodDisruptionBudget slows it down.
    pub const IMPAIRED: Self = Self { percent: 5, few: 3, parts: 1 };
    /// Expiration: nodes that were created together do not expire together.
    pub const EXPIRED: Self = Self { percent: 10, few: 10, parts: 1 };
    /// Nodes that did not register. Nothing runs on them, but they may be about to register: a scale-up that the API server
    /// or the network delays must not be deleted as a whole.
    pub const NEVER_JOINED: Self = Self { percent: 25, few: 10, parts: 1 };

    /// How many of `all`.
    #[must_use]
    pub fn of(self, all: usize) -> usize {
        all.saturating_mul(self.percent).div_ceil(100).max(self.few)
    }

    /// How many of `all` in one part, and at least one: rounded down, so that the parts are no more than the whole.
    fn part_of(self, all: usize) -> usize {
        let parts = usize::try_from(self.parts).unwrap_or(1).max(1);
        (self.of(all) / parts).max(1)
    }

    /// How long a part of [`WINDOW`] is.
    fn part(self) -> Duration {
        WINDOW / self.parts.max(1)
    }
}

/// Counts an admitted act.
#[derive(Clone, Debug)]
pub struct RemovalWindow {
    share: Share,
    /// Since when this process acts.
    begun: Option<Timestamp>,
    /// What was let through, and when: at least that of the current part.
    released: VecDeque<(Timestamp, Str)>,
}

impl RemovalWindow {
    /// Has let nothing through yet.
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self { share, begun: None, released: VecDeque::new() }
    }

    /// The share.
    #[must_use]
    pub fn share(&self) -> Share {
        self.share
    }

    /// Notes that this process acts from `now` on, unless it does so already: other processes acted before.
    pub fn begin(&mut self, now: Timestamp) {
        self.begun.get_or_insert(now);
    }

    /// How many of `all` nodes it lets through at `now`.
    #[must_use]
    pub fn room(&self, all: usize, now: Timestamp) -> usize {
        if self.is_beginning(now) {
            return 0;
        }
        self.share.part_of(all).saturating_sub(self.current(now).count())
    }

    /// Whether it lets through the node `name` out of `all` at `now`. A node that it let through may pass again.
    #[must_use]
    pub fn lets_through(&self, name: &str, all: usize, now: Timestamp) -> bool {
        self.is_known(name, now) || self.room(all, now) > 0
    }

    /// How long until there may be more room; `None` if nothing uses it up.
    #[must_use]
    pub fn again(&self, now: Timestamp) -> Option<Duration> {
        let begun = self.begun.filter(|_| self.is_beginning(now));
        let since = begun.or_else(|| self.current(now).next().map(|(then, _)| *then));
        remaining(since?, self.share.part(), now)
    }

    /// Counts the node `name`, let through at `now`. Within the window it counts once.
    pub fn count(&mut self, name: &str, now: Timestamp) {
        if self.is_known(name, now) {
            return;
        }
        let part = self.share.part();
        while self.released.front().is_some_and(|(then, _)| remaining(*then, part, now).is_none()) {
            self.released.pop_front();
        }
        self.released.push_back((now, name.into()));
    }

    /// What was let through in the current part of the window.
    fn current(&self, now: Timestamp) -> impl Iterator<Item = &(Timestamp, Str)> {
        let part = self.share.part();
        self.released.iter().filter(move |(then, _)| remaining(*then, part, now).is_some())
    }

    fn is_known(&self, name: &str, now: Timestamp) -> bool {
        self.current(now).any(|(_, known)| &**known == name)
    }

    /// Whether what an earlier process let through may still count.
    fn is_beginning(&self, now: Timestamp) -> bool {
        let begun = self.begun.unwrap_or(now);
        self.share.parts > 1 && remaining(begun, self.share.part(), now).is_some()
    }
}

#[cfg(test)]
mod tests {
    //! How many, how soon again, and across restarts.
    use jiff::SignedDuration;

    use super::*;
    use crate::testing::now;

    fn at(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    fn passes(window: &mut RemovalWindow, name: &str, all: usize, at: Timestamp) -> bool {
        window.begin(at);
        let passes = window.lets_through(name, all, at);
        if passes {
            window.count(name, at);
        }
        passes
    }

    #[test]
    fn a_window_lets_a_few_through_at_a_time() {
        let mut window = RemovalWindow::new(Share { percent: 5, few: 3, parts: 1 });
        assert!(["a", "b", "c"].iter().all(|node| passes(&mut window, node, 20, at(0))));
        assert!(!passes(&mut window, "d", 20, at(540)));
        assert!(passes(&mut window, "a", 20, at(540)), "the same node again");
        assert!(passes(&mut window, "d", 20, at(600)));
    }

    #[test]
    fn a_node_of_an_earlier_window_counts_again_while_others_pass() {
        let mut window = RemovalWindow::new(Share { percent: 0, few: 2, parts: 1 });
        assert!(passes(&mut window, "a", 20, at(0)) && passes(&mut window, "b", 20, at(300)));
        assert!(passes(&mut window, "c", 20, at(600)), "the window of a is over");
        assert!(!passes(&mut window, "a", 20, at(610)), "b and c use the window up");
        assert!(passes(&mut window, "a", 20, at(900)) && !passes(&mut window, "d", 20, at(910)));
    }

    #[test]
    fn a_share_passes_in_parts() {
        let mut window = RemovalWindow::new(Share::NODES);
        window.begin(at(0));
        assert_eq!((window.room(1000, at(0)), window.again(at(0))), (0, Some(Duration::from_secs(200))));
        assert!(!passes(&mut window, "a", 20, at(199)), "another process may have let three through");
        assert_eq!((window.room(1000, at(200)), window.again(at(200))), (16, None));
        assert!(passes(&mut window, "a", 20, at(200)) && !passes(&mut window, "b", 20, at(399)));
        assert_eq!(window.again(at(399)), Some(Duration::from_secs(1)));
        assert!(passes(&mut window, "b", 20, at(400)));
    }

    #[test]
    fn no_window_holds_more_than_the_share_however_often_processes_change() {
        for life in [150, 201, 250, 333, 599, 601, 5000] {
            let (mut window, mut gone) = (RemovalWindow::new(Share::NODES), Vec::new());
            for second in 0..5000 {
                if second % life == 0 {
                    window = RemovalWindow::new(Share::NODES);
                }
                if passes(&mut window, &second.to_string(), 20, at(second)) {
                    gone.push(second);
                }
            }
            let fullest =
                gone.iter().map(|end| gone.iter().filter(|one| (0..600).contains(&(end - *one))).count());
            assert!(fullest.max().unwrap_or(0) <= 3, "processes live {life} s: {gone:?}");
            assert_eq!(gone.is_empty(), life < 200, "processes live {life} s");
        }
    }

    #[test]
    fn shares() {
        assert_eq!([0, 60, 61, 1000].map(|all| Share::NODES.of(all)), [3, 3, 4, 50]);
        assert_eq!([0, 40, 41, 1000].map(|all| Share::NEVER_JOINED.of(all)), [10, 10, 11, 250]);
    }
}
