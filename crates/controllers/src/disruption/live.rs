//! Reads what may block a disruption from the API server right before it happens: pods by node, PodDisruptionBudgets,
//! budgets of NodePools, and the nodes themselves.
//!
//! The objects go into the index, so that the next decision uses them; nothing is decided here. A pod that was deleted
//! meanwhile is in the index until the watch reports its deletion, which is safe.

use fleetwright_api::NodePool;
use fleetwright_core::disruption::Candidate;
use futures::{StreamExt, stream};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, api::ListParams};

use crate::runtime::{ApiClient, Cluster, ReconcileError, ignore_not_found};

/// How many nodes are read concurrently.
const CONCURRENCY: usize = 10;

/// Reads the objects of `candidates`.
///
/// # Errors
/// If an object cannot be read: then nothing may be deleted.
pub(super) async fn refresh(
    client: &ApiClient,
    cluster: &Cluster,
    candidates: &[Candidate],
) -> Result<(), ReconcileError> {
    let budgets = Api::<PodDisruptionBudget>::all(client.client());
    for budget in client.call("list poddisruptionbudgets", budgets.list(&ListParams::default())).await? {
        cluster.observe(budget);
    }
    let pools: Api<NodePool> = client.cluster();
    for pool in client.call("list nodepools", pools.list(&ListParams::default())).await? {
        cluster.observe(pool);
    }
    let names: Vec<String> = candidates
        .iter()
        .filter_map(|candidate| candidate.node.node_name())
        .map(ToString::to_string)
        .collect();
    let mut reads =
        stream::iter(names.into_iter().map(|name| node(client, cluster, name))).buffered(CONCURRENCY);
    while let Some(read) = reads.next().await {
        read?;
    }
    Ok(())
}

async fn node(client: &ApiClient, cluster: &Cluster, name: String) -> Result<(), ReconcileError> {
    let nodes: Api<Node> = client.cluster();
    if let Some(node) = ignore_not_found(client.call("get node", nodes.get(&name)).await)? {
        cluster.observe(node);
    }
    let pods = Api::<Pod>::all(client.client());
    let params = ListParams::default().fields(&format!("spec.nodeName={name}"));
    for pod in client.call("list pods of a node", pods.list(&params)).await? {
        cluster.observe(pod);
    }
    Ok(())
}
