//! Reads managed NodePools and writes their status.

use std::sync::Arc;

use fleetwright_api::{
    self as api, ConditionSet, HasConditions,
    condition::find,
    labels::condition::{
        DRIFT_WITHIN_CAP, FEATURES_AVAILABLE, INITIALIZATION_HEALTHY, NODE_CLASS_READY,
        NODE_REGISTRATION_HEALTHY, NODES_AS_EXPECTED, READY, VALIDATION_SUCCEEDED,
    },
};
use fleetwright_core::model::NodeClassRef;
use fleetwright_state::{Change, Index, Key, WatchedKind};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::{
    events::{Event, regarding, transition},
    runtime::{ApiClient, Clocks, Cluster, Ctx, ReconcileError, Recorder, ignore_not_found},
};

/// The status of a condition that was never written.
const UNKNOWN: &str = "Unknown";

/// Reads and writes the status of NodePools.
#[derive(Clone)]
pub(crate) struct PoolStatus {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    recorder: Recorder,
}

impl PoolStatus {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            recorder: ctx.recorder.clone(),
        }
    }

    /// NodePool `name`, if it is managed.
    pub(crate) fn managed(&self, name: &str) -> Option<Arc<api::NodePool>> {
        let index = self.cluster.index();
        let pool = index.pool(name)?;
        let class = &pool.spec.template.spec.node_class_ref;
        index.is_managed(&class.group, &class.kind).then(|| pool.clone())
    }
}

/// The NodeClass that a NodePool references.
pub(crate) fn class_of(pool: &api::NodePool) -> NodeClassRef {
    let class = &pool.spec.template.spec.node_class_ref;
    NodeClassRef {
        group: class.group.as_str().into(),
        kind: class.kind.as_str().into(),
        name: class.name.as_str().into(),
    }
}

/// The keys of the NodePools that a change of a NodePool or NodeClass concerns.
pub(crate) fn pools_of(change: &Change, index: &Index) -> Vec<Key> {
    match change.kind {
        WatchedKind::NodePool => vec![change.key.clone()],
        WatchedKind::NodeClass => {
            let uses =
                |pool: &&Arc<api::NodePool>| *pool.spec.template.spec.node_class_ref.name == *change.key.name;
            let names = index.pools().filter(uses).filter_map(|pool| pool.metadata.name.clone());
            names.map(Key::cluster).collect()
        }
        _ => Vec::new(),
    }
}

impl PoolStatus {
    /// Changes the status of a NodePool. Fails on a conflict with another writer; writes nothing if nothing changes.
    pub(crate) async fn change(
        &self,
        pool: &api::NodePool,
        change: impl FnOnce(&mut api::NodePoolStatus),
    ) -> Result<(), ReconcileError> {
        let mut status = pool.status.clone().unwrap_or_default();
        change(&mut status);
        if pool.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let body = Patch::Merge(json!({
            "metadata": { "resourceVersion": pool.metadata.resource_version },
            "status": status,
        }));
        let (api, params) = (self.client.cluster::<api::NodePool>(), PatchParams::default());
        let patched = self.client.call("write nodepool status", api.patch_status(name, &params, &body)).await;
        if let Some(written) = ignore_not_found(patched)? {
            self.publish_transitions(pool, &written);
            self.cluster.observe(written);
        }
        Ok(())
    }

    /// Publishes an event for each condition that changed its status, with Karpenter's text.
    fn publish_transitions(&self, before: &api::NodePool, after: &api::NodePool) {
        for type_ in [
            VALIDATION_SUCCEEDED,
            NODE_CLASS_READY,
            NODE_REGISTRATION_HEALTHY,
            NODES_AS_EXPECTED,
            INITIALIZATION_HEALTHY,
            DRIFT_WITHIN_CAP,
            FEATURES_AVAILABLE,
            READY,
        ] {
            let Some(now) = find(after.conditions(), type_) else { continue };
            let was = find(before.conditions(), type_).map_or(UNKNOWN, |condition| condition.status.as_str());
            if was == now.status.as_str() {
                continue;
            }
            let text = transition(type_, was, now.status.as_str(), &now.reason, &now.message);
            self.recorder.publish(Event::normal(regarding(after), type_, text));
        }
    }

    /// [`change`] of conditions.
    pub(crate) async fn change_conditions(
        &self,
        pool: &api::NodePool,
        apply: impl FnOnce(&mut ConditionSet<'_>),
    ) -> Result<(), ReconcileError> {
        let now = self.clocks.now();
        self.change(pool, |status| {
            apply(&mut ConditionSet::new(api::NodePool::TYPES, &pool.metadata, &mut status.conditions, now));
        })
        .await
    }
}
