//! Adoption after a restart of a process with an embedded fake cloud: instances are restored from NodeClaims and Nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use fleetwright_core::clock::Clock;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::Value;

use crate::{
    api::{ApiError, Bootstrap, CloudApi as _, CloudInstance, Lifecycle, Tags, Terminate, WireTaint},
    cloud::{Adopted, Cloud},
    labels::{ATTEMPT, BATCH_ID, CLAIM, CLUSTER_UID},
    quantities::QuantityMap,
};

/// Objects per page.
const PAGE: u32 = 500;
/// Maximum number of pages.
const MAX_PAGES: usize = 2000;

/// Why nothing was adopted, or followed.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The API server did not answer.
    #[error("listing NodeClaims and Nodes: {0}")]
    Read(#[from] kube::Error),
    /// There are more objects than the limit.
    #[error("more than {0} objects of one kind")]
    TooMany(usize),
    /// The cloud did not terminate an instance.
    #[error("terminating an instance: {0}")]
    Cloud(#[from] ApiError),
}

/// Adds the instances of the cluster's NodeClaims and Nodes to `cloud`, owned by the cluster with `cluster_uid`, and returns their
/// number. Instances of other clouds are skipped. Call it before the provider is used.
///
/// # Errors
/// If the cluster cannot be read.
pub async fn adopt(client: Client, cloud: &Cloud, cluster_uid: &str) -> Result<usize, AdoptError> {
    let (claims, nodes) = read(client).await?;
    let mut found: BTreeMap<String, Adopted> = BTreeMap::new();
    for claim in &claims {
        if let Some(adopted) = from_claim(claim, cluster_uid) {
            found.insert(adopted.provider_id.clone(), adopted);
        }
    }
    for node in &nodes {
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        if is_ours(&provider_id) {
            let known = found.remove(&provider_id);
            found.insert(provider_id.clone(), from_node(node, provider_id, known, cluster_uid));
        }
    }
    Ok(found.into_values().filter(|adopted| cloud.adopt(adopted.clone())).count())
}

/// Makes the instances of `cloud` correspond to Nodes of another controller, at this interval. For such a controller a Node is the
/// instance, as it is for Karpenter's kwok provider. A failure is logged, and the next round tries again.
pub async fn follow(
    client: Client,
    cloud: &Cloud,
    cluster_uid: &str,
    clock: &dyn Clock,
    every: Duration,
) -> Infallible {
    loop {
        clock.sleep(every).await;
        if let Err(error) = follow_once(client.clone(), cloud, cluster_uid).await {
            tracing::warn!(%error, "cannot follow the nodes of another controller");
        }
    }
}

/// Adopts Nodes, and terminates instances whose Node and NodeClaim are gone. It returns both numbers.
///
/// A NodeClaim alone is not adopted: the other controller creates the Node of it.
///
/// # Errors
/// If the cluster cannot be read, or the cloud does not terminate an instance.
async fn follow_once(client: Client, cloud: &Cloud, cluster_uid: &str) -> Result<(usize, usize), AdoptError> {
    // Before the cluster is read: an instance of that time has its NodeClaim or Node there, unless they were deleted.
    let before = cloud.instances();
    let (claims, nodes) = read(client).await?;
    let ended = ended(&before, &claims, &nodes);
    for id in &ended {
        let call = Terminate { cluster_uid: cluster_uid.to_owned(), id: id.clone(), has_node_claim: false };
        cloud.terminate(&call).await?;
    }
    let mut by_id: BTreeMap<String, Adopted> = claims
        .iter()
        .filter_map(|claim| from_claim(claim, cluster_uid))
        .map(|adopted| (adopted.provider_id.clone(), adopted))
        .collect();
    let found = nodes.iter().filter_map(|node| {
        let id = provider_id(node).filter(|id| is_ours(id))?.to_owned();
        let known = by_id.remove(&id);
        Some(from_node(node, id, known, cluster_uid))
    });
    Ok((found.filter(|adopted| cloud.adopt(adopted.clone())).count(), ended.len()))
}

/// The running instances whose node had joined, and of which neither Node nor NodeClaim is left.
pub(super) fn ended(
    instances: &[Arc<CloudInstance>],
    claims: &[DynamicObject],
    nodes: &[Node],
) -> Vec<String> {
    let of_claims = claims.iter().filter_map(|claim| claim.data.pointer("/status/providerID")?.as_str());
    let present: BTreeSet<&str> = of_claims.chain(nodes.iter().filter_map(provider_id)).collect();
    let running = instances
        .iter()
        .filter(|instance| instance.state == Lifecycle::Running && instance.joined)
        .map(|instance| instance.id.clone());
    running.filter(|id| !present.contains(id.as_str())).collect()
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

/// All NodeClaims, then all Nodes.
async fn read(client: Client) -> Result<(Vec<DynamicObject>, Vec<Node>), AdoptError> {
    let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
    let kind = ApiResource::from_gvk_with_plural(&kind, "nodeclaims");
    let claims = all(Api::<DynamicObject>::all_with(client.clone(), &kind)).await?;
    Ok((claims, all(Api::<Node>::all(client)).await?))
}

/// Whether a provider id is of a fake cloud.
fn is_ours(provider_id: &str) -> bool {
    ["kwok://", "fake://"].iter().any(|scheme| provider_id.starts_with(scheme))
}

async fn all<K>(api: Api<K>) -> Result<Vec<K>, AdoptError>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let mut items = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..MAX_PAGES {
        let page = api.list(&params).await?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
    Err(AdoptError::TooMany(items.len()))
}

fn strings(value: Option<&Value>) -> BTreeMap<String, String> {
    let object = value.and_then(Value::as_object).into_iter().flatten();
    object.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The instance of a NodeClaim that has one.
pub(super) fn from_claim(claim: &DynamicObject, cluster_uid: &str) -> Option<Adopted> {
    let status = claim.data.get("status")?;
    let provider_id = status.get("providerID")?.as_str().filter(|id| is_ours(id))?.to_owned();
    let labels: BTreeMap<String, String> = claim.labels().clone();
    let taints =
        ["taints", "startupTaints"].iter().filter_map(|list| claim.data.pointer(&format!("/spec/{list}")));
    let taints = taints.filter_map(Value::as_array).flatten();
    let mut bootstrap = Bootstrap {
        labels: labels.clone(),
        annotations: claim.annotations().clone(),
        taints: taints.filter_map(|taint| serde_json::from_value::<WireTaint>(taint.clone()).ok()).collect(),
    };
    bootstrap.taints.insert(
        0,
        WireTaint {
            key: fleetwright_core::model::labels::UNREGISTERED_TAINT.to_owned(),
            value: String::new(),
            effect: "NoExecute".to_owned(),
        },
    );
    Some(Adopted {
        provider_id,
        node_name: status.get("nodeName").and_then(Value::as_str).unwrap_or_default().to_owned(),
        tags: Tags {
            cluster_uid: Some(cluster_uid.to_owned()),
            node_pool: labels.get(fleetwright_core::model::labels::NODEPOOL).cloned(),
            claim: Some(claim.name_any()),
            batch: claim.annotations().get(BATCH_ID).cloned(),
            attempt: attempt(claim.annotations()),
        },
        labels,
        bootstrap,
        capacity: strings(status.get("capacity")),
        allocatable: strings(status.get("allocatable")),
        launched_at: claim.creation_timestamp().map(|time| time.0),
        // A registered claim had a node, even if it is gone now.
        joined: status.get("nodeName").and_then(Value::as_str).is_some_and(|name| !name.is_empty()),
    })
}

fn attempt(annotations: &BTreeMap<String, String>) -> u32 {
    annotations.get(ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The instance of a Node, with the data of its NodeClaim.
fn from_node(node: &Node, provider_id: String, known: Option<Adopted>, cluster_uid: &str) -> Adopted {
    let status = node.status.as_ref();
    let quantities =
        |of: Option<&BTreeMap<_, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>| -> QuantityMap {
            of.into_iter()
                .flatten()
                .map(|(key, quantity): (&String, _)| (key.clone(), quantity.0.clone()))
                .collect()
        };
    let annotations = node.annotations();
    // Without a NodeClaim, the Node's annotation names the owner.
    let owner = annotations.get(CLUSTER_UID).map_or(cluster_uid, String::as_str);
    let adopted = known.unwrap_or_else(|| Adopted {
        tags: Tags {
            cluster_uid: Some(owner.to_owned()),
            node_pool: node.labels().get(fleetwright_core::model::labels::NODEPOOL).cloned(),
            claim: annotations.get(CLAIM).cloned(),
            batch: annotations.get(BATCH_ID).cloned(),
            attempt: attempt(annotations),
        },
        launched_at: node.creation_timestamp().map(|time| time.0),
        ..Adopted::default()
    });
    Adopted {
        provider_id,
        node_name: node.name_any(),
        labels: node.labels().clone(),
        capacity: quantities(status.and_then(|status| status.capacity.as_ref())),
        allocatable: quantities(status.and_then(|status| status.allocatable.as_ref())),
        joined: true,
        ..adopted
    }
}
