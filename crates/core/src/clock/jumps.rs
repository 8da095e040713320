//! Whether somebody set the wall clock: it is held against the steady one, and rests what goes by it for a cycle.
//!
//! Both clocks run equally fast; where their difference moves by more than [`JUMP`], one of them was set, or the node
//! stood still. Ages, schedules and windows read from the wall clock are doubtful then: it may be set right again at once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A wall clock that moves by more than this against the steady one has jumped.
pub const JUMP: Duration = Duration::from_secs(30);
/// For so long after a jump, in steady time, decisions by the wall clock rest: one cycle.
pub const REST: Duration = Duration::from_secs(60);
/// So often, in steady time, the difference is taken again: clocks that are slewed drift apart slowly, and may.
const ANCHOR: Duration = Duration::from_secs(60);

/// What is known of the two clocks from looking at both.
#[derive(Clone, Debug, Default)]
pub struct Jumps {
    /// By how much the wall clock was ahead of the steady one, and when, in steady time, that was taken.
    anchor: Option<(SignedDuration, Timestamp)>,
    /// When, in steady time, a jump was last seen.
    jumped: Option<Timestamp>,
}

impl Jumps {
    /// Takes note of what both clocks show at one moment. Returns by how much the wall clock jumped, if it did so since the
    /// last look: forward where positive.
    ///
    /// The first look compares with nothing.
    pub fn look(&mut self, wall: Timestamp, steady: Timestamp) -> Option<SignedDuration> {
        let ahead = wall.duration_since(steady);
        let Some((known, taken)) = self.anchor else {
            self.anchor = Some((ahead, steady));
            return None;
        };
        // Two timestamps are 20,000 years apart at most: differences of their differences are far within range.
        let by = ahead.saturating_sub(known);
        let jumped = by.unsigned_abs() > JUMP;
        if jumped {
            self.jumped = Some(steady);
        }
        if jumped || steady.duration_since(taken).unsigned_abs() >= ANCHOR {
            self.anchor = Some((ahead, steady));
        }
        jumped.then_some(by)
    }

    /// For how long decisions by the wall clock still rest at `steady`; `None` where they need not.
    #[must_use]
    pub fn rest(&self, steady: Timestamp) -> Option<Duration> {
        let passed = Duration::try_from(steady.duration_since(self.jumped?)).unwrap_or_default();
        REST.checked_sub(passed).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    //! Sequences of looks.
    use rstest::rstest;

    use super::*;

    /// Seconds since some moment.
    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_750_000_000 + seconds).unwrap()
    }

    /// Looks as (steady, wall ahead of it), in seconds; the jumps seen.
    #[rstest]
    #[case::quiet(&[(0, 0), (10, 0), (3600, 0)], &[])]
    #[case::wrong_from_the_start(&[(0, -900_000_000), (10, -900_000_000)], &[])]
    #[case::as_much_as_is_allowed(&[(0, 0), (10, 30), (20, 0)], &[])]
    #[case::forward(&[(0, 5), (10, 36), (20, 36)], &[31])]
    #[case::back(&[(0, 0), (10, -600), (20, -600)], &[-600])]
    #[case::there_and_back(&[(0, 0), (10, 600), (11, 0)], &[600, -600])]
    #[case::in_steps_within_a_minute(&[(0, 0), (10, 20), (20, 40), (30, 40)], &[40])]
    #[case::slewed_over_hours(&[(0, 0), (60, 20), (120, 40), (180, 60), (240, 80)], &[])]
    #[case::after_a_long_time_without_a_look(&[(0, 0), (86_400, 40)], &[40])]
    fn jumps_are_told_once(#[case] looks: &[(i64, i64)], #[case] expected: &[i64]) {
        let mut jumps = Jumps::default();
        let seen: Vec<i64> = looks
            .iter()
            .filter_map(|(steady, ahead)| jumps.look(at(steady + ahead), at(*steady)))
            .map(|by| by.as_secs())
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_cycle_is_rested_after_the_last_jump() {
        let mut jumps = Jumps::default();
        jumps.look(at(0), at(0));
        assert_eq!(jumps.rest(at(0)), None);
        jumps.look(at(610), at(10));
        assert_eq!(jumps.rest(at(10)), Some(REST));
        assert_eq!(jumps.rest(at(40)), Some(Duration::from_secs(30)));
        jumps.look(at(50), at(50));
        assert_eq!(jumps.rest(at(109)), Some(Duration::from_secs(1)), "set right again: a jump too");
        assert_eq!(jumps.rest(at(110)), None);
    }

    #[test]
    fn the_ends_of_time_do_not_matter() {
        let mut jumps = Jumps::default();
        for wall in [Timestamp::MIN, Timestamp::MAX, Timestamp::MIN] {
            jumps.look(wall, Timestamp::MAX);
        }
        assert_eq!(jumps.rest(Timestamp::MAX), Some(REST));
        assert_eq!(jumps.rest(Timestamp::MIN), Some(REST), "a steady clock that is not");
    }
}
