//! A process does not act on drift in its first ten seconds. Drift is not simulated again before it starts, and the
//! conditions that an earlier process wrote have to be evaluated again first.

use std::time::Duration;

use super::Gate;
use crate::{
    disruption::{MethodSpec, PassStart},
    model::DisruptionReason,
};

/// How long the evaluation of the conditions takes.
const WAIT: Duration = Duration::from_secs(10);

/// Suspends drift at the start of a process.
pub(super) struct DriftAtStart;

impl Gate for DriftAtStart {
    fn admits_method(&self, pass: &PassStart, method: &MethodSpec) -> bool {
        let is_over = pass.began.checked_add(WAIT).is_ok_and(|end| end <= pass.steady);
        is_over || method.reason != DisruptionReason::Drifted
    }
}
