//! Consolidation does not run again on a cluster that has not changed since it found nothing, for at most five minutes.

use std::time::Duration;

use super::Gate;
use crate::{
    disruption::{MethodSpec, PassStart},
    model::DisruptionReason,
};

/// Some things change with time alone: consolidation runs again after this.
const QUIET: Duration = Duration::from_secs(300);

/// Leaves consolidation out while the cluster is quiet.
pub(super) struct Quiet;

impl Gate for Quiet {
    fn admits_method(&self, pass: &PassStart, method: &MethodSpec) -> bool {
        let is_quiet = pass.quiet.is_some_and(|quiet| {
            quiet.epoch == pass.epoch && quiet.since.checked_add(QUIET).is_ok_and(|end| pass.steady < end)
        });
        // A report needs the reason of every method.
        pass.reports || !is_quiet || method.reason != DisruptionReason::Underutilized
    }
}
