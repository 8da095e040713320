//! L: at rest nothing is left over, and nothing moves. S13: it does not take ever new instances to come to rest.

use std::{collections::BTreeSet, sync::Arc};

use fleetwright_fake::api::CloudInstance;

use super::{Check, Findings, Look, look::*};
use crate::seeds::log::Entry;

/// Claims that a run may make: far more than its loads, edits and accidents call for.
const CLAIMS_MAX: usize = 150;

/// L and S13.
#[derive(Default)]
pub(super) struct Rest {
    made: BTreeSet<String>,
}

impl Check for Rest {
    fn step(&mut self, look: &Look<'_>, _: &mut Findings) {
        self.made.extend(look.claims.iter().map(|claim| text(claim, "/metadata/uid").to_owned()));
    }

    fn end(&mut self, look: &Look<'_>, found: &mut Findings) {
        if self.made.len() > CLAIMS_MAX {
            found.add("S13", format!("{} claims were made", self.made.len()), []);
        }
        let ids: BTreeSet<&str> = look.claims.iter().map(|claim| text(claim, "/status/providerID")).collect();
        for instance in orphans(look) {
            found.add("L", format!("instance {} belongs to nobody", instance.id), []);
        }
        for claim in look.claims.iter().filter(|claim| is(claim, "DisruptionReason")) {
            found.add("L", format!("claim {} keeps the mark of a command", name(claim)), [&**claim]);
        }
        for node in &look.nodes {
            let taints = field(node, "/spec/taints").and_then(serde_json::Value::as_array);
            let left =
                taints.into_iter().flatten().any(|taint| text(taint, "/key") == "karpenter.sh/disrupted");
            if left {
                found.add("L", format!("node {} keeps the taint of a command", name(node)), [&**node]);
            }
            if !pool(node).is_empty() && !ids.contains(text(node, "/spec/providerID")) {
                found.add("L", format!("node {} belongs to no claim", name(node)), [&**node]);
            }
        }
    }
}

/// Instances of this cluster that no claim names.
pub(super) fn orphans<'a>(look: &'a Look<'_>) -> impl Iterator<Item = &'a Arc<CloudInstance>> {
    let ids: BTreeSet<&str> = look.claims.iter().map(|claim| text(claim, "/status/providerID")).collect();
    let ours =
        |instance: &&Arc<CloudInstance>| lives(instance) && !look.ledger.foreign.contains(&instance.id);
    look.instances.iter().filter(ours).filter(move |instance| !ids.contains(instance.id.as_str()))
}

/// At rest no operator changes anything, but for its lease and what it tells people.
pub(super) fn quiet(log: &[Entry], found: &mut Findings) {
    for entry in log {
        if let Entry::Asked(request) = entry
            && !matches!(request.resource.as_str(), "leases" | "events")
        {
            let (verb, resource, name) = (&request.verb, &request.resource, &request.name);
            let what = format!("{} did {verb} {resource} {name} while all was at rest", request.user_agent);
            found.add("L", what, [&*request.body]);
        }
    }
}
