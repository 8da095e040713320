//! Changes to shared objects: small, guarded by the resource version that they were read at, repeated on conflict.

use std::{fmt, sync::Arc};

use fleetwright_api::{
    self as api,
    conditions::{ConditionSet, HasConditions},
};
use fleetwright_state::Tracked;
use k8s_openapi::{
    ClusterResourceScope,
    api::core::v1::{Node, Taint},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::runtime::{ApiClient, Clocks, Cluster, Ctx, ReconcileError, ignore_not_found};

/// Maximum number of attempts, each on a newer version of the object.
const MAX_ATTEMPTS: usize = 5;

/// Changes shared objects: small, guarded by the resource version, repeated on conflict.
#[derive(Clone)]
pub(crate) struct Patches {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
}

impl Patches {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { client: ctx.client.clone(), cluster: ctx.cluster.clone(), clocks: ctx.clocks.clone() }
    }

    /// Changes the conditions of a NodeClaim. Writes nothing if nothing changes.
    ///
    /// # Errors
    /// If the NodeClaim does not exist, the API server cannot be reached, or each attempt conflicts.
    pub(crate) async fn claim_conditions(
        &self,
        name: &str,
        change: impl Fn(&mut ConditionSet<'_>),
    ) -> Result<(), ReconcileError> {
        let api: Api<api::NodeClaim> = self.client.cluster();
        let known = self.cluster.index().claim(name).cloned();
        let mut claim = match known {
            Some(claim) => (*claim).clone(),
            None => self.client.call("get nodeclaim", api.get(name)).await?,
        };
        for _ in 0..MAX_ATTEMPTS {
            let meta = claim.metadata.clone();
            let before = claim.conditions().to_vec();
            change(&mut claim.condition_set(self.clocks.now()));
            if claim.conditions() == before {
                return Ok(());
            }
            let patch = json!({
                "metadata": {"resourceVersion": meta.resource_version},
                "status": {"conditions": claim.conditions()},
            });
            let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
            match self.client.call("patch nodeclaim status", api.patch_status(name, &params, &patch)).await {
                Ok(updated) => {
                    self.cluster.observe(updated);
                    return Ok(());
                }
                Err(error) if error.is_conflict() => {
                    claim = self.client.call("get nodeclaim", api.get(name)).await?
                }
                Err(error) => return Err(error),
            }
        }
        Err(ReconcileError::Conflict { what: "patch nodeclaim status" })
    }

    /// Changes the taints of a Node, entry by entry on the newest list, so that no taint of another writer is lost. Writes nothing
    /// if nothing changes.
    ///
    /// # Errors
    /// If the Node does not exist, the API server cannot be reached, or each attempt conflicts.
    pub(crate) async fn node_taints(
        &self,
        name: &str,
        change: impl Fn(&mut Vec<Taint>),
    ) -> Result<(), ReconcileError> {
        let api: Api<Node> = self.client.cluster();
        let known = self.cluster.index().node(name).cloned();
        let mut node = match known {
            Some(node) => (*node).clone(),
            None => self.client.call("get node", api.get(name)).await?,
        };
        for _ in 0..MAX_ATTEMPTS {
            let before = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            let mut taints = before.clone();
            change(&mut taints);
            if taints == before {
                return Ok(());
            }
            let patch = json!({
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": taints},
            });
            match self
                .client
                .call("patch node taints", api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)))
                .await
            {
                Ok(updated) => {
                    self.cluster.observe(updated);
                    return Ok(());
                }
                Err(error) if error.is_conflict() => {
                    node = self.client.call("get node", api.get(name)).await?
                }
                Err(error) => return Err(error),
            }
        }
        Err(ReconcileError::Conflict { what: "patch node taints" })
    }

    /// Changes one annotation of a NodeClaim or NodePool on its newest value; `None` removes it. Writes nothing if
    /// nothing changes or the object does not exist.
    ///
    /// # Errors
    /// If the API server cannot be reached, or each attempt conflicts.
    pub(crate) async fn annotate<K>(
        &self,
        known: Arc<K>,
        key: &str,
        change: impl Fn(Option<&str>) -> Option<String>,
    ) -> Result<(), ReconcileError>
    where
        K: Tracked
            + kube::Resource<Scope = ClusterResourceScope, DynamicType = ()>
            + Clone
            + fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = self.client.cluster();
        let mut object = (*known).clone();
        for _ in 0..MAX_ATTEMPTS {
            let meta = kube::Resource::meta(&object).clone();
            let before = meta.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
            let after = change(before);
            if after.as_deref() == before {
                return Ok(());
            }
            let name = meta.name.as_deref().unwrap_or_default();
            let body = Patch::Merge(json!({"metadata": {
                "resourceVersion": meta.resource_version,
                "annotations": { key: after },
            }}));
            match self.client.call("patch annotation", api.patch(name, &PatchParams::default(), &body)).await
            {
                Ok(updated) => {
                    self.cluster.observe(updated);
                    return Ok(());
                }
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if error.is_conflict() => {
                    match ignore_not_found(self.client.call("get for annotation", api.get(name)).await)? {
                        Some(newest) => object = newest,
                        None => return Ok(()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(ReconcileError::Conflict { what: "patch annotation" })
    }
}
