//! S8: protected pods are not disturbed, and pods leave by eviction, each known by its UID.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Check, Findings, Look, look::*};

/// S8.
#[derive(Default)]
pub(super) struct Pods {
    /// Pods that nobody may evict, at the last look.
    guarded: BTreeSet<String>,
    /// Claims that were judged when they began to go.
    going: BTreeSet<String>,
    /// Claims that a command took as empty.
    empty: BTreeSet<String>,
    /// Nodes on which pods ran that are no daemons, at the last look.
    busy: BTreeSet<String>,
    /// From when on pods may be deleted, of those whose node goes and has a deadline, at the last look.
    deadlines: BTreeMap<String, Timestamp>,
}

impl Check for Pods {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        for request in look.asked().filter(|request| request.resource == "pods") {
            let pod = format!("{}/{}", request.namespace, request.name);
            if request.subresource == "eviction" {
                if text(&request.body, "/deleteOptions/preconditions/uid").is_empty() {
                    found.add("S8", format!("eviction of pod {pod} by its name alone"), [&*request.body]);
                }
                if self.guarded.contains(&pod) {
                    found.add("S8", format!("eviction of protected pod {pod}"), [&*request.body]);
                }
            } else if request.verb == "delete" && request.subresource.is_empty() {
                let grace = field(&request.body, "/gracePeriodSeconds").and_then(Value::as_i64);
                if !self.is_over(look, &pod) {
                    found.add("S8", format!("pod {pod} was deleted instead of evicted"), [&*request.body]);
                }
                if text(&request.body, "/preconditions/uid").is_empty() || grace.is_none_or(|grace| grace < 1)
                {
                    let what = format!("pod {pod} was deleted by its name alone, or without time to end");
                    found.add("S8", what, [&*request.body]);
                }
            }
        }
        self.going(look, found);
        self.empty(look, found);
        let going = deadlines(look);
        self.deadlines = look.pods.iter().filter_map(|pod| deadline(&going, pod)).collect();
        self.guarded = look.pods.iter().filter(|pod| is_guarded(pod)).map(|pod| key(pod)).collect();
    }
}

impl Pods {
    /// Whether the deadline of a pod's node leaves it no more than its own grace period.
    fn is_over(&self, look: &Look<'_>, pod: &str) -> bool {
        let now =
            look.pods.iter().find(|known| key(known) == pod).and_then(|pod| deadline(&deadlines(look), pod));
        let until = now.map(|(_, until)| until).or_else(|| self.deadlines.get(pod).copied());
        until.is_some_and(|until| until <= look.now)
    }

    /// S9: what is taken as empty is empty.
    fn empty(&mut self, look: &Look<'_>, found: &mut Findings) {
        let busy: BTreeSet<String> = look
            .pods
            .iter()
            .filter(|pod| text(pod, "/status/phase") == "Running" && !is_deleting(pod))
            .filter(|pod| text(pod, "/metadata/ownerReferences/0/kind") != "DaemonSet")
            .map(|pod| text(pod, "/spec/nodeName").to_owned())
            .collect();
        for claim in &look.claims {
            let conditions = field(claim, "/status/conditions").and_then(Value::as_array);
            let is_empty = conditions.into_iter().flatten().any(|condition| {
                text(condition, "/type") == "DisruptionReason" && text(condition, "/reason") == "Empty"
            });
            let node = text(claim, "/status/nodeName");
            if is_empty
                && self.empty.insert(text(claim, "/metadata/uid").to_owned())
                && self.busy.contains(node)
                && busy.contains(node)
            {
                found.add(
                    "S9",
                    format!("claim {} is called empty, but pods run on it", name(claim)),
                    [&**claim],
                );
            }
        }
        self.busy = busy;
    }

    /// Claims that a command removes must be free of protected pods at that moment.
    fn going(&mut self, look: &Look<'_>, found: &mut Findings) {
        let holding: BTreeMap<&str, &Value> = look
            .pods
            .iter()
            .filter(|pod| is_guarded(pod))
            .map(|pod| (text(pod, "/spec/nodeName"), &**pod))
            .collect();
        for claim in look.claims.iter().filter(|claim| is_deleting(claim) && is(claim, "DisruptionReason")) {
            let first = self.going.insert(text(claim, "/metadata/uid").to_owned());
            // Drift goes through where a deadline ends the wait; the pods are kept until then.
            let eventual = field(claim, "/spec/terminationGracePeriod").is_some() && has_drifted(claim);
            let by_hand = look.ledger.deleted.contains(name(claim)) || eventual;
            if let Some(pod) = holding.get(text(claim, "/status/nodeName")).filter(|_| first && !by_hand) {
                let what = format!("claim {} was disrupted under protected pod {}", name(claim), name(pod));
                found.add("S8", what, [&**claim, pod]);
            }
        }
    }
}

/// Whether a command takes a claim because it drifted.
fn has_drifted(claim: &Value) -> bool {
    let conditions = field(claim, "/status/conditions").and_then(Value::as_array);
    let command =
        conditions.into_iter().flatten().find(|condition| text(condition, "/type") == "DisruptionReason");
    command.is_some_and(|condition| text(condition, "/reason") == "Drifted")
}

/// Namespace and name.
fn key(pod: &Value) -> String {
    format!("{}/{}", text(pod, "/metadata/namespace"), name(pod))
}

/// When nodes that go have to be gone, by name.
fn deadlines<'a>(look: &'a Look<'_>) -> BTreeMap<&'a str, Timestamp> {
    let going = look.claims.iter().filter(|claim| is_deleting(claim));
    let of = |claim: &'a Value| {
        let begun: Timestamp = text(claim, "/metadata/deletionTimestamp").parse().ok()?;
        let whole: SignedDuration = text(claim, "/spec/terminationGracePeriod").parse().ok()?;
        Some((text(claim, "/status/nodeName"), begun.checked_add(whole).ok()?))
    };
    going.filter_map(|claim| of(claim)).filter(|(node, _)| !node.is_empty()).collect()
}

/// From when on a pod may be deleted: what is left until the deadline of its node is the pod's own grace period.
fn deadline(going: &BTreeMap<&str, Timestamp>, pod: &Value) -> Option<(String, Timestamp)> {
    let end = going.get(text(pod, "/spec/nodeName"))?;
    let grace = field(pod, "/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    Some((key(pod), end.checked_sub(SignedDuration::from_secs(grace)).ok()?))
}

fn is_guarded(pod: &Value) -> bool {
    annotation(pod, "karpenter.sh/do-not-disrupt") == "true"
        && !text(pod, "/spec/nodeName").is_empty()
        && !is_deleting(pod)
}
