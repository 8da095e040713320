//! Points in time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `by` after `at`; the largest timestamp on overflow.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}
