//! The backoff of a NodePool with replicas whose NodeClaims fail before their node registers.
//!
//! No pod is pending while such a NodePool lacks a node, and what ended one NodeClaim (no capacity, a NodeClass that is not
//! ready, clients or policies that delete it) ends the next one too. So each round of failures doubles the pause.

use std::time::Duration;

use jiff::Timestamp;

use crate::{model::Str, rate::doubled};

/// The pause after the first round.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);

/// The rounds of failures of one NodePool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaBackoff {
    rounds: u32,
    until: Option<Timestamp>,
    last: Option<Str>,
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Failed rounds in a row.
    pub rounds: u32,
    /// The NodeClaim that failed last.
    pub claim: Str,
    /// How much longer none is created.
    pub left: Duration,
}

impl ReplicaBackoff {
    /// A NodeClaim ended before its node registered. Those that end within a pause were created before it: they are part of
    /// the same round.
    pub fn failed(&mut self, claim: Str, now: Timestamp) {
        let paused = self.pause(now).is_some();
        self.last = Some(claim);
        if !paused {
            self.rounds = self.rounds.saturating_add(1);
            self.until = now.checked_add(doubled(FIRST, LONGEST, self.rounds)).ok();
        }
    }

    /// A node registered: the failures are over.
    pub fn registered(&mut self) {
        *self = Self::default();
    }

    /// The pause at `now`, if there is one. A clock that is set back makes it no longer.
    #[must_use]
    pub fn pause(&self, now: Timestamp) -> Option<Pause> {
        let left = Duration::try_from(self.until?.duration_since(now)).ok().filter(|left| !left.is_zero())?;
        let left = left.min(doubled(FIRST, LONGEST, self.rounds));
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
    fn left(backoff: &ReplicaBackoff, seconds: i64) -> Option<u64> {
        backoff.pause(after(seconds)).map(|pause| pause.left.as_secs())
    }

    #[test]
    fn each_failed_round_doubles_the_pause() {
        let mut backoff = ReplicaBackoff::default();
        assert_eq!(left(&backoff, 0), None);
        let mut at = 0;
        for wanted in [1, 2, 4, 8, 16, 32, 60, 60] {
            backoff.failed("a".into(), after(at));
            assert_eq!(left(&backoff, at), Some(wanted));
            at += i64::try_from(wanted).unwrap();
            assert_eq!(left(&backoff, at), None);
        }
        assert_eq!(left(&backoff, -3600), Some(60), "a clock that was set back");
        backoff.registered();
        backoff.failed("a".into(), after(at));
        assert_eq!(left(&backoff, at), Some(1));
    }

    #[test]
    fn claims_that_fail_together_are_one_round() {
        let mut backoff = ReplicaBackoff::default();
        for at in [0, 1] {
            for name in ["a", "b", "c"] {
                backoff.failed(name.into(), after(at));
            }
        }
        let pause = backoff.pause(after(1)).unwrap();
        assert_eq!(pause, Pause { rounds: 2, claim: "c".into(), left: Duration::from_secs(2) });
    }
}
