//! `nodeclaim.hydration` and `node.hydration`: set the NodeClass label on NodeClaims and Nodes of older versions.

use async_trait::async_trait;
use fleetwright_api as api;
use fleetwright_core::model::Labels;
use fleetwright_state::{Change, Index, Key};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::claimed_node::claim_of;
use crate::{
    runtime::{ApiClient, Cluster, Controller, Ctx, RateLimit, ReconcileError, Requeue, ignore_not_found},
    settings::Settings,
};

/// Labels NodeClaims.
pub struct ClaimHydration {
    client: ApiClient,
    cluster: Cluster,
}

impl ClaimHydration {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { client: ctx.client.clone(), cluster: ctx.cluster.clone() }
    }
}

/// Labels Nodes.
pub struct NodeHydration {
    client: ApiClient,
    cluster: Cluster,
}

impl NodeHydration {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { client: ctx.client.clone(), cluster: ctx.cluster.clone() }
    }
}

#[async_trait]
impl Controller for ClaimHydration {
    fn name(&self) -> &'static str {
        "nodeclaim.hydration"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(1000, 5000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::REASONABLE
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let due =
            change.claim().is_some() && missing_label(index, &change.key.name, |_, claim| claim).is_some();
        due.then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let label = missing_label(&self.cluster.index(), &key.name, |_, claim| claim);
        let Some(MissingLabel { claim_uid, key: class_key, class, .. }) = label else {
            return Ok(Requeue::No);
        };
        let api = self.client.cluster::<api::NodeClaim>();
        let body = Patch::Merge(json!({"metadata": { "uid": claim_uid, "labels": { class_key: class } }}));
        let params = PatchParams::default();
        let patched = self.client.call("label nodeclaim", api.patch(&key.name, &params, &body)).await;
        if let Some(claim) = ignore_not_found(patched)? {
            self.cluster.observe(claim);
        }
        Ok(Requeue::No)
    }
}

#[async_trait]
impl Controller for NodeHydration {
    fn name(&self) -> &'static str {
        "node.hydration"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(1000, 5000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::REASONABLE
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let claim = claim_of(change, index).filter(|_| change.node().is_some());
        claim.filter(|claim| missing_label(index, &claim.name, node_labels).is_some()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let label = missing_label(&self.cluster.index(), &key.name, node_labels);
        let Some(MissingLabel { node: Some((node, uid)), key: class_key, class, .. }) = label else {
            return Ok(Requeue::No);
        };
        let api = self.client.cluster::<Node>();
        let body = Patch::Merge(json!({"metadata": { "uid": uid, "labels": { class_key: class } }}));
        let patched = self.client.call("label node", api.patch(&node, &PatchParams::default(), &body)).await;
        if let Some(node) = ignore_not_found(patched)? {
            self.cluster.observe(node);
        }
        Ok(Requeue::No)
    }
}

/// Selects the labels to check: those of the Node or those of the NodeClaim.
type LabelsOf = for<'a> fn(Option<&'a Labels>, Option<&'a Labels>) -> Option<&'a Labels>;

/// The labels of a registered Node. Registration labels other Nodes.
fn node_labels<'a>(node: Option<&'a Labels>, _: Option<&'a Labels>) -> Option<&'a Labels> {
    node.filter(|labels| labels.contains_key(fleetwright_core::model::labels::REGISTERED))
}

/// A NodeClass label to set.
struct MissingLabel {
    /// UID of the NodeClaim.
    claim_uid: String,
    /// Name and UID of its Node.
    node: Option<(String, String)>,
    /// Key of the label.
    key: String,
    /// Value of the label.
    class: String,
}

/// The NodeClass label, if the labels that `labels_of` selects do not have it.
fn missing_label(index: &Index, claim: &str, labels_of: LabelsOf) -> Option<MissingLabel> {
    let model = index.claim_model(claim)?;
    let node = index.nodes_of_claim(claim).next();
    let (key, class) = (model.class.label_key(), &model.class.name);
    let labels = labels_of(node.map(|node| &node.labels), Some(&model.labels))?;
    let is_missing = labels.get(&*key) != Some(class);
    is_missing.then(|| MissingLabel {
        claim_uid: model.uid.to_string(),
        node: node.map(|node| (node.name.to_string(), node.uid.to_string())),
        key,
        class: class.to_string(),
    })
}
