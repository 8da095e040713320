//! Changes of Nodes, entry by entry, in one patch that fails on a conflict with another writer.

use fleetwright_api::labels::TERMINATION_FINALIZER;
use fleetwright_core::{
    model::{Labels, NodeClaim},
    nodeclaim::NodeChange,
};
use k8s_openapi::{
    api::core::v1::{Node, Taint},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use crate::{
    log,
    runtime::{ApiClient, Cluster, ReconcileError},
};

/// Changes the Node of a NodeClaim, or one that has none.
pub(super) async fn write(
    client: &ApiClient,
    cluster: &Cluster,
    change: &NodeChange,
    claim: Option<&NodeClaim>,
) -> Result<(), ReconcileError> {
    let Some(name) = &change.node else { return Ok(()) };
    let Some(node) = cluster.index().node(name).cloned() else { return Ok(()) };
    let Some(body) = of(&node, change, claim) else { return Ok(()) };
    let (api, params) = (client.cluster::<Node>(), PatchParams::default());
    let patched = client.call("patch node", api.patch(name, &params, &Patch::Merge(body))).await?;
    for taint in &change.add_taints {
        let claim = claim.map_or("", |claim| &claim.name);
        log::tainted_node(name, claim, &taint.key, &taint.value, taint.effect.as_str());
    }
    cluster.observe(patched);
    Ok(())
}

/// The merge patch that applies `change` to the node of `claim`, if it has one; `None` if nothing changes.
fn of(node: &Node, change: &NodeChange, claim: Option<&NodeClaim>) -> Option<Value> {
    let mut metadata = Map::new();
    let current = node.metadata.finalizers.clone().unwrap_or_default();
    if change.add_finalizer && !current.iter().any(|name| name == TERMINATION_FINALIZER) {
        let mut finalizers = current;
        finalizers.push(TERMINATION_FINALIZER.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if change.own
        && let Some(owners) = claim.and_then(|claim| with_owner(node, claim))
    {
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    let labels = missing(node.metadata.labels.as_ref(), &change.labels);
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    let annotations = missing(node.metadata.annotations.as_ref(), &change.annotations);
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    let mut patch = Map::new();
    if let Some(taints) = taints(node, change) {
        patch.insert("spec".to_owned(), json!({ "taints": taints }));
    }
    if metadata.is_empty() && patch.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".to_owned(), json!(node.metadata.resource_version));
    patch.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Value::Object(patch))
}

fn missing(
    current: Option<&std::collections::BTreeMap<String, String>>,
    desired: &Labels,
) -> Map<String, Value> {
    let is_set =
        |key: &str, value: &str| current.and_then(|current| current.get(key)).is_some_and(|v| v == value);
    desired
        .iter()
        .filter(|(key, value)| !is_set(key, value))
        .map(|(key, value)| (key.to_string(), json!(&**value)))
        .collect()
}

fn with_owner(node: &Node, claim: &NodeClaim) -> Option<Vec<OwnerReference>> {
    let mut owners = node.metadata.owner_references.clone().unwrap_or_default();
    if owners.iter().any(|owner| *owner.uid == *claim.uid) {
        return None;
    }
    owners.push(OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodeClaim".to_owned(),
        name: claim.name.to_string(),
        uid: claim.uid.to_string(),
        block_owner_deletion: Some(true),
        controller: None,
    });
    Some(owners)
}

/// The taints of the node after the change; `None` if they do not change.
fn taints(node: &Node, change: &NodeChange) -> Option<Vec<Taint>> {
    let current = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let same = |taint: &Taint, other: &fleetwright_core::model::Taint| {
        *taint.key == *other.key && taint.effect == other.effect.as_str()
    };
    let mut taints = current.clone();
    taints.retain(|taint| !change.remove_taints.iter().any(|gone| same(taint, gone)));
    for added in &change.add_taints {
        if !taints.iter().any(|taint| same(taint, added)) {
            taints.push(Taint {
                key: added.key.to_string(),
                value: (!added.value.is_empty()).then(|| added.value.to_string()),
                effect: added.effect.as_str().to_owned(),
                time_added: None,
            });
        }
    }
    (taints != current).then_some(taints)
}
