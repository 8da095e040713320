//! The tables of NodeClaims and Nodes, and their union, which decisions see.
//!
//! A NodeClaim and a Node are one node where `status.providerID` and `spec.providerID` are equal. A change marks the node
//! that it concerns, and the next snapshot builds the marked nodes again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_api as api;
use fleetwright_core::model::{
    Catalog, ClaimName, Node, NodeClaim, NodeName, PoolName, ProviderId, StateNode, Str, labels,
};
use k8s_openapi::api::core::v1 as k8s;

use super::pods::Pods;
use crate::{expected, intents::Intents};

/// A NodeClaim as read, and lowered if it is ours and valid.
#[derive(Clone, Debug)]
pub(crate) struct ClaimEntry {
    pub(crate) raw: Arc<api::NodeClaim>,
    pub(crate) model: Option<Arc<NodeClaim>>,
}

/// A Node as read, and lowered if it is valid.
#[derive(Clone, Debug)]
pub(crate) struct NodeEntry {
    pub(crate) raw: Arc<k8s::Node>,
    pub(crate) model: Option<Arc<Node>>,
}

/// Names a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NodeKey {
    Claim(ClaimName),
    /// A Node that no NodeClaim of ours accounts for.
    Node(NodeName),
}

/// NodeClaims, Nodes and nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeTable {
    pub(crate) claims: BTreeMap<ClaimName, ClaimEntry>,
    pub(crate) nodes: BTreeMap<NodeName, NodeEntry>,
    claims_by_provider: BTreeMap<ProviderId, BTreeSet<ClaimName>>,
    nodes_by_provider: BTreeMap<ProviderId, BTreeSet<NodeName>>,
    limits: BTreeMap<Str, Vec<(Str, u32)>>,
    /// By VolumeAttachment: its node, and driver and handle of its volume.
    attachments: BTreeMap<Str, (Str, (Str, Str))>,
    /// By node: its VolumeAttachments.
    attached: BTreeMap<Str, BTreeSet<Str>>,
    built: BTreeMap<NodeKey, Arc<StateNode>>,
    /// The nodes by name, and the index of each; sorted again when a node is added, removed or renamed.
    sorted: Vec<Arc<StateNode>>,
    positions: BTreeMap<NodeKey, usize>,
    unsorted: bool,
    marked: BTreeSet<NodeKey>,
}

/// The other tables that nodes are built from.
pub(crate) struct NodeInputs<'a> {
    pub(crate) pods: &'a Pods,
    pub(crate) intents: &'a Intents,
    pub(crate) catalogs: &'a BTreeMap<PoolName, Arc<Catalog>>,
    /// By Node or NodeClaim: chunks of capacity buffers that were placed there.
    pub(crate) chunks: &'a BTreeMap<Str, u32>,
}

impl NodeTable {
    /// Puts a NodeClaim in, or takes it out; returns the earlier one.
    pub(crate) fn put_claim(&mut self, name: &ClaimName, entry: Option<ClaimEntry>) -> Option<ClaimEntry> {
        let provider_id = |entry: Option<&ClaimEntry>| entry?.model.as_ref()?.provider_id.clone();
        let new = provider_id(entry.as_ref());
        let before = match entry {
            Some(entry) => self.claims.insert(name.clone(), entry),
            None => self.claims.remove(name),
        };
        let old = provider_id(before.as_ref());
        if old != new {
            if let Some(old) = &old {
                unlink(&mut self.claims_by_provider, old, name);
                self.mark_provider(old);
            }
            if let Some(new) = &new {
                self.claims_by_provider.entry(new.clone()).or_default().insert(name.clone());
                self.mark_provider(new);
            }
        }
        self.marked.insert(NodeKey::Claim(name.clone()));
        before
    }

    /// Puts a Node in, or takes it out; returns the earlier one.
    pub(crate) fn put_node(&mut self, name: &NodeName, entry: Option<NodeEntry>) -> Option<NodeEntry> {
        let provider_id = |entry: Option<&NodeEntry>| entry?.model.as_ref()?.provider_id.clone();
        let new = provider_id(entry.as_ref());
        let before = match entry {
            Some(entry) => self.nodes.insert(name.clone(), entry),
            None => self.nodes.remove(name),
        };
        let old = provider_id(before.as_ref());
        if old != new {
            if let Some(old) = &old {
                unlink(&mut self.nodes_by_provider, old, name);
                self.mark_provider(old);
            }
            if let Some(new) = &new {
                self.nodes_by_provider.entry(new.clone()).or_default().insert(name.clone());
            }
        }
        if let Some(new) = &new {
            self.mark_provider(new);
        }
        self.marked.insert(NodeKey::Node(name.clone()));
        before
    }

    /// Sets a node's attach limits; returns whether there were any.
    pub(crate) fn put_limits(&mut self, node: &Str, limits: Option<Vec<(Str, u32)>>) -> bool {
        let before = match limits {
            Some(limits) => self.limits.insert(node.clone(), limits),
            None => self.limits.remove(node),
        };
        if before.as_ref() != self.limits.get(node) {
            self.mark_node(node);
        }
        before.is_some()
    }

    /// Sets the node of a VolumeAttachment, with driver and handle of its volume.
    pub(crate) fn put_attached(&mut self, name: &Str, attached: Option<(Str, (Str, Str))>) {
        if self.attachments.get(name) == attached.as_ref() {
            return;
        }
        if let Some((node, _)) = self.attachments.remove(name) {
            if let Some(names) = self.attached.get_mut(&node) {
                names.remove(name);
                if names.is_empty() {
                    self.attached.remove(&node);
                }
            }
            self.mark_node(&node);
        }
        if let Some((node, volume)) = attached {
            self.attached.entry(node.clone()).or_default().insert(name.clone());
            self.mark_node(&node);
            self.attachments.insert(name.clone(), (node, volume));
        }
    }

    /// Driver and handle of every volume that is attached to a node, or about to be, sorted.
    fn attached_to(&self, node: &str) -> Vec<(Str, Str)> {
        let names = self.attached.get(node).into_iter().flatten();
        let mut volumes: Vec<(Str, Str)> =
            names.filter_map(|name| Some(self.attachments.get(name)?.1.clone())).collect();
        volumes.sort();
        volumes.dedup();
        volumes
    }

    fn mark_provider(&mut self, id: &ProviderId) {
        let claims = self.claims_by_provider.get(id).into_iter().flatten().cloned().map(NodeKey::Claim);
        let nodes = self.nodes_by_provider.get(id).into_iter().flatten().cloned().map(NodeKey::Node);
        self.marked.extend(claims.chain(nodes));
    }

    /// Marks the Node called `name`: its pods or limits changed.
    pub(crate) fn mark_node(&mut self, name: &str) {
        self.marked.insert(NodeKey::Node(name.into()));
        let id = self.nodes.get(name).and_then(|entry| entry.model.as_ref()?.provider_id.clone());
        if let Some(id) = id {
            self.mark_provider(&id);
        }
    }

    /// Marks the node of a NodeClaim: a command began or ended.
    pub(crate) fn mark_claim(&mut self, name: &str) {
        self.marked.insert(NodeKey::Claim(name.into()));
    }

    /// Marks the Node and the NodeClaim called `name`.
    pub(crate) fn mark(&mut self, name: &str) {
        self.mark_node(name);
        self.mark_claim(name);
    }

    /// Marks the nodes of a NodePool whose figures are derived from its instance types, which changed: those that are not
    /// launched, and those of the instance types in `overlaid`.
    pub(crate) fn mark_pool(&mut self, pool: &PoolName, overlaid: &BTreeSet<Str>) {
        let is_derived = |claim: &NodeClaim| {
            let by_overlay =
                || claim.labels.get(labels::INSTANCE_TYPE).is_some_and(|name| overlaid.contains(name));
            claim.pool.as_ref() == Some(pool) && (claim.capacity.is_zero() || by_overlay())
        };
        let of_pool = self
            .claims
            .iter()
            .filter(|(_, entry)| entry.model.as_ref().is_some_and(|claim| is_derived(claim)));
        self.marked.extend(of_pool.map(|(name, _)| NodeKey::Claim(name.clone())));
    }

    /// The Node of a NodeClaim. Of several with its provider id, the first by name.
    pub(crate) fn node_of(&self, claim: &NodeClaim) -> Option<&NodeEntry> {
        let names = self.nodes_by_provider.get(claim.provider_id.as_ref()?)?;
        names.iter().find_map(|name| self.nodes.get(name).filter(|entry| entry.model.is_some()))
    }

    /// All Nodes with a NodeClaim's provider id, by name.
    pub(crate) fn nodes_of(&self, claim: &NodeClaim) -> impl Iterator<Item = &Arc<Node>> {
        let names = claim.provider_id.as_ref().and_then(|id| self.nodes_by_provider.get(id));
        names.into_iter().flatten().filter_map(|name| self.nodes.get(name)?.model.as_ref())
    }

    /// The NodeClaim of a Node. Of several with its provider id, the first by name.
    pub(crate) fn claim_of(&self, node: &Node) -> Option<&ClaimEntry> {
        self.claim_by_provider_id(node.provider_id.as_ref()?)
    }

    /// The NodeClaim with a provider id. Of several, the first by name.
    pub(crate) fn claim_by_provider_id(&self, id: &str) -> Option<&ClaimEntry> {
        let names = self.claims_by_provider.get(id)?;
        names.iter().find_map(|name| self.claims.get(name).filter(|entry| entry.model.is_some()))
    }

    /// Whether nothing changed since [`Self::rebuild`].
    pub(crate) fn is_clean(&self) -> bool {
        self.marked.is_empty()
    }

    /// Builds the marked nodes again.
    pub(crate) fn rebuild(&mut self, inputs: &NodeInputs<'_>) {
        for node in std::mem::take(&mut self.marked) {
            let Some(built) = self.build(&node, inputs).map(Arc::new) else {
                self.unsorted |= self.built.remove(&node).is_some();
                continue;
            };
            let before = self.built.insert(node.clone(), built.clone());
            let same_name = before.is_some_and(|before| before.name() == built.name());
            match self.positions.get(&node).and_then(|at| self.sorted.get_mut(*at)) {
                Some(place) if same_name && !self.unsorted => *place = built,
                _ => self.unsorted = true,
            }
        }
        if std::mem::take(&mut self.unsorted) {
            let mut all: Vec<(&NodeKey, &Arc<StateNode>)> = self.built.iter().collect();
            all.sort_by(|a, b| a.1.name().cmp(b.1.name()));
            self.sorted = all.iter().map(|(_, built)| (*built).clone()).collect();
            self.positions = all.iter().enumerate().map(|(at, (node, _))| ((*node).clone(), at)).collect();
        }
    }

    /// All nodes by name, as of the last [`Self::rebuild`].
    pub(crate) fn all(&self) -> &[Arc<StateNode>] {
        &self.sorted
    }

    fn build(&self, node: &NodeKey, inputs: &NodeInputs<'_>) -> Option<StateNode> {
        let (claim, node) = match node {
            NodeKey::Claim(name) => {
                let claim = self.claims.get(name)?.model.as_ref()?;
                // Of several claims of one instance, the first by name has the node.
                let node = self.node_of(claim).and_then(|entry| entry.model.clone());
                let owner = node.as_ref().and_then(|node| self.claim_of(node)?.model.as_ref());
                let node = node.filter(|_| owner.is_some_and(|owner| owner.name == *name));
                (Some(claim.clone()), node)
            }
            NodeKey::Node(name) => {
                let node = self.nodes.get(name)?.model.as_ref()?;
                let claimed = self.claim_of(node).and_then(|entry| self.node_of(entry.model.as_ref()?));
                let claimed = claimed.and_then(|entry| entry.model.as_ref());
                // A node that joins before its NodeClaim has the provider id counts once: as the NodeClaim.
                let joining = node.taints.iter().any(|taint| &*taint.key == labels::UNREGISTERED_TAINT);
                if claimed.is_some_and(|claimed| claimed.name == *name) || joining {
                    return None;
                }
                (None, Some(node.clone()))
            }
        };
        let catalog = claim.as_ref().and_then(|claim| inputs.catalogs.get(claim.pool.as_ref()?));
        let catalog = catalog.map(|catalog| &**catalog);
        let at_most = claim.as_ref().filter(|claim| claim.capacity.is_zero());
        let at_most = at_most.map(|claim| expected::at_most(claim, catalog));
        let claim = claim.map(|claim| expected::filled(claim, catalog));
        let node_name = node.as_ref().map(|node| node.name.clone());
        let pods = node_name.iter().flat_map(|name| inputs.pods.on_node(name)).cloned().collect();
        let mut built = StateNode::new(claim, node, pods);
        let names: Vec<&str> =
            built.claim_name().map(|name| &**name).into_iter().chain(node_name.as_deref()).collect();
        let buffered = names.iter().filter_map(|name| inputs.chunks.get(*name)).copied().max().unwrap_or(0);
        built.nominations = inputs.intents.nominations.leases_on(&names);
        built.buffered = buffered;
        built.at_most = at_most;
        built.attached = node_name.as_deref().map(|name| self.attached_to(name)).unwrap_or_default();
        built.marked_for_deletion = built.claim_name().is_some_and(|name| inputs.intents.is_marked(name));
        built.volume_limits = node_name.and_then(|name| self.limits.get(&*name).cloned()).unwrap_or_default();
        Some(built)
    }
}

fn unlink<N: Ord>(links: &mut BTreeMap<ProviderId, BTreeSet<N>>, id: &ProviderId, name: &N) {
    if let Some(names) = links.get_mut(id) {
        names.remove(name);
        if names.is_empty() {
            links.remove(id);
        }
    }
}
