//! The other half of garbage collection: terminates instances of this cluster that no NodeClaim accounts for.

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleetwright_api::{self as api, labels as names};
use fleetwright_core::{
    cloud::{CloudError, CloudProvider, Instance, Termination},
    model::{BatchId, ProviderId},
    nodeclaim::orphans::{Claimed, Findings, Orphans, is_orphan},
    safety::{Act, Facts},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Preconditions},
    core::ApiResource,
};

use super::families;
use crate::{
    metrics::Metrics,
    runtime::{ApiClient, Clocks, Cluster, Ctx, ReconcileError, decisions::Decisions, ignore_not_found},
    safety::Safety,
};

/// Terminates orphaned instances.
pub(super) struct OrphanCollector {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    safety: Safety,
    cluster_uid: Arc<str>,
    metrics: Arc<Metrics>,
    decisions: Decisions,
    orphans: Mutex<Orphans>,
}

/// The outcome for an instance that lists showed as an orphan.
enum Outcome {
    Terminated,
    NotOrphaned,
    Held,
}

impl OrphanCollector {
    /// Starts without orphans.
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            safety: Safety::new(ctx),
            cluster_uid: ctx.cluster_uid.clone(),
            metrics: ctx.metrics.clone(),
            decisions: ctx.decisions.clone(),
            orphans: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Orphans> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evaluates a complete list of instances, and terminates those that have been orphans for long enough, after a last check. Returns
    /// when the next one may be due.
    pub(super) async fn collect(
        &self,
        instances: &[Instance],
    ) -> Result<Option<std::time::Duration>, ReconcileError> {
        let claimed = from_index(&self.cluster);
        let (now, steady) = (self.clocks.now(), self.clocks.steady());
        let Findings { due, held, again } = self.lock().survey(
            instances,
            &claimed,
            &self.cluster_uid,
            &mut self.safety.limits(),
            now,
            steady,
        );
        let all = instances.len();
        let limit = self.safety.limits().beyond_room(Act::TerminateOrphan, steady).filter(|_| held > 0);
        if let Some(limit) = limit {
            self.safety.count_held(Act::TerminateOrphan, &limit, held);
        }
        if due.is_empty() {
            return Ok(again);
        }
        let claimed = from_api_server(&self.client).await?;
        for id in &due {
            // A failure for one instance does not delay the others.
            match self.terminate(id, all, &claimed).await {
                Ok(Outcome::Terminated) => {
                    tracing::warn!(%id, "terminated an instance that no nodeclaim accounts for");
                }
                Ok(Outcome::NotOrphaned) => self.lock().forget(id),
                Ok(Outcome::Held) => {}
                Err(error) => {
                    tracing::warn!(%id, %error, "cannot terminate an instance that no nodeclaim accounts for");
                }
            }
        }
        Ok(again)
    }

    /// Reads an instance again and terminates it if it is still an orphan.
    async fn terminate(
        &self,
        id: &ProviderId,
        all: usize,
        claimed: &Claimed,
    ) -> Result<Outcome, ReconcileError> {
        let instance = match self.cloud.get(id).await {
            Ok(instance) => instance,
            Err(CloudError::NotFound(_)) => return Ok(Outcome::NotOrphaned),
            Err(error) => return Err(error.into()),
        };
        if !is_orphan(&instance, claimed, &self.cluster_uid) {
            return Ok(Outcome::NotOrphaned);
        }
        // Counted before the call: a call without a response may have had its effect.
        let facts = Facts { subject: id, all, ..Facts::default() };
        if let Err(held) = self.safety.admit(Act::TerminateOrphan, &facts) {
            tracing::info!(%id, %held, "termination is held");
            return Ok(Outcome::Held);
        }
        self.lock().forget(id);
        let decision = self.decisions.orphan(id);
        let answer = self.cloud.terminate_orphan(id).await;
        self.decisions.orphan_ended(&decision, answer.as_ref().err().map(ToString::to_string));
        let (Termination::Accepted | Termination::Gone) = answer?;
        self.metrics.inc(&families::ORPHANS_TERMINATED, &[]);
        delete_nodes(&self.client, &self.cluster, id).await?;
        Ok(Outcome::Terminated)
    }
}

/// The instances and batches of the NodeClaims in the index.
fn from_index(cluster: &Cluster) -> Claimed {
    let mut claimed = Claimed::default();
    for claim in cluster.index().claims() {
        let meta = &claim.metadata;
        let instance = claim.status.as_ref().map(|status| status.provider_id.as_str());
        let annotation = meta.annotations.as_ref().and_then(|all| all.get(names::BATCH_ID));
        add(&mut claimed, meta.name.as_deref(), [annotation, meta.uid.as_ref()], instance);
    }
    claimed
}

/// The instances and batches of the NodeClaims on the API server; untyped, so that an invalid NodeClaim counts too.
async fn from_api_server(client: &ApiClient) -> Result<Claimed, ReconcileError> {
    let resource = ApiResource::erase::<api::NodeClaim>(&());
    let all = Api::<DynamicObject>::all_with(client.client(), &resource);
    let mut claimed = Claimed::default();
    for claim in client.call("list nodeclaims", all.list(&ListParams::default())).await? {
        let meta = &claim.metadata;
        let instance = claim.data.pointer("/status/providerID").and_then(serde_json::Value::as_str);
        let annotation = meta.annotations.as_ref().and_then(|all| all.get(names::BATCH_ID));
        add(&mut claimed, meta.name.as_deref(), [annotation, meta.uid.as_ref()], instance);
    }
    Ok(claimed)
}

/// Adds a NodeClaim with its batches: that of the annotation, and its UID if it is launched alone.
fn add(claimed: &mut Claimed, name: Option<&str>, batches: [Option<&String>; 2], instance: Option<&str>) {
    let instance = instance.filter(|id| !id.is_empty()).map(ProviderId::from);
    for batch in batches.into_iter().flatten() {
        let batch = BatchId::from(batch.as_str());
        claimed.add(name.unwrap_or_default().into(), batch, instance.clone());
    }
}

/// Deletes the Nodes of a terminating instance: without a NodeClaim they are not drained.
async fn delete_nodes(client: &ApiClient, cluster: &Cluster, id: &ProviderId) -> Result<(), ReconcileError> {
    let named: Vec<(String, Option<String>)> = {
        let index = cluster.index();
        let of =
            |node: &&Arc<Node>| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id);
        let nodes = index.nodes().filter(of).map(|node| &node.metadata);
        nodes.map(|meta| (meta.name.clone().unwrap_or_default(), meta.uid.clone())).collect()
    };
    let api: Api<Node> = client.cluster();
    for (name, uid) in named {
        let preconditions = Preconditions { uid, resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        ignore_not_found(client.call("delete node", api.delete(&name, &params)).await)?;
    }
    Ok(())
}
