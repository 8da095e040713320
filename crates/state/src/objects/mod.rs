//! The objects that watches deliver, as read and lowered, and the lookups in them.

mod daemons;
mod devices;
mod invalid;
mod limit_ranges;
pub(crate) mod nodes;
mod pods;
mod pools;
mod put;
mod volumes;
mod workloads;

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_api as api;
use fleetwright_core::model::{
    self, LabelSchema, Labels, NamespacedName, NodeClassRef, Pod, PodDisruptionBudget, PodUid, Str,
    VolumeClaim, nodeclaim::ConditionType,
};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Node, storage::v1::VolumeAttachment};

use self::{
    daemons::DaemonTable, devices::DeviceTable, invalid::InvalidObjects, limit_ranges::LimitRangeTable,
    nodes::NodeTable, pods::Pods, pools::PoolTable, volumes::VolumeTable, workloads::WorkloadTable,
};
use crate::{
    kind::{Key, WatchedKind},
    lower::{self, Invalid, pod::Interner},
};

/// The objects of the cluster.
#[derive(Debug)]
pub struct Objects {
    pub(crate) schema: Arc<LabelSchema>,
    /// Groups and kinds of the provider's NodeClasses.
    managed_classes: Vec<NodeClassRef>,
    invalid: InvalidObjects,
    interner: Interner,
    pub(crate) pods: Pods,
    pub(crate) nodes: NodeTable,
    pub(crate) pools: PoolTable,
    pub(crate) daemons: DaemonTable,
    pub(crate) limit_ranges: LimitRangeTable,
    pub(crate) namespaces: Arc<BTreeMap<Str, Labels>>,
    pub(crate) pdbs: BTreeMap<NamespacedName, Arc<PodDisruptionBudget>>,
    pub(crate) volumes: VolumeTable,
    pub(crate) workloads: WorkloadTable,
    pub(crate) devices: DeviceTable,
    node_classes: BTreeMap<NodeClassRef, NodeClassStatus>,
    /// Whether anything but nodes changed since the last snapshot.
    changed: bool,
}

/// What is known of a NodeClass.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeClassStatus {
    /// Whether its `Ready` condition is True; `None` if the condition is missing or Unknown.
    pub ready: Option<bool>,
    /// The condition's reason and message.
    pub why: (Str, Str),
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.deletionTimestamp`.
    pub deleting: Option<Timestamp>,
    /// All its conditions.
    pub conditions: Vec<api::Condition>,
}

impl Objects {
    /// No objects, for a provider whose NodeClasses are of these groups and kinds.
    pub(crate) fn new(schema: Arc<LabelSchema>, managed_classes: Vec<NodeClassRef>) -> Self {
        Self {
            schema,
            managed_classes,
            invalid: InvalidObjects::default(),
            interner: Interner::default(),
            pods: Pods::default(),
            nodes: NodeTable::default(),
            pools: PoolTable::default(),
            daemons: DaemonTable::default(),
            limit_ranges: LimitRangeTable::default(),
            namespaces: Arc::default(),
            pdbs: BTreeMap::new(),
            volumes: VolumeTable::default(),
            workloads: WorkloadTable::default(),
            devices: DeviceTable::default(),
            node_classes: BTreeMap::new(),
            changed: false,
        }
    }

    /// Whether anything but nodes changed since this was last called.
    pub(crate) fn take_changed(&mut self) -> bool {
        let flags = [
            &mut self.changed,
            &mut self.volumes.changed,
            &mut self.workloads.changed,
            &mut self.devices.changed,
        ];
        // Every flag is taken, also after the first that is set.
        flags.into_iter().map(std::mem::take).filter(|changed| *changed).count() > 0
    }

    /// Whether the Node or NodeClaim called `name` is initialized.
    pub(crate) fn is_initialized(&self, name: &str) -> bool {
        let by_label = |node: &Arc<model::Node>| {
            node.labels.get(model::labels::INITIALIZED).is_some_and(|value| &**value == "true")
        };
        self.claim_model(name).is_some_and(|claim| claim.is(ConditionType::Initialized))
            || self.node_model(name).is_some_and(by_label)
    }

    /// What label keys mean.
    #[must_use]
    pub fn schema(&self) -> &Arc<LabelSchema> {
        &self.schema
    }

    /// The kinds of NodeClass that the provider declares, as references without a name.
    pub(crate) fn class_kinds(&self) -> &[NodeClassRef] {
        &self.managed_classes
    }

    /// Whether a NodeClass is of a group and kind of the provider.
    #[must_use]
    pub fn is_managed(&self, group: &str, kind: &str) -> bool {
        self.managed_classes.iter().any(|class| &*class.group == group && &*class.kind == kind)
    }

    /// Invalid objects, with the reason.
    #[must_use]
    pub fn invalid(&self) -> &BTreeMap<(WatchedKind, Key), Invalid> {
        self.invalid.all()
    }

    /// A NodeClaim as read.
    #[must_use]
    pub fn claim(&self, name: &str) -> Option<&Arc<api::NodeClaim>> {
        self.nodes.claims.get(name).map(|entry| &entry.raw)
    }

    /// A lowered NodeClaim; `None` also if it is not ours or invalid.
    #[must_use]
    pub fn claim_model(&self, name: &str) -> Option<&Arc<model::NodeClaim>> {
        self.nodes.claims.get(name)?.model.as_ref()
    }

    /// `claim` lowered as if it had been read; `None` as with [`Self::claim_model`].
    #[must_use]
    pub fn read_claim(&self, claim: &api::NodeClaim) -> Option<model::NodeClaim> {
        let class = &claim.spec.node_class_ref;
        let ours = self.is_managed(&class.group, &class.kind);
        ours.then(|| lower::claim::claim(claim, &self.schema).ok()).flatten()
    }

    /// All NodeClaims as read, by name.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<api::NodeClaim>> {
        self.nodes.claims.values().map(|entry| &entry.raw)
    }

    /// A Node as read.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.nodes.get(name).map(|entry| &entry.raw)
    }

    /// A lowered Node; `None` also if it is invalid.
    #[must_use]
    pub fn node_model(&self, name: &str) -> Option<&Arc<model::Node>> {
        self.nodes.nodes.get(name)?.model.as_ref()
    }

    /// All Nodes as read, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.nodes.values().map(|entry| &entry.raw)
    }

    /// All NodeClaims that are ours and valid, by name.
    pub fn claim_models(&self) -> impl Iterator<Item = &Arc<model::NodeClaim>> {
        self.nodes.claims.values().filter_map(|entry| entry.model.as_ref())
    }

    /// All Nodes with a NodeClaim's provider id, lowered, by name. More than one is a contradiction.
    pub fn nodes_of_claim(&self, claim: &str) -> impl Iterator<Item = &Arc<model::Node>> {
        self.claim_model(claim).into_iter().flat_map(|claim| self.nodes_with(claim))
    }

    /// Nodes with the provider id of `claim`, by name.
    pub fn nodes_with(&self, claim: &model::NodeClaim) -> impl Iterator<Item = &Arc<model::Node>> {
        self.nodes.nodes_of(claim)
    }

    /// The Node of a NodeClaim, by provider id.
    #[must_use]
    pub fn node_of_claim(&self, claim: &str) -> Option<&Arc<Node>> {
        Some(&self.nodes.node_of(self.claim_model(claim)?)?.raw)
    }

    /// The NodeClaim of a Node, by provider id.
    #[must_use]
    pub fn claim_of_node(&self, node: &str) -> Option<&Arc<api::NodeClaim>> {
        Some(&self.nodes.claim_of(self.node_model(node)?)?.raw)
    }

    /// The NodeClaim with a provider id.
    #[must_use]
    pub fn claim_of_provider_id(&self, id: &str) -> Option<&Arc<api::NodeClaim>> {
        Some(&self.nodes.claim_by_provider_id(id)?.raw)
    }

    /// A NodePool as read.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&Arc<api::NodePool>> {
        self.pools.get(name).map(|entry| &entry.raw)
    }

    /// A lowered NodePool; `None` also if it is not ours or invalid.
    #[must_use]
    pub fn pool_model(&self, name: &str) -> Option<&Arc<model::NodePool>> {
        self.pools.get(name)?.model.as_ref()
    }

    /// All NodePools as read, by name.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<api::NodePool>> {
        self.pools.all().map(|entry| &entry.raw)
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, id: &NamespacedName) -> Option<&Arc<Pod>> {
        self.pods.get(id)
    }

    /// A pod by its UID.
    #[must_use]
    pub fn pod_by_uid(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.pods.by_uid(uid)
    }

    /// All pods by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.all()
    }

    /// Pods bound to a node, by namespace and name; terminal ones too.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.on_node(node)
    }

    /// PodDisruptionBudgets by namespace and name.
    pub fn pdbs(&self) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.pdbs.values()
    }

    /// VolumeAttachments to a node, by name.
    pub fn attachments_to<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Arc<VolumeAttachment>> {
        self.volumes.attachments().filter(move |attachment| attachment.spec.node_name == node)
    }

    /// A volume claim, lowered with its volume and class.
    #[must_use]
    pub fn volume_claim(&self, id: &NamespacedName) -> Option<&VolumeClaim> {
        self.volumes.lowered_claims().get(id)
    }

    /// Name of the PersistentVolume that a claim is bound to.
    #[must_use]
    pub fn volume_name(&self, claim: &NamespacedName) -> Option<&str> {
        self.volumes.volume_name(claim)
    }

    /// Drivers that published every ResourceSlice of a pool that belongs to this node alone.
    #[must_use]
    pub fn published_drivers(&self, node: &str) -> Vec<Str> {
        self.devices.published_drivers(node)
    }

    /// A NodeClass.
    #[must_use]
    pub fn node_class(&self, class: &NodeClassRef) -> Option<&NodeClassStatus> {
        self.node_classes.get(class)
    }
}
