//! Which pods kube-scheduler is asked to bind to the node that is launched for them, by `status.nominatedNodeName`.
//!
//! kube-scheduler tries the nominated node of a pod first, and keeps its room from pods of the same or a lower priority. It clears the
//! nomination whenever an attempt fails, as each does until the node is ready, and then looks again at all pods that wait: the room is free.
//! A nomination that is written again at once would be cleared by that, and so on for ever. It is written again when kube-scheduler is done.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::model::{NodeClaim, NodeName, Pod, PodUid, Str, nodeclaim::ConditionType};

/// How often one pod is nominated to one node.
const MOST: u32 = 30;
/// How long no nomination has been cleared when kube-scheduler has tried all pods that wait: longer than one attempt.
const QUIET: Duration = Duration::from_millis(250);
/// How long a pod waits for that.
const LONGEST: Duration = Duration::from_secs(2);

/// The node that pods of a NodeClaim are nominated to: it has joined, and is not initialized.
#[must_use]
pub fn joining_node(claim: &NodeClaim) -> Option<&NodeName> {
    let joining = claim.deleting.is_none()
        && claim.is(ConditionType::Registered)
        && !claim.is(ConditionType::Initialized);
    claim.node_name.as_ref().filter(|_| joining)
}

/// The nominations to nodes that join.
#[derive(Clone, Debug, Default)]
pub struct NodeNominations {
    /// By NodeClaim.
    written: BTreeMap<Str, BTreeMap<PodUid, Written>>,
    /// When kube-scheduler last cleared one.
    cleared_at: Option<Timestamp>,
}

/// The nominations of a pod to one node.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    count: u32,
    last: LastNomination,
}

/// What became of the last nomination of a pod.
#[derive(Clone, Copy, Debug, Default)]
enum LastNomination {
    #[default]
    Never,
    Stands,
    /// Seen cleared at this time.
    Cleared(Timestamp),
}

/// What to do next for the pods of a NodeClaim.
#[derive(Debug, PartialEq)]
pub struct Due {
    /// Nominate these.
    pub pods: Vec<Arc<Pod>>,
    /// Look again after this long: kube-scheduler is trying pods that wait.
    pub again: Option<Duration>,
}

impl NodeNominations {
    /// Those of `pods`, which are expected on the node of `claim`, that are to be nominated to it.
    pub fn due(&mut self, claim: &str, pods: Vec<Arc<Pod>>, now: Timestamp) -> Due {
        let written = self.written.entry(claim.into()).or_default();
        let mut waiting = Vec::new();
        for pod in pods.into_iter().filter(|pod| pod.is_provisionable() && pod.nominated_node.is_none()) {
            let written = written.entry(pod.uid.clone()).or_default();
            if matches!(written.last, LastNomination::Stands) {
                written.last = LastNomination::Cleared(now);
                self.cleared_at = Some(now);
            }
            if written.count < MOST {
                waiting.push((pod, written.last));
            }
        }
        let since = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let noisy = self.cleared_at.map_or(Duration::ZERO, |at| QUIET.saturating_sub(since(at)));
        let left = |last| match last {
            LastNomination::Cleared(at) => noisy.min(LONGEST.saturating_sub(since(at))),
            LastNomination::Never | LastNomination::Stands => Duration::ZERO,
        };
        let again = waiting.iter().map(|(_, last)| left(*last)).filter(|left| !left.is_zero()).min();
        waiting.retain(|(_, last)| left(*last).is_zero());
        Due { pods: waiting.into_iter().map(|(pod, _)| pod).collect(), again }
    }

    /// Records that a pod was nominated.
    pub fn written(&mut self, claim: &str, pod: &PodUid) {
        let written = self.written.entry(claim.into()).or_default().entry(pod.clone()).or_default();
        *written = Written { count: written.count.saturating_add(1), last: LastNomination::Stands };
    }

    /// Forgets a NodeClaim, whose node takes no nominations any more.
    pub fn forget(&mut self, claim: &str) {
        self.written.remove(claim);
    }
}

#[cfg(test)]
mod tests {
    //! When a pod is nominated, and how often.
    use crate::testing::{node, pod};

    use super::*;

    #[test]
    fn a_node_takes_nominations_from_registration_to_initialization() {
        let of = |node: crate::testing::NodeBuilder| {
            joining_node(node.build().claim.as_ref().unwrap()).map(ToString::to_string)
        };
        let with_name = |claim: &mut NodeClaim| claim.node_name = Some("n".into());
        assert_eq!(of(node("n").launched().with_claim(with_name)), None);
        assert_eq!(of(node("n").uninitialized().with_claim(with_name)).as_deref(), Some("n"));
        assert_eq!(of(node("n").with_claim(with_name)), None, "initialized");
        let deleted = |claim: &mut NodeClaim| {
            with_name(claim);
            claim.deleting = Some(crate::testing::now());
        };
        assert_eq!(of(node("n").uninitialized().with_claim(deleted)), None);
    }

    fn now(millis: i64) -> Timestamp {
        crate::testing::now() + jiff::SignedDuration::from_millis(millis)
    }

    #[track_caller]
    fn check(nominations: &mut NodeNominations, claim: &str, of: &Arc<Pod>, at: i64, expected: Option<u64>) {
        let due = nominations.due(claim, vec![of.clone()], now(at));
        let pods = if expected.is_none() { vec![of.clone()] } else { Vec::new() };
        assert_eq!(due, Due { pods, again: expected.map(Duration::from_millis) }, "at {at}");
    }

    #[test]
    fn only_pods_that_wait_are_nominated() {
        let nominated = pod("p").with(|pod| pod.nominated_node = Some("n".into())).build();
        let due = NodeNominations::default().due("c", vec![nominated, pod("q").bound("n")], now(0));
        assert_eq!(due, Due { pods: Vec::new(), again: None });
    }

    #[test]
    fn a_pod_is_nominated_again_when_kube_scheduler_is_done_and_not_for_ever() {
        let mut nominations = NodeNominations::default();
        let cleared = pod("p").build();
        check(&mut nominations, "c", &cleared, 0, None);
        for at in (0..).step_by(1000).take(MOST.try_into().unwrap()) {
            nominations.written("c", &cleared.uid);
            if at + 1000 < i64::from(MOST) * 1000 {
                check(&mut nominations, "c", &cleared, at + 500, Some(250));
                check(&mut nominations, "c", &cleared, at + 600, Some(150));
                check(&mut nominations, "c", &cleared, at + 750, None);
            }
        }
        let due = nominations.due("c", vec![cleared], now(100_000));
        assert_eq!(due, Due { pods: Vec::new(), again: None });
    }

    #[test]
    fn a_cleared_nomination_delays_others_that_were_cleared_for_a_while() {
        let mut nominations = NodeNominations::default();
        let (first, second) = (pod("p").build(), pod("q").build());
        nominations.written("c", &first.uid);
        check(&mut nominations, "c", &first, 0, Some(250));
        check(&mut nominations, "d", &second, 100, None);
        nominations.written("d", &second.uid);
        check(&mut nominations, "d", &second, 110, Some(250));
        // Others are cleared all the time.
        for at in (200..2_000).step_by(200) {
            let other = pod(&format!("p-{at}")).build();
            nominations.written("e", &other.uid);
            check(&mut nominations, "e", &other, at, Some(250));
        }
        check(&mut nominations, "c", &first, 1_900, Some(100));
        check(&mut nominations, "c", &first, 2_000, None);
        check(&mut nominations, "d", &second, 2_000, Some(50));
        check(&mut nominations, "d", &second, 2_050, None);
    }
}
