//! `nodepool.hash`: the drift hash on NodePools, and its migration on NodeClaims.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_api::{self as api, labels as names};
use fleetwright_core::{model::NodeClaim, nodeclaim::pool_hash};
use fleetwright_state::{Change, Index, Key, WatchedKind};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::pool_status::PoolStatus;
use crate::{
    runtime::{ApiClient, Cluster, Controller, Ctx, ReconcileError, Requeue, ignore_not_found},
    settings::Settings,
};

/// Writes hashes.
pub struct Hash {
    client: ApiClient,
    cluster: Cluster,
    pools: PoolStatus,
}

impl Hash {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { client: ctx.client.clone(), cluster: ctx.cluster.clone(), pools: PoolStatus::new(ctx) }
    }
}

#[async_trait]
impl Controller for Hash {
    fn name(&self) -> &'static str {
        "nodepool.hash"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        (change.kind == WatchedKind::NodePool).then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let (model, claims) = {
            let index = self.cluster.index();
            let Some(model) = index.pool_model(&key.name).cloned() else { return Ok(Requeue::No) };
            let of_pool = |claim: &&Arc<NodeClaim>| claim.pool.as_deref() == Some(&*key.name);
            (model, index.claim_models().filter(of_pool).cloned().collect::<Vec<_>>())
        };
        let (hash, version) = (pool.drift_hash(), names::CURRENT_NODEPOOL_HASH_VERSION);
        let claims: Vec<&NodeClaim> = claims.iter().map(|claim| &**claim).collect();
        let uid_of = |name: &str| claims.iter().find(|claim| *claim.name == *name).map(|claim| &*claim.uid);
        let update = pool_hash::update(&model, &claims, &hash, version);
        let params = PatchParams::default();
        for (name, hash) in update.claims {
            let mut annotations = json!({ names::NODEPOOL_HASH_VERSION: version });
            if let Some(hash) = hash {
                annotations[names::NODEPOOL_HASH] = json!(&*hash);
            }
            let api = self.client.cluster::<api::NodeClaim>();
            let body =
                Patch::Merge(json!({"metadata": { "uid": uid_of(&name), "annotations": annotations }}));
            let patched = self.client.call("write hash of nodeclaim", api.patch(&name, &params, &body)).await;
            if let Some(claim) = ignore_not_found(patched)? {
                self.cluster.observe(claim);
            }
        }
        if update.pool {
            let api = self.client.cluster::<api::NodePool>();
            let annotations = json!({ names::NODEPOOL_HASH: hash, names::NODEPOOL_HASH_VERSION: version });
            // Only the version that was hashed gets the hash.
            let version = &pool.metadata.resource_version;
            let body =
                Patch::Merge(json!({"metadata": { "resourceVersion": version, "annotations": annotations }}));
            let patched =
                self.client.call("write hash of nodepool", api.patch(&key.name, &params, &body)).await;
            if let Some(pool) = ignore_not_found(patched)? {
                self.cluster.observe(pool);
            }
        }
        Ok(Requeue::No)
    }
}
