//! S8: protected pods are not disturbed, and pods leave by eviction, each known by its UID.

use std::collections::{BTreeMap, BTreeSet};

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
}

impl Check for Pods {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        for request in look.asked().filter(|request| request.resource == "pods") {
            let pod = format!("{}/{}", request.namespace, request.name);
            if request.subresource == "eviction" {
                if text(&request.body, "/deleteOptions/preconditions/uid").is_empty() {
                    found.add("S8", format!("eviction of pod {pod} by its name alone"), [&request.body]);
                }
                if self.guarded.contains(&pod) {
                    found.add("S8", format!("eviction of protected pod {pod}"), [&request.body]);
                }
            } else if request.verb == "delete" && request.subresource.is_empty() {
                // No node of a run has a deadline.
                found.add("S8", format!("pod {pod} was deleted instead of evicted"), [&request.body]);
            }
        }
        self.going(look, found);
        self.empty(look, found);
        self.guarded = look
            .pods
            .iter()
            .filter(|pod| is_guarded(pod))
            .map(|pod| format!("{}/{}", text(pod, "/metadata/namespace"), name(pod)))
            .collect();
    }
}

impl Pods {
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
            let conditions = claim.pointer("/status/conditions").and_then(Value::as_array);
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
            let by_hand = look.ledger.deleted.contains(name(claim));
            if let Some(pod) = holding.get(text(claim, "/status/nodeName")).filter(|_| first && !by_hand) {
                let what = format!("claim {} was disrupted under protected pod {}", name(claim), name(pod));
                found.add("S8", what, [&**claim, pod]);
            }
        }
    }
}

fn is_guarded(pod: &Value) -> bool {
    annotation(pod, "karpenter.sh/do-not-disrupt") == "true"
        && !text(pod, "/spec/nodeName").is_empty()
        && !is_deleting(pod)
}
