//! S10: what is well stays, unless something explains its end: a command, an interruption, people, a static pool that is too
//! large. That holds under wrong clocks as well (S19).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use super::{Check, Findings, Look, look::*};

/// S10.
#[derive(Default)]
pub(super) struct Deletions {
    /// Claims at the last look.
    claims: BTreeMap<String, Arc<Value>>,
    /// Names of the nodes that were ready then and not deleted.
    ready: BTreeSet<String>,
    /// Instances whose end was judged.
    ended: BTreeSet<String>,
}

impl Check for Deletions {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let now = look.claims_by_name();
        let instances: BTreeMap<&str, _> =
            look.instances.iter().map(|instance| (instance.id.as_str(), instance)).collect();
        for request in look.asked() {
            let deletes = request.resource == "nodeclaims" && request.verb == "delete";
            let Some(claim) = self.claims.get(&request.name).filter(|_| deletes) else { continue };
            let instance = instances.get(text(claim, "/status/providerID"));
            let well = self.ready.contains(text(claim, "/status/nodeName"))
                && is(claim, "Initialized")
                && instance.is_some_and(|instance| lives(instance) && instance.interrupted_at.is_none());
            let newest = now.get(request.name.as_str()).copied().unwrap_or(claim);
            if well && !explained(look, claim) && !explained(look, newest) {
                let what = format!("{} deleted claim {}, which is well", request.user_agent, request.name);
                found.add("S10", what, [&**claim, &*request.body]);
            }
        }
        for instance in look.instances.iter().filter(|instance| !lives(instance)) {
            if !self.ended.insert(instance.id.clone()) || look.ledger.lost.contains(&instance.id) {
                continue;
            }
            let Some(claim) = instance.tags.claim.as_deref().and_then(|name| now.get(name)) else { continue };
            let named = text(claim, "/status/providerID");
            if named == instance.id && !is_deleting(claim) && instance.interrupted_at.is_none() {
                let what = format!("instance {} was ended although its claim stands", instance.id);
                found.add("S10", what, [&***claim]);
            }
        }
        self.claims = look.claims.iter().map(|claim| (name(claim).to_owned(), claim.clone())).collect();
        let ready = look.nodes.iter().filter(|node| is(node, "Ready") && !is_deleting(node));
        self.ready = ready.map(|node| name(node).to_owned()).collect();
    }
}

/// Whether the end of a claim has a reason.
fn explained(look: &Look<'_>, claim: &Value) -> bool {
    let of_pool = look.pools.iter().find(|object| name(object) == pool(claim));
    let fixed =
        of_pool.is_none_or(|object| is_deleting(object) || object.pointer("/spec/replicas").is_some());
    is_deleting(claim)
        || is(claim, "DisruptionReason")
        || fixed
        || look.ledger.deleted.contains(name(claim))
        || look.ledger.deleted.contains(text(claim, "/status/nodeName"))
        || look.nodes.iter().any(|node| name(node) == text(claim, "/status/nodeName") && is_deleting(node))
}
