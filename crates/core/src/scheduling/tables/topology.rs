//! Topology: spread, affinity and anti-affinity as groups, and the label sets of the pods that they select.
//!
//! Domains of `kubernetes.io/hostname` are nodes: the snapshot's by slot, and the new NodeClaims of the pass. Domains of
//! other keys are the values of the key. The placement counts pods by group and domain.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use hashbrown::{Equivalent, HashMap};
use smallvec::SmallVec;

use crate::{
    model::{LabelSelector, Labels, Str, Toleration},
    scheduling::{
        ids::{DomainId, IdVec, LabelSetId, NodeId, TopologyGroupId},
        tables::{
            bits::Bits,
            intern::{ANY, Key, Req, Value},
            shared::Shared,
        },
    },
};

/// The rule of a topology group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GroupKind {
    /// Balanced between domains.
    Spread {
        /// The largest allowed difference.
        max_skew: i64,
        /// Fewer domains than this count as an empty one.
        min_domains: i64,
    },
    /// In domains with selected pods.
    Affinity,
    /// In domains without selected pods.
    Anti,
}

impl GroupKind {
    /// The words of Karpenter's messages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Spread { .. } => "topology spread",
            Self::Affinity => "pod affinity",
            Self::Anti => "pod anti-affinity",
        }
    }
}

/// Which namespaces a group looks into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Namespaces {
    /// All of them.
    All,
    /// One: the pod's own, mostly.
    One(Str),
    /// These; never one.
    Named(BTreeSet<Str>),
}

impl From<BTreeSet<Str>> for Namespaces {
    fn from(names: BTreeSet<Str>) -> Self {
        match names.first() {
            Some(only) if names.len() == 1 => Self::One(Arc::clone(only)),
            _ => Self::Named(names),
        }
    }
}

/// Requirement sets of which one must hold.
pub(crate) type Alternatives = SmallVec<[Req; 1]>;

/// Which nodes count for a spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeFilter {
    /// One of these must hold; empty where node affinity is ignored.
    pub(crate) alternatives: Alternatives,
    /// The pod's tolerations, where node taints are honoured.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

impl NodeFilter {
    /// Whether pods on every node count.
    pub(crate) fn counts_all(&self) -> bool {
        self.alternatives[..] == [ANY] && self.tolerations.is_none()
    }
}

/// The identity of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) kind: GroupKind,
    pub(crate) key: Key,
    pub(crate) namespaces: Namespaces,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) filter: Option<NodeFilter>,
}

/// A borrowed group key, to look for a group: hashes as the key itself, field by field.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Wanted<'a> {
    pub(crate) kind: GroupKind,
    pub(crate) key: Key,
    pub(crate) namespaces: Namespaces,
    pub(crate) selector: Option<Cow<'a, LabelSelector>>,
    pub(crate) filter: Option<NodeFilter>,
}

impl Equivalent<GroupKey> for Wanted<'_> {
    fn equivalent(&self, key: &GroupKey) -> bool {
        self.kind == key.kind
            && self.key == key.key
            && self.namespaces == key.namespaces
            && self.selector.as_deref() == key.selector.as_ref()
            && self.filter == key.filter
    }
}

impl From<Wanted<'_>> for GroupKey {
    fn from(wanted: Wanted<'_>) -> Self {
        let Wanted { kind, key, namespaces, selector, filter } = wanted;
        Self { kind, key, namespaces, selector: selector.map(Cow::into_owned), filter }
    }
}

/// A topology group: its rule and its domains.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) spec: GroupKey,
    /// Whether the domains are nodes.
    pub(crate) by_hostname: bool,
    /// Domains of a key other than the hostname, by text.
    pub(crate) domains: Arc<[Value]>,
    /// Those of them that pools can create.
    pub(crate) of_pools: Bits<DomainId>,
    pub(crate) known: Bits<DomainId>,
}

/// Pods with equal labels and namespace.
#[derive(Debug)]
pub(crate) struct LabelSet {
    pub(crate) namespace: Str,
    pub(crate) labels: Arc<Labels>,
    /// Groups that select it.
    pub(crate) groups: Vec<TopologyGroupId>,
    /// Nodes with such pods, in no order.
    pub(crate) nodes: Vec<NodeId>,
}

/// All groups and label sets of a solver.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    pub(crate) groups: IdVec<TopologyGroupId, Group>,
    ids: HashMap<GroupKey, TopologyGroupId>,
    pub(crate) label_sets: IdVec<LabelSetId, LabelSet>,
    by_content: HashMap<(Str, Arc<Labels>), LabelSetId>,
    /// The first label set with these very labels.
    by_labels: HashMap<Shared<Labels>, LabelSetId>,
}

impl GroupKey {
    /// Whether the group counts pods with these labels.
    fn selects(&self, namespace: &Str, labels: &Labels) -> bool {
        let named = match &self.namespaces {
            Namespaces::All => true,
            Namespaces::One(name) => name == namespace,
            Namespaces::Named(names) => names.contains(namespace),
        };
        named && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

impl Group {
    fn new(spec: GroupKey, by_hostname: bool, domains: Arc<[Value]>, of_pools: Bits<DomainId>) -> Self {
        let mut group = Self { spec, by_hostname, of_pools, domains: Arc::new([]), known: Bits::default() };
        group.set_domains(domains);
        group
    }

    /// Replaces the known domains.
    pub(crate) fn set_domains(&mut self, domains: Arc<[Value]>) {
        self.known = domains.iter().map(|domain| DomainId::of_value(*domain)).collect();
        self.domains = domains;
    }
}

impl Topology {
    /// The label set of pods of `namespace` with `labels`.
    pub(crate) fn label_set(&mut self, namespace: &Str, labels: &Arc<Labels>) -> LabelSetId {
        let shared = Shared::new(labels);
        let known = self.by_labels.get(&shared).copied();
        if let Some(known) = known.filter(|known| self.label_sets[*known].namespace == *namespace) {
            return known;
        }
        let content = (namespace.clone(), Arc::clone(labels));
        if let Some(known) = self.by_content.get(&content) {
            return *known;
        }
        let matching = self.groups.entries().filter(|(_, group)| group.spec.selects(namespace, labels));
        let groups = matching.map(|(group_id, _)| group_id).collect();
        let label_set = self.label_sets.push(LabelSet {
            namespace: namespace.clone(),
            labels: Arc::clone(labels),
            groups,
            nodes: Vec::new(),
        });
        self.by_labels.entry(shared).or_insert(label_set);
        self.by_content.insert(content, label_set);
        label_set
    }

    /// How many label sets and groups there are.
    pub(crate) fn size(&self) -> usize {
        self.label_sets.len() + self.groups.len()
    }

    /// The group that `key` describes, if there is one already.
    pub(crate) fn find(&self, key: &Wanted<'_>) -> Option<TopologyGroupId> {
        self.ids.get(key).copied()
    }

    /// Adds a group without counts. `domains` are the known ones, by text.
    pub(crate) fn add(
        &mut self,
        key: GroupKey,
        by_hostname: bool,
        domains: Arc<[Value]>,
        of_pools: Bits<DomainId>,
    ) -> TopologyGroupId {
        let group_id = self.groups.next_id();
        for label_set in &mut self.label_sets {
            if key.selects(&label_set.namespace, &label_set.labels) {
                label_set.groups.push(group_id);
            }
        }
        self.ids.insert(key.clone(), group_id);
        self.groups.push(Group::new(key, by_hostname, domains, of_pools));
        group_id
    }
}
