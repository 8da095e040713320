//! Topology: spread, affinity and anti-affinity as groups with dense counters per domain.
//!
//! A group counts the pods that its selector selects, by domain; an anti-affinity group also counts the pods that
//! demand it, which gives the inverse rule. Domains of `kubernetes.io/hostname` are nodes: the snapshot's by slot, and
//! the new NodeClaims of the pass. Domains of other keys are the values of the key.
//!
//! Groups by hostname keep the nodes and the new NodeClaims that they close as sets, so that a pod finds the ones that are
//! left for it without asking each.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use hashbrown::{Equivalent, HashMap};
use smallvec::SmallVec;

use super::{
    bits::Bits,
    intern::{ANY, Key, Req, Set, Universe, Value},
};
use crate::model::{LabelSelector, Labels, Str, Toleration};
use crate::scheduling::ids::{DomainId, Host, Id, IdVec, LabelSetId, NewClaimId, NodeId, TopologyGroupId};

/// What a group demands of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum GroupKind {
    /// Balanced between domains.
    Spread {
        /// The largest allowed difference.
        max_skew: i64,
        /// Fewer domains than this count as an empty one.
        min_domains: i64,
    },
    /// Near selected pods.
    Affinity,
    /// Away from selected pods.
    Anti,
}

impl GroupKind {
    /// The words of Karpenter's messages.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Spread { .. } => "topology spread",
            Self::Affinity => "pod affinity",
            Self::Anti => "pod anti-affinity",
        }
    }
}

/// Which namespaces a group looks into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Namespaces {
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
pub(super) type Alternatives = SmallVec<[Req; 1]>;

/// Which nodes count for a spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeFilter {
    /// One of these must hold; empty where node affinity is ignored.
    pub(super) alternatives: Alternatives,
    /// The pod's tolerations, where node taints are honoured.
    pub(super) tolerations: Option<Vec<Toleration>>,
}

impl NodeFilter {
    /// Whether pods on every node count.
    pub(super) fn counts_all(&self) -> bool {
        self.alternatives[..] == [ANY] && self.tolerations.is_none()
    }
}

/// What tells groups apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    pub(super) kind: GroupKind,
    pub(super) key: Key,
    pub(super) namespaces: Namespaces,
    pub(super) selector: Option<LabelSelector>,
    pub(super) filter: Option<NodeFilter>,
}

/// What tells groups apart, to look for one: hashes as the key itself, field by field.
#[derive(Clone, Debug, Hash)]
pub(super) struct Wanted<'a> {
    pub(super) kind: GroupKind,
    pub(super) key: Key,
    pub(super) namespaces: Namespaces,
    pub(super) selector: Option<Cow<'a, LabelSelector>>,
    pub(super) filter: Option<NodeFilter>,
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

/// Pods by domain.
#[derive(Debug, Default)]
struct Counts {
    /// Nodes, in groups by hostname: few of them have any.
    nodes: HashMap<DomainId, u32>,
    /// New NodeClaims in groups by hostname, values of the key in others.
    dense: Vec<u32>,
    total: u64,
}

impl Counts {
    fn get(&self, by_host: bool, domain: DomainId) -> u32 {
        if self.total == 0 {
            return 0;
        }
        match domain.dense(by_host) {
            None => self.nodes.get(&domain).copied().unwrap_or(0),
            Some(at) => self.dense.get(at).copied().unwrap_or(0),
        }
    }

    /// Changes a count, which does not fall below zero; returns what it was and what it is.
    fn change(&mut self, by_host: bool, domain: DomainId, by: i64) -> (u32, u32) {
        let before = self.get(by_host, domain);
        let after = u32::try_from(i64::from(before).saturating_add(by).max(0)).unwrap_or(u32::MAX);
        match domain.dense(by_host) {
            None if after == 0 => {
                self.nodes.remove(&domain);
            }
            None => {
                self.nodes.insert(domain, after);
            }
            Some(at) => {
                if self.dense.len() <= at {
                    self.dense.resize(at + 1, 0);
                }
                self.dense[at] = after;
            }
        }
        self.total = self.total.saturating_sub(u64::from(before)).saturating_add(u64::from(after));
        (before, after)
    }
}

/// What a group by hostname closes to pods, of its nodes or of its new NodeClaims, as its counters stand.
#[derive(Debug)]
struct Marks<I> {
    /// With selected pods: the only ones that affinity leaves, and closed by anti-affinity. Spreads have none.
    chosen: Bits<I>,
    /// With as many selected pods as a spread allows: closed to those that are selected themselves.
    full: Bits<I>,
    /// With more than that, beside pods that the spread does not bind: closed to all that it binds.
    over: Bits<I>,
    /// With pods that demand to be away from the selected ones.
    owned: Bits<I>,
}

impl<I> Default for Marks<I> {
    fn default() -> Self {
        let [chosen, full, over, owned] = std::array::from_fn(|_| Bits::default());
        Self { chosen, full, over, owned }
    }
}

impl<I: Id> Marks<I> {
    /// Notes that `at` has `count` selected pods, or `count` that demand to be away from them.
    fn note(&mut self, kind: GroupKind, at: I, owners: bool, count: u32) {
        if owners {
            self.owned.set(at, count > 0);
        } else {
            self.select(kind, at, count);
        }
    }

    /// Notes that `at` has `count` selected pods.
    fn select(&mut self, kind: GroupKind, at: I, count: u32) {
        if let GroupKind::Spread { max_skew, .. } = kind {
            self.full.set(at, i64::from(count) >= max_skew);
            self.over.set(at, i64::from(count) > max_skew);
        } else {
            self.chosen.set(at, count > 0);
        }
    }

    /// Takes out of `hosts` what the group closes to a pod: see [`Group::allows`].
    fn keep_allowed(&self, kind: GroupKind, hosts: &mut Bits<I>, selects_itself: bool, bootstraps: bool) {
        match kind {
            GroupKind::Spread { max_skew, .. } if max_skew < i64::from(selects_itself) => {
                *hosts = Bits::default();
            }
            GroupKind::Spread { .. } => hosts.subtract(if selects_itself { &self.full } else { &self.over }),
            GroupKind::Affinity if bootstraps => {}
            GroupKind::Affinity => hosts.intersect(&self.chosen),
            GroupKind::Anti => hosts.subtract(&self.chosen),
        }
    }
}

/// A group with its counters.
#[derive(Debug)]
pub(in crate::scheduling) struct Group {
    pub(super) is: GroupKey,
    /// Whether the domains are nodes.
    pub(super) by_host: bool,
    /// Domains of a key other than the hostname, by text.
    pub(super) domains: Arc<[Value]>,
    /// Those of them that pools can create.
    pub(super) of_pools: Bits<DomainId>,
    known: Bits<DomainId>,
    selected: Counts,
    owners: Counts,
    /// In groups by hostname, of the snapshot's nodes.
    nodes: Marks<NodeId>,
    /// In groups by hostname, of the new NodeClaims of the pass.
    new_claims: Marks<NewClaimId>,
}

/// Pods that selectors cannot tell apart.
#[derive(Debug)]
pub(in crate::scheduling) struct LabelSet {
    pub(super) namespace: Str,
    pub(super) labels: Arc<Labels>,
    /// Groups that select it.
    pub(super) groups: Vec<TopologyGroupId>,
    /// Nodes with such pods, in no order.
    pub(super) nodes: Vec<NodeId>,
}

/// All groups and label sets of a solver.
#[derive(Debug, Default)]
pub(super) struct Topology {
    pub(super) groups: IdVec<TopologyGroupId, Group>,
    ids: HashMap<GroupKey, TopologyGroupId>,
    pub(super) label_sets: IdVec<LabelSetId, LabelSet>,
    by_content: HashMap<(Str, Arc<Labels>), LabelSetId>,
    /// The first label set with labels at an address.
    by_pointer: HashMap<usize, LabelSetId>,
    log: Vec<Change>,
    /// Counts changes, so that a verdict can say what it saw.
    pub(super) version: u64,
}

/// One change of a counter, to be taken back.
#[derive(Clone, Copy, Debug)]
struct Change {
    group: TopologyGroupId,
    domain: DomainId,
    owners: bool,
    by: i64,
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
    fn new(is: GroupKey, by_host: bool, domains: Arc<[Value]>, of_pools: Bits<DomainId>) -> Self {
        let mut this = Self {
            is,
            by_host,
            of_pools,
            domains: Arc::new([]),
            known: Bits::default(),
            selected: Counts::default(),
            owners: Counts::default(),
            nodes: Marks::default(),
            new_claims: Marks::default(),
        };
        this.set_domains(domains);
        this
    }

    /// Replaces the known domains.
    pub(super) fn set_domains(&mut self, domains: Arc<[Value]>) {
        self.known = domains.iter().map(|domain| DomainId::of_value(*domain)).collect();
        self.domains = domains;
    }

    /// Counts nothing any more.
    pub(super) fn forget_counts(&mut self) {
        (self.selected, self.owners) = (Counts::default(), Counts::default());
        (self.nodes, self.new_claims) = (Marks::default(), Marks::default());
    }

    /// How many selected pods the domain has.
    pub(super) fn count(&self, domain: DomainId) -> u32 {
        self.selected.get(self.by_host, domain)
    }

    /// Whether no pod in the domain demands to be away from the selected ones.
    pub(super) fn unclaimed(&self, domain: DomainId) -> bool {
        self.owners.get(self.by_host, domain) == 0
    }

    /// Whether any pod at all demands this anti-affinity.
    pub(super) fn has_owners(&self) -> bool {
        self.owners.total > 0
    }

    /// Whether nothing is counted anywhere.
    pub(super) fn is_unused(&self) -> bool {
        self.selected.total == 0
    }

    /// Takes the new NodeClaims out of `claims` that the group, by hostname, closes to a pod.
    pub(super) fn keep_allowed(&self, claims: &mut Bits<NewClaimId>, selects_itself: bool, bootstraps: bool) {
        if self.by_host {
            self.new_claims.keep_allowed(self.is.kind, claims, selects_itself, bootstraps);
        }
    }

    /// Takes the nodes out that the group, by hostname, closes to a pod.
    pub(super) fn keep_nodes(&self, nodes: &mut Bits<NodeId>, selects_itself: bool, bootstraps: bool) {
        if self.by_host {
            self.nodes.keep_allowed(self.is.kind, nodes, selects_itself, bootstraps);
        }
    }

    /// Takes the nodes out whose pods demand to be away from the selected ones.
    pub(super) fn keep_unclaimed_nodes(&self, nodes: &mut Bits<NodeId>) {
        if self.by_host {
            nodes.subtract(&self.nodes.owned);
        }
    }

    /// Takes the new NodeClaims out of `claims` whose pods demand to be away from the selected ones.
    pub(super) fn keep_unclaimed(&self, claims: &mut Bits<NewClaimId>) {
        if self.by_host {
            claims.subtract(&self.new_claims.owned);
        }
    }

    /// The smallest count over the domains that a pod may use; zero where too few are known, and always for nodes,
    /// since an empty one can be had.
    pub(super) fn minimum(&self, universe: &Universe, allowed: Option<&Set>) -> i64 {
        let GroupKind::Spread { min_domains, .. } = self.is.kind else { return 0 };
        if self.by_host {
            return 0;
        }
        let mut minimum: Option<u32> = None;
        let mut supported = 0;
        for domain in self.domains.iter() {
            if allowed.is_none_or(|set| universe.has(self.is.key, set, *domain)) {
                supported += 1;
                let count = self.count(DomainId::of_value(*domain));
                minimum = Some(minimum.map_or(count, |least| least.min(count)));
            }
        }
        if supported < min_domains { 0 } else { i64::from(minimum.unwrap_or(0)) }
    }

    /// Whether another pod may go to the domain, `minimum` being what [`Self::minimum`] said.
    pub(super) fn allows(
        &self,
        domain: DomainId,
        selects_itself: bool,
        minimum: i64,
        bootstraps: bool,
    ) -> bool {
        match self.is.kind {
            GroupKind::Spread { max_skew, .. } => {
                let known = self.by_host || self.known.has(domain);
                let more = i64::from(selects_itself);
                known && i64::from(self.count(domain)) + more - minimum <= max_skew
            }
            GroupKind::Affinity => bootstraps || self.count(domain) > 0,
            GroupKind::Anti => self.count(domain) == 0,
        }
    }

    /// Returns by how much the count did change.
    fn change(&mut self, change: Change) -> i64 {
        let Change { domain, owners, by, .. } = change;
        let counts = if owners { &mut self.owners } else { &mut self.selected };
        let (before, count) = counts.change(self.by_host, domain, by);
        let changed = i64::from(count) - i64::from(before);
        if self.by_host {
            match domain.host() {
                Host::Node(node) => self.nodes.note(self.is.kind, node, owners, count),
                Host::NewClaim(claim) => self.new_claims.note(self.is.kind, claim, owners, count),
            }
        }
        changed
    }
}

impl Topology {
    /// The label set of pods of `namespace` with `labels`.
    pub(super) fn label_set(&mut self, namespace: &Str, labels: &Arc<Labels>) -> LabelSetId {
        let pointer = Arc::as_ptr(labels) as usize;
        let known = self.by_pointer.get(&pointer).copied();
        if let Some(kind) = known.filter(|known| self.label_sets[*known].namespace == *namespace) {
            return kind;
        }
        let content = (namespace.clone(), Arc::clone(labels));
        if let Some(kind) = self.by_content.get(&content) {
            return *kind;
        }
        let matching = self.groups.entries().filter(|(_, group)| group.is.selects(namespace, labels));
        let groups = matching.map(|(at, _)| at).collect();
        let label_set = self.label_sets.push(LabelSet {
            namespace: namespace.clone(),
            labels: Arc::clone(labels),
            groups,
            nodes: Vec::new(),
        });
        // The label set keeps the labels alive, so that the address stays theirs.
        self.by_pointer.entry(pointer).or_insert(label_set);
        self.by_content.insert(content, label_set);
        label_set
    }

    /// How many label sets and groups there are.
    pub(super) fn size(&self) -> usize {
        self.label_sets.len() + self.groups.len()
    }

    /// The group that `key` describes, if there is one already.
    pub(super) fn find(&self, key: &Wanted<'_>) -> Option<TopologyGroupId> {
        self.ids.get(key).copied()
    }

    /// Adds a group without counts. `domains` are the known ones, by text.
    pub(super) fn add(
        &mut self,
        key: GroupKey,
        by_host: bool,
        domains: Arc<[Value]>,
        of_pools: Bits<DomainId>,
    ) -> TopologyGroupId {
        let at = self.groups.next_id();
        for label_set in &mut self.label_sets {
            if key.selects(&label_set.namespace, &label_set.labels) {
                label_set.groups.push(at);
            }
        }
        self.ids.insert(key.clone(), at);
        self.groups.push(Group::new(key, by_host, domains, of_pools));
        at
    }

    /// Counts for good, as part of the snapshot.
    pub(super) fn count_base(&mut self, group: TopologyGroupId, domain: DomainId, owners: bool, by: i64) {
        self.groups[group].change(Change { group, domain, owners, by });
    }

    /// Counts until [`Self::undo`].
    pub(super) fn count(&mut self, group: TopologyGroupId, domain: DomainId, owners: bool, by: i64) {
        let by = self.groups[group].change(Change { group, domain, owners, by });
        self.log.push(Change { group, domain, owners, by });
        self.version += 1;
    }

    /// Takes back everything that was not counted for good.
    pub(super) fn undo(&mut self) {
        self.undo_to(0);
    }

    /// What [`Self::undo_to`] comes back to.
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Takes back everything since a mark.
    pub(super) fn undo_to(&mut self, mark: usize) {
        while self.log.len() > mark
            && let Some(change) = self.log.pop()
        {
            self.groups[change.group].change(Change { by: -change.by, ..change });
        }
        self.version += 1;
    }
}
