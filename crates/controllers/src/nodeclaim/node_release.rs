//! The end of a Node: without our finalizer it is deleted, and counts as terminated.

use fleetwright_api::labels as names;
use fleetwright_core::model::labels;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::families;
use crate::{
    log,
    metrics::Metrics,
    runtime::{ApiClient, Cluster, ReconcileError, ignore_not_found},
};

/// Removes the finalizer of a Node, and counts its end. `claim` is its NodeClaim, if it has one.
pub(super) async fn release(
    client: &ApiClient,
    cluster: &Cluster,
    metrics: &Metrics,
    (name, claim): (&str, Option<&str>),
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let Some(node) = cluster.index().node(name).cloned() else { return Ok(()) };
    remove_finalizer(client, cluster, &node).await?;
    let label = |key: &str| {
        let found = node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
        found.map(String::as_str).unwrap_or_default()
    };
    let (pool, zone) = (label(labels::NODEPOOL), label(labels::ZONE));
    metrics.inc(&families::NODES_TERMINATED, &[pool, zone]);
    let seconds = |since: Timestamp| now.duration_since(since).as_secs_f64().max(0.0);
    if let Some(deleted) = &node.metadata.deletion_timestamp {
        metrics.observe(&families::NODE_TERMINATION, &[pool], seconds(deleted.0));
    }
    if let Some(created) = &node.metadata.creation_timestamp {
        metrics.observe(&families::NODE_LIFETIME, &[pool], seconds(created.0));
    }
    log::deleted_node(name, claim);
    Ok(())
}

async fn remove_finalizer(client: &ApiClient, cluster: &Cluster, node: &Node) -> Result<(), ReconcileError> {
    let mut finalizers = node.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|name| name != names::TERMINATION_FINALIZER);
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let body = json!({"metadata": {
        "resourceVersion": node.metadata.resource_version,
        "finalizers": finalizers,
    }});
    let (api, params, body) = (client.cluster::<Node>(), PatchParams::default(), Patch::Merge(body));
    let result = client.call("remove finalizer of node", api.patch(name, &params, &body)).await;
    if let Some(node) = ignore_not_found(result)? {
        if node.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) {
            cluster.forget(&node);
        } else {
            cluster.observe(node);
        }
    }
    Ok(())
}
