//! A brake on terminations that nobody ordered one by one: what is concluded from conditions, lists or silence may be wrong
//! for all nodes at once, so only a share of them goes within a while.
//!
//! What went is remembered by the process alone. So that a restart, or another leader, does not release the brake, a share
//! may be let go in parts, each in its own part of the window: a process that begins takes the part that it is in for used
//! up. However often processes change, no window holds more than the share then, and none has to write anything down.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use jiff::Timestamp;

use super::remaining;
use crate::model::Str;

/// The while in which no more than the share goes.
pub const WINDOW: Duration = Duration::from_secs(10 * 60);

/// How many nodes may end within [`WINDOW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// So many percent of all, rounded up.
    pub percent: usize,
    /// And so many at least.
    pub few: usize,
    /// In how many parts they are let go. With one they may go all at once, and a restart releases the brake.
    pub parts: u32,
}

impl Share {
    /// Of nodes that were nodes once: repair, garbage collection.
    pub const NODES: Self = Self { percent: 5, few: 3, parts: 3 };
    /// Of nodes that the cloud calls impaired: their drain has no time, so that no budget of pods holds it back.
    pub const IMPAIRED: Self = Self { percent: 5, few: 3, parts: 1 };
    /// Of nodes that reach their age: what was born together does not die together.
    pub const EXPIRED: Self = Self { percent: 10, few: 10, parts: 1 };
    /// Of nodes that never joined. Nothing runs on them, but they may be about to join: a scale-up that the API server or
    /// the network held up must not end as a whole.
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

/// Counts what was let through.
#[derive(Clone, Debug)]
pub struct Brake {
    share: Share,
    /// Since when this process acts.
    begun: Option<Timestamp>,
    released: VecDeque<Timestamp>,
    known: BTreeSet<Str>,
}

impl Brake {
    /// Has let nothing through yet.
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self { share, begun: None, released: VecDeque::new(), known: BTreeSet::new() }
    }

    /// Notes that this process acts, where it is not known yet: what others let through, they did before.
    pub fn begin(&mut self, now: Timestamp) {
        self.begun.get_or_insert(now);
    }

    /// How many of `all` nodes may go at `now`.
    pub fn room(&mut self, all: usize, now: Timestamp) -> usize {
        self.begin(now);
        let part = self.share.part();
        while self.released.front().is_some_and(|then| remaining(*then, part, now).is_none()) {
            self.released.pop_front();
        }
        if self.is_beginning(now) {
            return 0;
        }
        self.share.part_of(all).saturating_sub(self.released.len())
    }

    /// How long until there may be more room; `None` where nothing takes it up.
    #[must_use]
    pub fn again(&self, now: Timestamp) -> Option<Duration> {
        let begun = self.begun.filter(|_| self.is_beginning(now));
        let since = begun.or_else(|| self.released.front().copied());
        remaining(since?, self.share.part(), now)
    }

    /// Counts a node that goes at `now`.
    pub fn count(&mut self, now: Timestamp) {
        self.released.push_back(now);
    }

    /// Whether one more node of `all` may go at `now`; counts it, once per name. One that was let through before is let
    /// through again.
    pub fn passes(&mut self, name: &str, all: usize, now: Timestamp) -> bool {
        let room = self.room(all, now);
        if self.released.is_empty() {
            self.known.clear();
        }
        if self.known.contains(name) {
            return true;
        }
        if room == 0 {
            return false;
        }
        self.count(now);
        self.known.insert(name.into());
        true
    }

    /// Whether what an earlier process let through may still count.
    fn is_beginning(&self, now: Timestamp) -> bool {
        let begun = self.begun.unwrap_or(now);
        self.share.parts > 1 && remaining(begun, self.share.part(), now).is_some()
    }
}

#[cfg(test)]
mod tests {
    //! How many, how soon again, and who remembers.
    use jiff::SignedDuration;

    use super::*;
    use crate::testing::now;

    fn at(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn the_brake_lets_a_few_through_at_a_time() {
        let mut brake = Brake::new(Share { percent: 5, few: 3, parts: 1 });
        let passes = |brake: &mut Brake, node: &str, minutes: i64| brake.passes(node, 20, at(60 * minutes));
        assert!(["a", "b", "c"].iter().all(|node| passes(&mut brake, node, 0)));
        assert!(!passes(&mut brake, "d", 9));
        assert!(passes(&mut brake, "a", 9), "asked again, for the same node");
        assert!(passes(&mut brake, "d", 10));
    }

    #[test]
    fn a_share_goes_in_parts() {
        let mut brake = Brake::new(Share::NODES);
        assert_eq!((brake.room(1000, at(0)), brake.again(at(0))), (0, Some(Duration::from_secs(200))));
        assert!(!brake.passes("a", 20, at(199)), "another process may have let three through");
        assert_eq!((brake.room(1000, at(200)), brake.again(at(200))), (16, None));
        assert!(brake.passes("a", 20, at(200)) && !brake.passes("b", 20, at(399)));
        assert_eq!(brake.again(at(399)), Some(Duration::from_secs(1)));
        assert!(brake.passes("b", 20, at(400)));
    }

    #[test]
    fn no_window_holds_more_than_the_share_however_often_processes_change() {
        for life in [150, 201, 250, 333, 599, 601, 5000] {
            let (mut brake, mut gone) = (Brake::new(Share::NODES), Vec::new());
            for second in 0..5000 {
                if second % life == 0 {
                    brake = Brake::new(Share::NODES);
                }
                brake.begin(at(second));
                if brake.passes(&second.to_string(), 20, at(second)) {
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
