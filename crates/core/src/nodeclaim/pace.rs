//! How fast a pool that keeps a number makes up for claims that come to nothing.
//!
//! A claim of a static pool answers no pod, so that nothing waits while there is none, and whatever ended the last one at
//! once (no capacity, a class that is not ready, people or policies that delete what they do not know) ends the next one
//! too. So each round of claims that end before their node has joined is followed by a longer pause.

use std::time::Duration;

use jiff::Timestamp;

use super::launch;
use crate::model::Str;

/// The last rounds of claims of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    rounds: u32,
    until: Option<Timestamp>,
    last: Option<Str>,
}

/// Why nothing is created yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Rounds in a row that came to nothing.
    pub rounds: u32,
    /// The claim that ended last.
    pub claim: Str,
    /// How long nothing is created.
    pub left: Duration,
}

impl Pace {
    /// A claim ended before its node had joined. Those that end within a pause were created before it: they are a part
    /// of the same round.
    pub fn failed(&mut self, claim: Str, now: Timestamp) {
        let paused = self.pause(now).is_some();
        self.last = Some(claim);
        if !paused {
            self.rounds = self.rounds.saturating_add(1);
            self.until = now.checked_add(launch::backoff(self.rounds)).ok();
        }
    }

    /// A node joined: what was wrong is over.
    pub fn joined(&mut self) {
        *self = Self::default();
    }

    /// Why nothing is to be created at `now`; `None` where it may be. A clock that is set back makes no pause longer.
    #[must_use]
    pub fn pause(&self, now: Timestamp) -> Option<Pause> {
        let left = Duration::try_from(self.until?.duration_since(now)).ok().filter(|left| !left.is_zero())?;
        let left = left.min(launch::backoff(self.rounds));
        Some(Pause { rounds: self.rounds, claim: self.last.clone()?, left })
    }
}

#[cfg(test)]
mod tests {
    //! Rounds, and what ends them.
    use super::*;
    use crate::testing::now;

    fn after(seconds: i64) -> Timestamp {
        now() + jiff::SignedDuration::from_secs(seconds)
    }

    /// Seconds that are left of the pause.
    fn left(pace: &Pace, seconds: i64) -> Option<u64> {
        pace.pause(after(seconds)).map(|pause| pause.left.as_secs())
    }

    #[test]
    fn each_round_that_comes_to_nothing_doubles_the_pause() {
        let mut pace = Pace::default();
        assert_eq!(left(&pace, 0), None);
        let mut at = 0;
        for wanted in [1, 2, 4, 8, 16, 32, 60, 60] {
            pace.failed("a".into(), after(at));
            assert_eq!(left(&pace, at), Some(wanted));
            at += i64::try_from(wanted).unwrap();
            assert_eq!(left(&pace, at), None);
        }
        assert_eq!(left(&pace, -3600), Some(60), "a clock that was set back");
        pace.joined();
        pace.failed("a".into(), after(at));
        assert_eq!(left(&pace, at), Some(1));
    }

    #[test]
    fn claims_that_end_together_are_one_round() {
        let mut pace = Pace::default();
        for at in [0, 1] {
            for name in ["a", "b", "c"] {
                pace.failed(name.into(), after(at));
            }
        }
        let pause = pace.pause(after(1)).unwrap();
        assert_eq!(pause, Pause { rounds: 2, claim: "c".into(), left: Duration::from_secs(2) });
    }
}
