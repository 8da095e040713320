//! Which changes of pods reset consolidateAfter.

use std::time::Duration;

use jiff::Timestamp;

use super::remaining;
use crate::model::Pod;

/// Events of one node are not stamped more often.
pub const SPACING: Duration = Duration::from_secs(10);

/// Whether a change of a pod is a pod event of its node, whose last one was stamped at `last`: it was bound, completed, or began to
/// terminate. DaemonSet pods do not count. A pod on a node that is seen for the first time or vanishes counts as bound or completed, unless
/// it was known to be terminating, or started before the last stamp: a new process sees every pod for the first time.
#[must_use]
pub fn matters(before: Option<&Pod>, after: Option<&Pod>, last: Option<Timestamp>) -> bool {
    let Some(latest) = after.or(before) else { return false };
    if latest.is_daemon() || latest.node.is_none() {
        return false;
    }
    let bound = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.node.is_some());
    let ending = |pod: Option<&Pod>| pod.is_none_or(|pod| pod.is_terminal() || pod.is_terminating());
    match (before, after) {
        (None, _) => !ending(after) && latest.started.is_none_or(|started| is_due(last, started)),
        (Some(_), None) => !ending(before),
        (Some(_), Some(_)) => (!bound(before) && bound(after)) || (!ending(before) && ending(after)),
    }
}

/// Whether an event at `now` is to be stamped, given the last stamp.
#[must_use]
pub fn is_due(last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_none_or(|last| remaining(last, SPACING, now).is_none())
}
