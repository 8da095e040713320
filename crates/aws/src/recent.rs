//! Whether a time is recent, on a clock that may jump.

use jiff::{SignedDuration, Timestamp};

/// Whether `at` is less than `span` before `now`. A time in the future was recorded before the clock was set back: its age is unknown, so
/// it is not recent.
#[must_use]
pub fn is_recent(at: Timestamp, now: Timestamp, span: SignedDuration) -> bool {
    (SignedDuration::ZERO..span).contains(&now.duration_since(at))
}

#[cfg(test)]
mod tests {
    //! Before, within, after.
    use super::*;

    #[test]
    fn the_future_is_not_recent() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        let minute = SignedDuration::from_mins(1);
        for (seconds, expected) in [(0, true), (59, true), (60, false), (-1, false), (-31_536_000, false)] {
            let at = now - SignedDuration::from_secs(seconds);
            assert_eq!(is_recent(at, now, minute), expected, "{seconds} s ago");
        }
    }
}
