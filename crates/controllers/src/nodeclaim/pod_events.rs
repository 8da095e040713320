//! `nodeclaim.podevents`: records on NodeClaims when pods are bound and removed; consolidateAfter counts from it.

use async_trait::async_trait;
use fleetwright_api as api;
use fleetwright_core::nodeclaim::pod_events;
use fleetwright_state::{Change, Index, Key, Object};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::runtime::{
    ApiClient, Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue, ignore_not_found,
};

/// Stamps `status.lastPodEventTime`.
pub struct PodEvents {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
}

impl PodEvents {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { client: ctx.client.clone(), cluster: ctx.cluster.clone(), clocks: ctx.clocks.clone() }
    }
}

#[async_trait]
impl Controller for PodEvents {
    fn name(&self) -> &'static str {
        "nodeclaim.podevents"
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let Some(pod) = change.pod() else { return Vec::new() };
        let model = |object: &Option<Object>| match object {
            Some(Object::Pod(pod)) => Some(pod.clone()),
            _ => None,
        };
        let claim = pod.node.as_ref().and_then(|node| index.claim_of_node(node));
        let Some(name) = claim.and_then(|claim| claim.metadata.name.as_deref()) else { return Vec::new() };
        let last = index.claim_model(name).and_then(|claim| claim.last_pod_event);
        let (before, after) = (model(&change.before), model(&change.after));
        let matters = pod_events::matters(before.as_deref(), after.as_deref(), last);
        matters.then(|| Key::cluster(name)).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let now = self.clocks.now();
        let (last, uid) = match self.cluster.index().claim_model(&key.name) {
            Some(claim) if claim.deleting.is_none() => (claim.last_pod_event, claim.uid.to_string()),
            _ => return Ok(Requeue::No),
        };
        if !pod_events::is_due(last, now) {
            return Ok(Requeue::No);
        }
        let api = self.client.cluster::<api::NodeClaim>();
        // Patches only this field, so that no conflict is possible.
        let stamp = now.round(jiff::Unit::Second).unwrap_or(now);
        let body = Patch::Merge(json!({
            "metadata": { "uid": uid },
            "status": { "lastPodEventTime": stamp.to_string() },
        }));
        let params = PatchParams::default();
        let patched = self.client.call("note pod event", api.patch_status(&key.name, &params, &body)).await;
        if let Some(claim) = ignore_not_found(patched)? {
            self.cluster.observe(claim);
        }
        Ok(Requeue::No)
    }
}
