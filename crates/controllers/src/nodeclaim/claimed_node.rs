//! A NodeClaim with its Nodes, pods and NodePool, as in the index.

use std::sync::Arc;

use fleetwright_api as api;
use fleetwright_core::{
    cloud::ProviderInfo,
    model::{
        Node, NodeClaim, NodePool, Pod, PodDisruptionBudget, Price, Str, labels, nodeclaim::ConditionType,
    },
    nodeclaim::{ClaimView, launch},
};
use fleetwright_state::{Change, Index, Key};

use crate::{runtime::Cluster, settings::Settings};

/// Owns what a [`ClaimView`] borrows.
#[derive(Clone)]
pub(crate) struct ClaimedNode {
    /// The NodeClaim as read.
    pub(crate) raw: Arc<api::NodeClaim>,
    /// The NodeClaim of the model.
    pub(crate) claim: Arc<NodeClaim>,
    /// Nodes with its provider ID, by name.
    pub(crate) nodes: Vec<Arc<Node>>,
    /// Its NodePool.
    pub(crate) pool: Option<Arc<NodePool>>,
    /// The pods on those nodes.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// The PodDisruptionBudgets that cover one of those pods, if the NodeClaim is being deleted.
    pub(crate) budgets: Vec<Arc<PodDisruptionBudget>>,
    /// Drivers that have published a complete pool of devices for its node; `None` if resource claims are ignored.
    pub(crate) published_drivers: Option<Vec<Str>>,
}

impl ClaimedNode {
    /// Reads NodeClaim `name`; `None` if it does not exist, is not managed or is invalid.
    pub(crate) fn find(cluster: &Cluster, settings: &Settings, name: &str) -> Option<Self> {
        let index = cluster.index();
        let (raw, claim) = (index.claim(name)?.clone(), index.claim_model(name)?.clone());
        Some(Self::of(settings, &index, raw, claim))
    }

    /// Reads the node of `claim`, which is about to be written; `None` if it would not be managed or valid.
    pub(crate) fn preview(cluster: &Cluster, settings: &Settings, claim: api::NodeClaim) -> Option<Self> {
        let index = cluster.index();
        let model = Arc::new(index.read_claim(&claim)?);
        Some(Self::of(settings, &index, Arc::new(claim), model))
    }

    fn of(settings: &Settings, index: &Index, raw: Arc<api::NodeClaim>, claim: Arc<NodeClaim>) -> Self {
        let nodes: Vec<Arc<Node>> = index.nodes_with(&claim).cloned().collect();
        let pool = claim.pool.as_ref().and_then(|pool| index.pool_model(pool)).cloned();
        let pods: Vec<Arc<Pod>> = nodes.iter().flat_map(|node| index.pods_on(&node.name)).cloned().collect();
        let covers = |budget: &&Arc<PodDisruptionBudget>| {
            claim.deleting.is_some() && pods.iter().any(|pod: &Arc<Pod>| budget.covers_pod(pod))
        };
        let budgets = index.pdbs().filter(covers).cloned().collect();
        let drivers = || nodes.first().map(|node| index.published_drivers(&node.name)).unwrap_or_default();
        let published_drivers = (!settings.ignore_dra_requests).then(drivers);
        Self { raw, claim, nodes, pool, pods, budgets, published_drivers }
    }

    /// Its list price, if it has been launched and the catalogue of its NodePool has it.
    pub(crate) fn price(&self, cluster: &Cluster) -> Option<Price> {
        let label = |key| self.claim.labels.get(key).map(|value| &**value).unwrap_or_default();
        let catalog = cluster.index().catalog(self.claim.pool.as_ref()?)?.clone();
        catalog.price(label(labels::INSTANCE_TYPE), label(labels::ZONE), label(labels::CAPACITY_TYPE))
    }

    /// Restricts it to one node and its pods.
    pub(crate) fn only(mut self, node: &Node) -> Self {
        self.nodes.retain(|known| known.name == node.name);
        self.pods.retain(|pod| pod.node.as_ref() == Some(&node.name));
        self
    }

    /// The view for the stages of `core::nodeclaim`.
    pub(crate) fn view<'a>(&'a self, provider: &'a ProviderInfo) -> ClaimView<'a> {
        ClaimView {
            claim: &self.claim,
            nodes: &self.nodes,
            pool: self.pool.as_deref(),
            pods: &self.pods,
            budgets: &self.budgets,
            published_drivers: self.published_drivers.as_deref(),
            provider,
        }
    }

    /// A label of the NodeClaim; empty if it is not set.
    pub(crate) fn label(&self, key: &str) -> &str {
        self.claim.labels.get(key).map_or("", |value| &**value)
    }

    /// The name of its NodePool, for metrics.
    pub(crate) fn pool_name(&self) -> &str {
        self.label(labels::NODEPOOL)
    }

    /// Whether a list of instances has to show that the launch left none before the finalizer is removed.
    pub(crate) fn must_trace_launch(&self) -> bool {
        self.claim.deleting.is_some() && launch::is_outcome_open(&self.claim)
    }
}

/// The keys of NodeClaims that wait for drivers to publish devices.
pub(crate) fn waiting_for_drivers(index: &Index) -> Vec<Key> {
    let waits = |claim: &&Arc<NodeClaim>| {
        claim.is(ConditionType::Registered)
            && !claim.is(ConditionType::Initialized)
            && claim.annotations.contains_key(labels::REQUESTED_DRA_DRIVERS)
    };
    index.claim_models().filter(waits).map(|claim| Key::cluster(claim.name.to_string())).collect()
}

/// The key of the NodeClaim that a change of a NodeClaim or a Node concerns.
pub(crate) fn claim_of(change: &Change, index: &Index) -> Option<Key> {
    if change.claim().is_some() {
        return Some(change.key.clone());
    }
    let node = change.node()?;
    if let Some(claim) = index.claim_of_node(&change.key.name) {
        return Some(Key::cluster(claim.metadata.name.as_deref().unwrap_or_default()));
    }
    // A deleted Node is not in the index. Its provider ID names its NodeClaim, if that exists: of several Nodes with that
    // ID none was registered. Otherwise its owner reference does.
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
    if let Some(claim) = id.and_then(|id| index.claim_of_provider_id(id)) {
        return Some(Key::cluster(claim.metadata.name.as_deref().unwrap_or_default()));
    }
    let owners = node.metadata.owner_references.iter().flatten();
    owners.filter(|owner| owner.kind == "NodeClaim").map(|owner| Key::cluster(owner.name.as_str())).next()
}
