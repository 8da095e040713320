//! Pods by topology group and domain.
//!
//! A group counts the pods that its selector selects; an anti-affinity group also counts the pods that demand it, which
//! gives the inverse rule. Groups by hostname keep the nodes and the new NodeClaims that they close as sets, so that a
//! pod finds the ones that are left for it without asking each.

use std::ops::Deref;

use hashbrown::HashMap;

use crate::scheduling::{
    ids::{DomainId, Host, Id, NewClaimId, NodeId},
    tables::{
        bits::Bits,
        topology::{Group, GroupKind},
    },
};

/// Pods by domain.
#[derive(Debug, Default)]
struct DomainCounts {
    /// Nodes, in groups by hostname: few of them have any.
    nodes: HashMap<DomainId, u32>,
    /// New NodeClaims in groups by hostname, values of the key in others.
    dense: Vec<u32>,
    total: u64,
}

impl DomainCounts {
    fn get(&self, by_hostname: bool, domain: DomainId) -> u32 {
        if self.total == 0 {
            return 0;
        }
        match domain.dense(by_hostname) {
            None => self.nodes.get(&domain).copied().unwrap_or(0),
            Some(index) => self.dense.get(index).copied().unwrap_or(0),
        }
    }

    /// Changes a count, which does not fall below zero; returns what it was and what it is.
    fn change(&mut self, by_hostname: bool, domain: DomainId, by: i64) -> (u32, u32) {
        let before = self.get(by_hostname, domain);
        let after = u32::try_from(i64::from(before).saturating_add(by).max(0)).unwrap_or(u32::MAX);
        match domain.dense(by_hostname) {
            None if after == 0 => {
                self.nodes.remove(&domain);
            }
            None => {
                self.nodes.insert(domain, after);
            }
            Some(index) => {
                if self.dense.len() <= index {
                    self.dense.resize(index + 1, 0);
                }
                self.dense[index] = after;
            }
        }
        self.total = self.total.saturating_sub(u64::from(before)).saturating_add(u64::from(after));
        (before, after)
    }
}

/// The nodes or new NodeClaims that a group by hostname excludes, by its counts.
#[derive(Debug)]
pub(crate) struct Marks<I> {
    /// With selected pods: the only ones that affinity leaves, and closed by anti-affinity. Spreads have none.
    chosen: Bits<I>,
    /// With as many selected pods as a spread allows: closed to those that are selected themselves.
    full: Bits<I>,
    /// With more than that, beside pods that the spread does not bind: closed to all that it binds.
    over: Bits<I>,
    /// With pods that have this anti-affinity.
    owned: Bits<I>,
}

impl<I> Default for Marks<I> {
    fn default() -> Self {
        let [chosen, full, over, owned] = std::array::from_fn(|_| Bits::default());
        Self { chosen, full, over, owned }
    }
}

impl<I: Id> Marks<I> {
    /// Notes that `id` has `count` selected pods, or `count` that demand to be away from them.
    fn note(&mut self, kind: GroupKind, id: I, owners: bool, count: u32) {
        match kind {
            _ if owners => self.owned.set(id, count > 0),
            GroupKind::Spread { max_skew, .. } => {
                self.full.set(id, i64::from(count) >= max_skew);
                self.over.set(id, i64::from(count) > max_skew);
            }
            GroupKind::Affinity | GroupKind::Anti => self.chosen.set(id, count > 0),
        }
    }
}

/// A domain of groups by hostname: a node or a new NodeClaim.
pub(crate) trait HostId: Id {
    /// What a group keeps of such.
    fn marks(counts: &GroupCounts) -> &Marks<Self>;
}

impl HostId for NodeId {
    fn marks(counts: &GroupCounts) -> &Marks<Self> {
        &counts.nodes
    }
}

impl HostId for NewClaimId {
    fn marks(counts: &GroupCounts) -> &Marks<Self> {
        &counts.new_claims
    }
}

/// The counters of one topology group.
#[derive(Debug)]
pub(crate) struct GroupCounts {
    kind: GroupKind,
    by_hostname: bool,
    selected: DomainCounts,
    owners: DomainCounts,
    /// In groups by hostname, of existing and in-flight nodes.
    nodes: Marks<NodeId>,
    /// In groups by hostname, of new NodeClaims.
    new_claims: Marks<NewClaimId>,
}

impl GroupCounts {
    /// Nothing is counted yet.
    pub(crate) fn new(kind: GroupKind, by_hostname: bool) -> Self {
        Self {
            kind,
            by_hostname,
            selected: DomainCounts::default(),
            owners: DomainCounts::default(),
            nodes: Marks::default(),
            new_claims: Marks::default(),
        }
    }

    /// Changes the count of selected pods, or of pods that demand the group; returns by how much it did change.
    pub(super) fn change(&mut self, domain: DomainId, owners: bool, by: i64) -> i64 {
        let counts = if owners { &mut self.owners } else { &mut self.selected };
        let (before, count) = counts.change(self.by_hostname, domain, by);
        if self.by_hostname {
            match domain.host() {
                Host::Node(node) => self.nodes.note(self.kind, node, owners, count),
                Host::NewClaim(claim) => self.new_claims.note(self.kind, claim, owners, count),
            }
        }
        i64::from(count) - i64::from(before)
    }
}

/// A group with its counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedGroup<'a> {
    pub(super) group: &'a Group,
    pub(super) counts: &'a GroupCounts,
}

impl Deref for CountedGroup<'_> {
    type Target = Group;
    fn deref(&self) -> &Group {
        self.group
    }
}

impl CountedGroup<'_> {
    /// How many selected pods the domain has.
    pub(crate) fn count(&self, domain: DomainId) -> u32 {
        self.counts.selected.get(self.group.by_hostname, domain)
    }

    /// Whether no pod in the domain has this anti-affinity.
    pub(crate) fn unclaimed(&self, domain: DomainId) -> bool {
        self.counts.owners.get(self.group.by_hostname, domain) == 0
    }

    /// Whether any pod at all demands this anti-affinity.
    pub(crate) fn has_owners(&self) -> bool {
        self.counts.owners.total > 0
    }

    /// Whether nothing is counted anywhere.
    pub(crate) fn is_unused(&self) -> bool {
        self.counts.selected.total == 0
    }

    /// Removes the hosts that the group, by hostname, excludes: see [`Self::allows`].
    pub(super) fn keep_allowed<I: HostId>(
        &self,
        hosts: &mut Bits<I>,
        selects_itself: bool,
        bootstraps: bool,
    ) {
        let marks = I::marks(self.counts);
        match self.group.spec.kind {
            _ if !self.group.by_hostname => {}
            GroupKind::Spread { max_skew, .. } if max_skew < i64::from(selects_itself) => {
                *hosts = Bits::default();
            }
            GroupKind::Spread { .. } => {
                hosts.subtract(if selects_itself { &marks.full } else { &marks.over });
            }
            GroupKind::Affinity if bootstraps => {}
            GroupKind::Affinity => hosts.intersect(&marks.chosen),
            GroupKind::Anti => hosts.subtract(&marks.chosen),
        }
    }

    /// Removes the hosts whose pods have this anti-affinity.
    pub(super) fn keep_unclaimed<I: HostId>(&self, hosts: &mut Bits<I>) {
        if self.group.by_hostname {
            hosts.subtract(&I::marks(self.counts).owned);
        }
    }

    /// The smallest count over the domains, which are those that any of the required node affinity terms of the pod allows;
    /// zero where too few are known, and always for nodes, since an empty one can be had.
    pub(crate) fn minimum(&self) -> i64 {
        let GroupKind::Spread { min_domains, .. } = self.group.spec.kind else { return 0 };
        if self.group.by_hostname || i64::try_from(self.group.domains.len()).unwrap_or(i64::MAX) < min_domains
        {
            return 0;
        }
        let counts = self.group.domains.iter().map(|domain| self.count(DomainId::of_value(*domain)));
        i64::from(counts.min().unwrap_or(0))
    }

    /// Whether another pod may go to the domain, `minimum` being what [`Self::minimum`] said.
    pub(crate) fn allows(
        &self,
        domain: DomainId,
        selects_itself: bool,
        minimum: i64,
        bootstraps: bool,
    ) -> bool {
        match self.group.spec.kind {
            GroupKind::Spread { max_skew, .. } => {
                let known = self.group.by_hostname || self.group.known.has(domain);
                let more = i64::from(selects_itself);
                known && i64::from(self.count(domain)) + more - minimum <= max_skew
            }
            GroupKind::Affinity => bootstraps || self.count(domain) > 0,
            GroupKind::Anti => self.count(domain) == 0,
        }
    }
}
