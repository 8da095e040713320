//! Consolidation does not run again on a cluster that has not changed since it found nothing to do, for at most five minutes.

use std::time::Duration;

use super::Gate;
use crate::{
    disruption::{MethodSpec, PassStart},
    model::DisruptionReason,
};

/// Consolidation runs again after this, because some of its input depends on the time.
const MAX_UNCHANGED: Duration = Duration::from_secs(300);

/// Suspends consolidation while the cluster does not change.
pub(super) struct UnchangedCluster;

impl Gate for UnchangedCluster {
    fn admits_method(&self, pass: &PassStart, method: &MethodSpec) -> bool {
        let is_unchanged = pass.unchanged.is_some_and(|unchanged| {
            unchanged.epoch == pass.epoch
                && unchanged.since.checked_add(MAX_UNCHANGED).is_ok_and(|end| pass.steady < end)
        });
        // A report needs the reason of every method.
        pass.reports || !is_unchanged || method.reason != DisruptionReason::Underutilized
    }
}
