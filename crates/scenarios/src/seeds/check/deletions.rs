//! S10: healthy nodes stay unless there is a reason: a command, an interruption, a user, an oversized static pool. This also holds with
//! wrong clocks (S19).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_core::model::ProviderId;
use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

/// S10.
#[derive(Default)]
pub(super) struct Deletions {
    /// Claims at the last step.
    claims: BTreeMap<String, Arc<Value>>,
    /// Names of ready nodes that were not terminating.
    ready: BTreeSet<String>,
    /// Instances whose termination was checked.
    ended: BTreeSet<ProviderId>,
}

impl Check for Deletions {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let now = observation.claims_by_name();
        let instances: BTreeMap<&str, _> =
            observation.instances.iter().map(|instance| (instance.provider_id.as_str(), instance)).collect();
        for request in observation.asked() {
            let deletes = request.resource == "nodeclaims" && request.verb == "delete";
            let Some(claim) = self.claims.get(&request.name).filter(|_| deletes) else { continue };
            let instance = instances.get(text(claim, "/status/providerID"));
            let well = self.ready.contains(text(claim, "/status/nodeName"))
                && is(claim, "Initialized")
                && instance.is_some_and(|instance| !instance.terminating && !instance.interrupted);
            let newest = now.get(request.name.as_str()).copied().unwrap_or(claim);
            if well && !explained(observation, claim) && !explained(observation, newest) {
                let what = format!("{} deleted the healthy claim {}", request.user_agent, request.name);
                found.add("S10", what, [&**claim, &*request.body]);
            }
        }
        for instance in observation.ended() {
            let id = &instance.provider_id;
            if !self.ended.insert(id.clone()) || observation.interventions.lost.contains(id) {
                continue;
            }
            let claim = instance.claim.as_ref().and_then(|claim| now.get(claim.as_str()));
            let Some(claim) = claim else { continue };
            let named = text(claim, "/status/providerID");
            if named == id.as_str() && !is_deleting(claim) && !instance.interrupted {
                let what = format!("instance {id} was terminated although its claim exists");
                found.add("S10", what, [&***claim]);
            }
        }
        self.claims =
            observation.claims.iter().map(|claim| (name(claim).to_owned(), claim.clone())).collect();
        let ready = observation.nodes.iter().filter(|node| is(node, "Ready") && !is_deleting(node));
        self.ready = ready.map(|node| name(node).to_owned()).collect();
    }
}

/// Whether the deletion of a claim has a reason.
fn explained(observation: &Observation<'_>, claim: &Value) -> bool {
    let of_pool = observation.pools.iter().find(|object| name(object) == pool(claim));
    let fixed =
        of_pool.is_none_or(|object| is_deleting(object) || object.pointer("/spec/replicas").is_some());
    is_deleting(claim)
        || is(claim, "DisruptionReason")
        || fixed
        || observation.interventions.deleted.contains(name(claim))
        || observation.interventions.deleted.contains(text(claim, "/status/nodeName"))
        || observation
            .nodes
            .iter()
            .any(|node| name(node) == text(claim, "/status/nodeName") && is_deleting(node))
}
