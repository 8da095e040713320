//! The exit status of a tool that does not fail.

use std::process::ExitCode;

/// How a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The result is complete.
    Complete,
    /// The catalogue or the input has gaps, which the output names.
    Incomplete,
    /// `compat` or `lint` has warnings.
    Warnings,
    /// `compat` has blockers, or `lint` errors.
    Blocked,
    /// The condition of `--fail-if` holds.
    FailIf,
}

impl Outcome {
    /// The outcome with these gaps.
    pub(crate) fn of(gaps: &[String]) -> Self {
        if gaps.is_empty() { Self::Complete } else { Self::Incomplete }
    }
}

/// 0, or 3 to 6: 1 is an error, 2 an invalid command line.
impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Complete => Self::SUCCESS,
            Outcome::Incomplete => Self::from(3),
            Outcome::Warnings => Self::from(4),
            Outcome::Blocked => Self::from(5),
            Outcome::FailIf => Self::from(6),
        }
    }
}
