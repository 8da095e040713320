//! The tables of NodeClaims and Nodes, and their union: the nodes.
//!
//! A NodeClaim and a Node are one node where `status.providerID` and `spec.providerID` are equal. Nodes are kept
//! built; what changes is noted and rebuilt at the next snapshot, and nothing else is touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_api as api;
use fleetwright_core::model::{
    Catalog, ClaimName, Node, NodeClaim, NodeName, PoolName, ProviderId, StateNode, Str, labels,
};
use k8s_openapi::api::core::v1 as k8s;

use crate::{expected, intents::Intents, pods::Pods};

/// A NodeClaim as read, and lowered where it is ours and means something.
#[derive(Clone, Debug)]
pub(crate) struct ClaimEntry {
    pub(crate) raw: Arc<api::NodeClaim>,
    pub(crate) model: Option<Arc<NodeClaim>>,
}

/// A Node as read, and lowered where it means something.
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
    /// The nodes by name, and where each stands; remade when one comes, goes or changes its name.
    sorted: Vec<Arc<StateNode>>,
    places: BTreeMap<NodeKey, usize>,
    unsorted: bool,
    dirty: BTreeSet<NodeKey>,
}

/// What nodes are built from, beside their own tables.
pub(crate) struct Parts<'a> {
    pub(crate) pods: &'a Pods,
    pub(crate) intents: &'a Intents,
    pub(crate) catalogs: &'a BTreeMap<PoolName, Arc<Catalog>>,
    /// By Node or NodeClaim: chunks of capacity buffers that room was found for there.
    pub(crate) held: &'a BTreeMap<Str, u32>,
}

impl NodeTable {
    /// Puts a NodeClaim in, or takes it out; returns what was there.
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
                self.touch_provider(old);
            }
            if let Some(new) = &new {
                self.claims_by_provider.entry(new.clone()).or_default().insert(name.clone());
                self.touch_provider(new);
            }
        }
        self.dirty.insert(NodeKey::Claim(name.clone()));
        before
    }

    /// Puts a Node in, or takes it out; returns what was there.
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
                self.touch_provider(old);
            }
            if let Some(new) = &new {
                self.nodes_by_provider.entry(new.clone()).or_default().insert(name.clone());
            }
        }
        if let Some(new) = &new {
            self.touch_provider(new);
        }
        self.dirty.insert(NodeKey::Node(name.clone()));
        before
    }

    /// Sets a node's attach limits; returns whether there were some.
    pub(crate) fn put_limits(&mut self, node: &Str, limits: Option<Vec<(Str, u32)>>) -> bool {
        let before = match limits {
            Some(limits) => self.limits.insert(node.clone(), limits),
            None => self.limits.remove(node),
        };
        if before.as_ref() != self.limits.get(node) {
            self.touch_node(node);
        }
        before.is_some()
    }

    /// Sets what a VolumeAttachment attaches, and to which node.
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
            self.touch_node(&node);
        }
        if let Some((node, volume)) = attached {
            self.attached.entry(node.clone()).or_default().insert(name.clone());
            self.touch_node(&node);
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

    fn touch_provider(&mut self, id: &ProviderId) {
        let claims = self.claims_by_provider.get(id).into_iter().flatten().cloned().map(NodeKey::Claim);
        let nodes = self.nodes_by_provider.get(id).into_iter().flatten().cloned().map(NodeKey::Node);
        self.dirty.extend(claims.chain(nodes));
    }

    /// Notes that something about the Node called `name` changed: its pods, its limits.
    pub(crate) fn touch_node(&mut self, name: &str) {
        self.dirty.insert(NodeKey::Node(name.into()));
        let id = self.nodes.get(name).and_then(|entry| entry.model.as_ref()?.provider_id.clone());
        if let Some(id) = id {
            self.touch_provider(&id);
        }
    }

    /// Notes that something about the node of a NodeClaim changed: its marks.
    pub(crate) fn touch_claim(&mut self, name: &str) {
        self.dirty.insert(NodeKey::Claim(name.into()));
    }

    /// Notes that something about what is called `name`, Node or NodeClaim, changed.
    pub(crate) fn touch(&mut self, name: &str) {
        self.touch_node(name);
        self.touch_claim(name);
    }

    /// Notes that the catalogue of a pool changed, which claims without figures of their own are reckoned by, and
    /// those of types that `overlaid` is about.
    pub(crate) fn touch_pool(&mut self, pool: &PoolName, overlaid: &BTreeSet<Str>) {
        let reckoned = |claim: &NodeClaim| {
            let by_overlay =
                || claim.labels.get(labels::INSTANCE_TYPE).is_some_and(|name| overlaid.contains(name));
            claim.pool.as_ref() == Some(pool) && (claim.capacity.is_zero() || by_overlay())
        };
        let of_pool =
            self.claims.iter().filter(|(_, entry)| entry.model.as_ref().is_some_and(|claim| reckoned(claim)));
        self.dirty.extend(of_pool.map(|(name, _)| NodeKey::Claim(name.clone())));
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
        self.dirty.is_empty()
    }

    /// Builds again what changed.
    pub(crate) fn rebuild(&mut self, parts: &Parts<'_>) {
        for node in std::mem::take(&mut self.dirty) {
            let Some(built) = self.build(&node, parts).map(Arc::new) else {
                self.unsorted |= self.built.remove(&node).is_some();
                continue;
            };
            let before = self.built.insert(node.clone(), built.clone());
            let same_name = before.is_some_and(|before| before.name() == built.name());
            match self.places.get(&node).and_then(|at| self.sorted.get_mut(*at)) {
                Some(place) if same_name && !self.unsorted => *place = built,
                _ => self.unsorted = true,
            }
        }
        if std::mem::take(&mut self.unsorted) {
            let mut all: Vec<(&NodeKey, &Arc<StateNode>)> = self.built.iter().collect();
            all.sort_by(|a, b| a.1.name().cmp(b.1.name()));
            self.sorted = all.iter().map(|(_, built)| (*built).clone()).collect();
            self.places = all.iter().enumerate().map(|(at, (node, _))| ((*node).clone(), at)).collect();
        }
    }

    /// All nodes by name, as of the last [`Self::rebuild`].
    pub(crate) fn all(&self) -> &[Arc<StateNode>] {
        &self.sorted
    }

    fn build(&self, node: &NodeKey, parts: &Parts<'_>) -> Option<StateNode> {
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
                // One that joins before its claim knows its instance counts once: as that claim.
                let joining = node.taints.iter().any(|taint| &*taint.key == labels::UNREGISTERED_TAINT);
                if claimed.is_some_and(|claimed| claimed.name == *name) || joining {
                    return None;
                }
                (None, Some(node.clone()))
            }
        };
        let catalog = claim.as_ref().and_then(|claim| parts.catalogs.get(claim.pool.as_ref()?));
        let catalog = catalog.map(|catalog| &**catalog);
        let at_most = claim.as_ref().filter(|claim| claim.capacity.is_zero());
        let at_most = at_most.map(|claim| expected::at_most(claim, catalog));
        let claim = claim.map(|claim| expected::filled(claim, catalog));
        let node_name = node.as_ref().map(|node| node.name.clone());
        let pods = node_name.iter().flat_map(|name| parts.pods.on_node(name)).cloned().collect();
        let mut built = StateNode::new(claim, node, pods);
        let names: Vec<&str> =
            built.claim_name().map(|name| &**name).into_iter().chain(node_name.as_deref()).collect();
        let buffered = names.iter().filter_map(|name| parts.held.get(*name)).copied().max().unwrap_or(0);
        built.nominations = parts.intents.nominations_on(&names);
        built.buffered = buffered;
        built.at_most = at_most;
        built.attached = node_name.as_deref().map(|name| self.attached_to(name)).unwrap_or_default();
        built.marked_for_deletion = built.claim_name().is_some_and(|name| parts.intents.is_marked(name));
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
