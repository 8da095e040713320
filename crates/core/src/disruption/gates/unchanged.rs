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

#[cfg(test)]
mod tests {
    //! When consolidation runs, and what runs all the same.
    use rstest::rstest;

    use super::*;
    use crate::{
        disruption::{UnchangedEpoch, method},
        testing::now,
    };

    #[rstest]
    #[case::first(None, 0, false, true)]
    #[case::unchanged(Some(7), 299, false, false)]
    #[case::changed(Some(6), 299, false, true)]
    #[case::five_minutes_later(Some(7), 300, false, true)]
    #[case::for_a_report(Some(7), 299, true, true)]
    fn consolidation_rests_while_the_cluster_does_not_change(
        #[case] found_nothing_on: Option<u64>,
        #[case] seconds: i64,
        #[case] reports: bool,
        #[case] expected: bool,
    ) {
        let steady = now() + jiff::SignedDuration::from_secs(seconds);
        let unchanged = found_nothing_on.map(|epoch| UnchangedEpoch { epoch, since: now() });
        let pass = PassStart { unchanged, ..PassStart::new(7, steady, now(), reports) };
        let admits =
            |name: &str| UnchangedCluster.admits_method(&pass, method(name).expect("a method").spec());
        for name in ["multi-node-consolidation", "single-node-consolidation", "n-to-m-consolidation"] {
            assert_eq!(admits(name), expected, "{name}");
        }
        assert!(admits("drift") && admits("emptiness"), "their conditions come with time");
    }
}
