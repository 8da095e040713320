//! A brake on terminations that are inferred, not ordered: what is concluded from conditions, lists or silence may be wrong
//! for all machines at once, so only a share of them goes within a while.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use jiff::Timestamp;

use super::remaining;
use crate::model::Str;

/// How far back terminations are counted.
pub const WINDOW: Duration = Duration::from_secs(10 * 60);

/// How many machines may end within [`WINDOW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// So many percent of all, rounded up.
    pub percent: usize,
    /// And so many at least.
    pub few: usize,
}

impl Share {
    /// Of machines that were nodes once: repair, garbage collection.
    pub const NODES: Self = Self { percent: 5, few: 3 };
    /// Of machines that never joined. Nothing runs on them, but they may be about to join: a scale-up that the API server or
    /// the network held up must not end as a whole.
    pub const NEVER_JOINED: Self = Self { percent: 25, few: 10 };

    /// How many of `all`.
    #[must_use]
    pub fn of(self, all: usize) -> usize {
        all.saturating_mul(self.percent).div_ceil(100).max(self.few)
    }
}

/// Counts what was let through.
#[derive(Clone, Debug)]
pub struct Brake {
    share: Share,
    released: VecDeque<Timestamp>,
    known: BTreeSet<Str>,
}

impl Brake {
    /// Has let nothing through yet.
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self { share, released: VecDeque::new(), known: BTreeSet::new() }
    }

    /// Whether one more machine of `all` may go at `now`; counts it, once per name. One that was let through before is let
    /// through again.
    pub fn passes(&mut self, name: &str, all: usize, now: Timestamp) -> bool {
        while self.released.front().is_some_and(|then| remaining(*then, WINDOW, now).is_none()) {
            self.released.pop_front();
        }
        if self.released.is_empty() {
            self.known.clear();
        }
        if self.known.contains(name) {
            return true;
        }
        if self.released.len() >= self.share.of(all) {
            return false;
        }
        self.released.push_back(now);
        self.known.insert(name.into());
        true
    }
}

#[cfg(test)]
mod tests {
    //! How many, how soon again.
    use super::*;
    use crate::testing::now;

    #[test]
    fn the_brake_lets_a_few_through_at_a_time() {
        let mut brake = Brake::new(Share::NODES);
        let at = |minutes| now() + jiff::SignedDuration::from_mins(minutes);
        let passes = |brake: &mut Brake, node: &str, minutes| brake.passes(node, 20, at(minutes));
        assert!(["a", "b", "c"].iter().all(|node| passes(&mut brake, node, 0)));
        assert!(!passes(&mut brake, "d", 9));
        assert!(passes(&mut brake, "a", 9), "asked again, for the same node");
        assert!(passes(&mut brake, "d", 10));
    }

    #[test]
    fn shares() {
        assert_eq!([0, 60, 61, 1000].map(|all| Share::NODES.of(all)), [3, 3, 4, 50]);
        assert_eq!([0, 40, 41, 1000].map(|all| Share::NEVER_JOINED.of(all)), [10, 10, 11, 250]);
    }
}
