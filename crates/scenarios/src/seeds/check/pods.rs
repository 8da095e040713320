//! S8: protected pods are not disrupted, and pods are evicted by UID.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

/// S8.
#[derive(Default)]
pub(super) struct Pods {
    /// The pods at the last step.
    before: Vec<Arc<PodView>>,
    /// Claims that were checked when their termination began.
    terminating: BTreeSet<String>,
    /// Claims with the reason Empty.
    empty: BTreeSet<String>,
    /// The deadlines of terminating nodes at the last step.
    deadlines: BTreeMap<String, Timestamp>,
}

impl Check for Pods {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let before = OnceCell::new();
        let was_protected = |pod: &str| {
            let protected = self.before.iter().filter(|pod| is_protected(pod));
            let before =
                before.get_or_init(|| protected.map(|pod| pod.key.as_str()).collect::<BTreeSet<_>>());
            before.contains(pod)
        };
        for request in observation.asked().filter(|request| request.resource == "pods") {
            let pod = format!("{}/{}", request.namespace, request.name);
            if request.subresource == "eviction" {
                if text(&request.body, "/deleteOptions/preconditions/uid").is_empty() {
                    found.add("S8", format!("eviction of pod {pod} by its name alone"), [&*request.body]);
                }
                if was_protected(&pod) {
                    found.add("S8", format!("eviction of protected pod {pod}"), [&*request.body]);
                }
            } else if request.verb == "delete" && request.subresource.is_empty() {
                let grace = field(&request.body, "/gracePeriodSeconds").and_then(Value::as_i64);
                let uid = text(&request.body, "/preconditions/uid");
                if !self.may_be_deleted(observation, uid) {
                    found.add("S8", format!("pod {pod} was deleted instead of evicted"), [&*request.body]);
                }
                if uid.is_empty() || grace.is_none_or(|grace| grace < 1) {
                    let what = format!("pod {pod} was deleted by its name alone, or without time to end");
                    found.add("S8", what, [&*request.body]);
                }
            }
        }
        self.terminating(observation, found);
        self.empty(observation, found);
        self.remember(observation);
    }
}

impl Pods {
    /// Whether the deadline of a pod's node is no later than the pod's grace period, or the pod is gone: a controller whose watch is behind
    /// may still delete it, which the API server refuses by UID.
    fn may_be_deleted(&self, observation: &Observation<'_>, uid: &str) -> bool {
        let of = |pods: &[Arc<PodView>], deadlines: &BTreeMap<String, Timestamp>| {
            let pod = pods.iter().find(|pod| pod.uid == uid)?;
            Some(deadline(deadlines, pod).is_some_and(|until| until <= observation.now))
        };
        let now = of(&observation.pods, &deadlines(observation));
        now.or_else(|| of(&self.before, &self.deadlines)).unwrap_or(true)
    }

    /// Remembers the pods of this step.
    fn remember(&mut self, observation: &Observation<'_>) {
        self.before.clone_from(&observation.pods);
        self.deadlines = deadlines(observation);
    }

    /// S9: nodes with the reason Empty are empty.
    fn empty(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        for claim in &observation.claims {
            let conditions = field(claim, "/status/conditions").and_then(Value::as_array);
            let is_empty = conditions.into_iter().flatten().any(|condition| {
                text(condition, "/type") == "DisruptionReason" && text(condition, "/reason") == "Empty"
            });
            let node = text(claim, "/status/nodeName");
            if is_empty
                && self.empty.insert(text(claim, "/metadata/uid").to_owned())
                && is_busy(&self.before, node)
                && is_busy(&observation.pods, node)
            {
                found.add(
                    "S9",
                    format!("claim {} is called empty, but pods run on it", name(claim)),
                    [&**claim],
                );
            }
        }
    }

    /// Claims that a command deletes have no protected pods at that time.
    fn terminating(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let holding = |node: &str| {
            observation.pods.iter().rfind(|pod| is_protected(pod) && pod.node == node).map(|pod| &***pod)
        };
        for claim in
            observation.claims.iter().filter(|claim| is_deleting(claim) && is(claim, "DisruptionReason"))
        {
            let first = self.terminating.insert(text(claim, "/metadata/uid").to_owned());
            // Drift of a NodePool with a deadline continues; the pods stay until the deadline.
            let eventual = field(claim, "/spec/terminationGracePeriod").is_some() && has_drifted(claim);
            let by_hand = observation.interventions.deleted.contains(name(claim)) || eventual;
            if first
                && !by_hand
                && let Some(pod) = holding(text(claim, "/status/nodeName"))
            {
                let what = format!("claim {} was disrupted with protected pod {}", name(claim), name(pod));
                found.add("S8", what, [&**claim, pod]);
            }
        }
    }
}

/// Whether a command has the reason Drifted.
fn has_drifted(claim: &Value) -> bool {
    let conditions = field(claim, "/status/conditions").and_then(Value::as_array);
    let command =
        conditions.into_iter().flatten().find(|condition| text(condition, "/type") == "DisruptionReason");
    command.is_some_and(|condition| text(condition, "/reason") == "Drifted")
}

/// The deadlines of terminating nodes, by name.
fn deadlines(observation: &Observation<'_>) -> BTreeMap<String, Timestamp> {
    let terminating = observation.claims.iter().filter(|claim| is_deleting(claim));
    let of = |claim: &Value| {
        let begun: Timestamp = text(claim, "/metadata/deletionTimestamp").parse().ok()?;
        let whole: SignedDuration = text(claim, "/spec/terminationGracePeriod").parse().ok()?;
        Some((text(claim, "/status/nodeName").to_owned(), begun.checked_add(whole).ok()?))
    };
    terminating.filter_map(|claim| of(claim)).filter(|(node, _)| !node.is_empty()).collect()
}

/// The time from which a pod may be deleted: the deadline of its node minus the pod's grace period.
fn deadline(terminating: &BTreeMap<String, Timestamp>, pod: &PodView) -> Option<Timestamp> {
    let end = terminating.get(pod.node.as_str())?;
    let grace = field(pod, "/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    end.checked_sub(SignedDuration::from_secs(grace)).ok()
}

fn is_protected(pod: &PodView) -> bool {
    !pod.node.is_empty() && !pod.is_deleting && pod.is_do_not_disrupt
}

/// Whether pods other than DaemonSet pods run on a node.
fn is_busy(pods: &[Arc<PodView>], node: &str) -> bool {
    let counts = |pod: &PodView| pod.is_running && !pod.is_deleting && !pod.is_daemon;
    pods.iter().any(|pod| !pod.node.is_empty() && pod.node == node && counts(pod))
}

#[cfg(test)]
mod tests {
    //! From when on a pod may be deleted.
    use std::time::Duration;

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::seeds::script::Interventions;

    /// A NodeClaim of node n that terminates from 0 to 100 s, and pod p there, which has a grace period of 30 s.
    fn observation<'a>(
        now: i64,
        pod_node: Option<&str>,
        interventions: &'a Interventions,
    ) -> Observation<'a> {
        let claim = json!({
            "metadata": {"name": "c", "deletionTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"terminationGracePeriod": "100s"}, "status": {"nodeName": "n"},
        });
        let pod = |node: &str| {
            Arc::new(
                json!({"metadata": {"namespace": "a", "name": "p", "uid": node}, "spec": {"nodeName": node}}),
            )
        };
        Observation {
            at: Duration::ZERO,
            now: Timestamp::from_second(now).unwrap(),
            claims: vec![Arc::new(claim)],
            nodes: Vec::new(),
            pods: pod_node.map(pod).map(PodView::of).map(Arc::new).into_iter().collect(),
            pod_changes: Vec::new(),
            pools: Vec::new(),
            server: None,
            instances: Vec::new(),
            gone: Vec::new(),
            leader: None,
            log: &[],
            interventions,
        }
    }

    #[rstest]
    #[case::before(69, Some("n"), false)]
    #[case::on_time(70, Some("n"), true)]
    #[case::ends_within_the_second_before(69, None, false)]
    #[case::ends_within_the_second_on_time(70, None, true)]
    #[case::its_name_is_used_elsewhere(69, Some("m"), false)]
    fn a_pod_may_be_deleted_for_the_deadline(
        #[case] now: i64,
        #[case] node: Option<&str>,
        #[case] expected: bool,
    ) {
        let interventions = Interventions::default();
        let mut pods = Pods::default();
        pods.remember(&observation(now - 1, Some("n"), &interventions));
        let after = observation(now, node, &interventions);
        assert_eq!(pods.may_be_deleted(&after, "n"), expected);
        pods.remember(&after);
        assert_eq!(
            pods.may_be_deleted(&after, "n"),
            node != Some("n") || expected,
            "refused once it is gone"
        );
    }
}
