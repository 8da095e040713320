//! L: in a stable cluster nothing is left over and nothing changes. S13: the number of instances until then is bounded.

use std::{collections::BTreeSet, sync::Arc};

use fleetwright_core::cloud::GroundTruth;

use super::{Check, Findings, Observation, observation::*};
use crate::seeds::log::Entry;

/// The maximum number of claims of a run: far more than the loads, edits and faults of a small cluster need.
const CLAIMS_MAX: usize = 150;
/// The same for each ten claims that stay in the end, in a larger cluster.
const CLAIMS_MAX_PER_TEN: usize = 13;

/// L and S13.
#[derive(Default)]
pub(super) struct StableState {
    made: BTreeSet<String>,
}

impl Check for StableState {
    fn step(&mut self, observation: &Observation<'_>, _: &mut Findings) {
        self.made.extend(observation.claims.iter().map(|claim| text(claim, "/metadata/uid").to_owned()));
    }

    fn end(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let most = CLAIMS_MAX.max(observation.claims.len() * CLAIMS_MAX_PER_TEN / 10);
        if self.made.len() > most {
            found.add("S13", format!("{} claims were created", self.made.len()), []);
        }
        let ids: BTreeSet<&str> =
            observation.claims.iter().map(|claim| text(claim, "/status/providerID")).collect();
        for instance in orphans(observation) {
            found.add("L", format!("instance {} has no claim", instance.provider_id), []);
        }
        for claim in observation.claims.iter().filter(|claim| is(claim, "DisruptionReason")) {
            found.add("L", format!("claim {} keeps the annotation of a command", name(claim)), [&**claim]);
        }
        for node in &observation.nodes {
            let taints = field(node, "/spec/taints").and_then(serde_json::Value::as_array);
            let left =
                taints.into_iter().flatten().any(|taint| text(taint, "/key") == "karpenter.sh/disrupted");
            if left {
                found.add("L", format!("node {} keeps the taint of a command", name(node)), [&**node]);
            }
            if !pool(node).is_empty() && !ids.contains(text(node, "/spec/providerID")) {
                found.add("L", format!("node {} has no claim", name(node)), [&**node]);
            }
        }
    }
}

/// Instances of this cluster without a claim.
pub(super) fn orphans<'a>(observation: &'a Observation<'_>) -> impl Iterator<Item = &'a Arc<GroundTruth>> {
    let ids: BTreeSet<&str> =
        observation.claims.iter().map(|claim| text(claim, "/status/providerID")).collect();
    let ours = |instance: &&Arc<GroundTruth>| {
        !instance.terminating && !observation.interventions.foreign.contains(&instance.provider_id)
    };
    let unclaimed = move |instance: &&Arc<GroundTruth>| !ids.contains(instance.provider_id.as_str());
    observation.instances.iter().filter(ours).filter(unclaimed)
}

/// In a stable cluster operators only renew their lease and publish events.
pub(super) fn quiet(log: &[Entry], found: &mut Findings) {
    for entry in log {
        if let Entry::Asked(request) = entry
            && !matches!(request.resource.as_str(), "leases" | "events")
        {
            let (verb, resource, name) = (&request.verb, &request.resource, &request.name);
            let what =
                format!("{} did {verb} {resource} {name} while the cluster was stable", request.user_agent);
            found.add("L", what, [&*request.body]);
        }
    }
}
