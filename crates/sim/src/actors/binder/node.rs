//! The cluster in one round of the binder: nodes with their free resources.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_core::model::Resources;
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Taint},
    storage::v1::{CSINode, StorageClass},
};

use super::pod::{PodInfo, amounts};
use crate::actors::{
    cache::{Key, Tables},
    selector::Labels,
};

/// A node and its pods.
#[derive(Clone, Debug)]
pub(super) struct NodeInfo {
    /// The object.
    pub(super) node: Arc<Node>,
    /// Name.
    pub(super) name: String,
    /// Labels.
    pub(super) labels: Labels,
    /// Taints, including the one for `unschedulable`.
    pub(super) taints: Vec<Taint>,
    /// Allocatable resources.
    pub(super) allocatable: Resources,
    /// Requests of its pods.
    pub(super) requested: Resources,
    /// Its pods.
    pub(super) pods: Vec<Arc<PodInfo>>,
    /// Pods that are nominated to it and not bound yet: pods of the same or a lower priority leave them their room.
    pub(super) nominated: Vec<Arc<PodInfo>>,
}

impl NodeInfo {
    fn new(node: &Arc<Node>) -> Self {
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        Self {
            node: node.clone(),
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            allocatable: amounts(status.and_then(|status| status.allocatable.as_ref()), true),
            requested: Resources::new(),
            pods: Vec::new(),
            nominated: Vec::new(),
        }
    }

    /// The node with these pods only.
    pub(super) fn with_pods(&self, pods: Vec<Arc<PodInfo>>) -> Self {
        let mut node = Self { requested: Resources::new(), pods: Vec::new(), ..self.clone() };
        pods.into_iter().for_each(|pod| node.add(pod));
        node
    }

    /// The nominated pods that a pod leaves their room: those of the same or a higher priority.
    pub(super) fn reserved_from<'a>(&'a self, pod: &'a PodInfo) -> impl Iterator<Item = &'a Arc<PodInfo>> {
        self.nominated.iter().filter(|other| other.priority() >= pod.priority() && other.uid != pod.uid)
    }

    /// Adds a pod.
    pub(super) fn add(&mut self, pod: Arc<PodInfo>) {
        self.requested.add_assign(&pod.requests);
        self.pods.push(pod);
    }
}

/// The inputs of the binder's decisions.
#[derive(Debug, Default)]
pub(super) struct ClusterView {
    /// Nodes, in order of name.
    pub(super) nodes: Vec<NodeInfo>,
    /// Labels of namespaces.
    pub(super) namespaces: BTreeMap<String, Labels>,
    /// PersistentVolumeClaims.
    pub(super) claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    /// PersistentVolumes.
    pub(super) volumes: BTreeMap<Key, Arc<PersistentVolume>>,
    /// StorageClasses.
    pub(super) classes: BTreeMap<Key, Arc<StorageClass>>,
    /// Attach limits.
    pub(super) csi_nodes: BTreeMap<Key, Arc<CSINode>>,
    /// The index of the nominated node of pods that have one, by UID.
    pub(super) nominated: BTreeMap<String, usize>,
    /// Whether any pod on a node has required anti-affinity.
    pub(super) anti_affinity: bool,
    /// The lowest priority of all pods on nodes: pods of this or a lower one preempt nothing.
    pub(super) lowest: Option<i32>,
}

impl ClusterView {
    /// Nodes with their pods. `bound` has the pods with their current or assumed node, `nominated` those with a nominated node.
    pub(super) fn new(
        tables: &Tables,
        bound: Vec<(String, Arc<PodInfo>)>,
        nominated: Vec<(String, Arc<PodInfo>)>,
    ) -> Self {
        let mut nodes: BTreeMap<&str, NodeInfo> =
            tables.nodes.iter().map(|(key, node)| (key.name.as_str(), NodeInfo::new(node))).collect();
        let at: BTreeMap<&str, usize> = nodes.keys().copied().zip(0..).collect();
        let mut anti_affinity = false;
        let mut lowest: Option<i32> = None;
        for (node, pod) in bound {
            anti_affinity |= !pod.anti_affinity.is_empty();
            lowest = Some(lowest.map_or_else(|| pod.priority(), |lowest| lowest.min(pod.priority())));
            if let Some(node) = nodes.get_mut(node.as_str()) {
                node.add(pod);
            }
        }
        let mut nominations = BTreeMap::new();
        for (node, pod) in nominated {
            if let Some((info, at)) = nodes.get_mut(node.as_str()).zip(at.get(node.as_str())) {
                nominations.insert(pod.uid.clone(), *at);
                info.nominated.push(pod);
            }
        }
        let labels = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            meta.labels.clone().unwrap_or_default()
        };
        let namespaces = tables.namespaces.iter();
        Self {
            nodes: nodes.into_values().collect(),
            namespaces: namespaces.map(|(key, space)| (key.name.clone(), labels(&space.metadata))).collect(),
            claims: tables.claims.clone(),
            volumes: tables.volumes.clone(),
            classes: tables.classes.clone(),
            csi_nodes: tables.csi_nodes.clone(),
            nominated: nominations,
            anti_affinity,
            lowest,
        }
    }

    /// Records that a pod was bound to the node at this index.
    pub(super) fn assume(&mut self, at: usize, pod: Arc<PodInfo>) {
        self.anti_affinity |= !pod.anti_affinity.is_empty();
        self.lowest = Some(self.lowest.map_or_else(|| pod.priority(), |lowest| lowest.min(pod.priority())));
        let nominated = self.nominated.remove(&pod.uid).and_then(|at| self.nodes.get_mut(at));
        if let Some(node) = nominated {
            node.nominated.retain(|nominated| nominated.uid != pod.uid);
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.add(pod);
        }
    }

    /// The node that a pod is nominated to, and its index.
    pub(super) fn nominated_node(&self, pod: &PodInfo) -> Option<(usize, &NodeInfo)> {
        let at = *self.nominated.get(&pod.uid)?;
        Some((at, self.nodes.get(at)?))
    }

    /// The domains of a topology key with a pod for which `counts` is true.
    pub(super) fn domains(&self, topology: &str, counts: impl Fn(&PodInfo) -> bool) -> BTreeSet<&str> {
        self.nodes
            .iter()
            .filter_map(|node| Some((node.labels.get(topology)?, node)))
            .filter(|(_, node)| node.pods.iter().any(|pod| counts(pod)))
            .map(|(domain, _)| domain.as_str())
            .collect()
    }
}
