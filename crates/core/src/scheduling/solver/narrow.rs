//! What topology leaves of the domains that a node or claim could be in.

use smallvec::SmallVec;

use super::{
    Solver,
    bits::Bits,
    compile::Owned,
    intern::{ANY, Key, Req, Set, Side, Value},
    placement::CountedGroup,
    topology::GroupKind,
};
use crate::scheduling::ids::{DomainId, LevelId, NewClaimId, NodeId, PodClassId, TopologyGroupId};

/// More combinations of domains than this are not tried for one claim.
const MAX_COMBINATIONS: usize = 32;

/// The topology that a class obeys at one level, as the counters stand now.
#[derive(Debug)]
pub(super) struct Demand {
    /// Its own groups, each with the count of the emptiest domain.
    groups: SmallVec<[(Owned, i64); 2]>,
    /// Groups by which other pods keep it away.
    inverse: SmallVec<[TopologyGroupId; 2]>,
    /// Whether it may be the first of its affinity anywhere.
    bootstraps: bool,
    /// What is left of the domains of each key but the hostname.
    choices: SmallVec<[Choice; 2]>,
}

/// The domains of one key that a pod may use.
#[derive(Debug)]
struct Choice {
    key: Key,
    /// Best first.
    domains: SmallVec<[Value; 8]>,
    /// Whether one of them has to be picked now.
    one: bool,
    /// Whether the key matters only in so far as some domains are out: a claim without the label is fine.
    only_away: bool,
    /// Whether any domain is out.
    excludes: bool,
    /// The group that had the last word.
    group: TopologyGroupId,
}

/// The topology group that leaves no domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nowhere(pub(super) TopologyGroupId);

impl Demand {
    /// Whether topology has no say.
    pub(super) fn is_free(&self) -> bool {
        self.groups.is_empty() && self.inverse.is_empty()
    }
}

impl Solver {
    /// A group with its counters.
    pub(super) fn counted(&self, group: TopologyGroupId) -> CountedGroup<'_> {
        self.placement.counted(&self.topology, group)
    }

    /// Whether nothing but room, labels and taints matters to a class before it is relaxed, and it to no other.
    pub(super) fn is_unbound(&self, class: PodClassId) -> bool {
        let this = &self.classes[class];
        this.refused.is_none()
            && this.levels[LevelId::FIRST].groups.is_empty()
            && this.keeps_away.is_empty()
            && this.alternatives[..] == [ANY]
            && this.attachments.is_empty()
            && this.pod.spec.host_ports.is_empty()
            && !this.claims_devices()
            && self.reservations.names.is_empty()
    }

    /// The nodes of `fitting` that topology leaves to a pod; all that say yes are among them. `None` is all.
    pub(super) fn nodes_left(&mut self, demand: &Demand, fitting: &Bits<NodeId>) -> Option<Bits<NodeId>> {
        if demand.is_free() || fitting.is_empty() {
            return None;
        }
        let mut left = fitting.clone();
        for (owned, _) in &demand.groups {
            let group = self.counted(owned.group);
            group.keep_nodes(&mut left, owned.selects_itself, demand.bootstraps);
        }
        for group in &demand.inverse {
            self.counted(*group).keep_unclaimed_nodes(&mut left);
        }
        for choice in demand.choices.iter().filter(|choice| !choice.only_away) {
            let mut within = self.open.clone();
            let nodes = self.nodes_by(choice.key);
            choice.domains.iter().filter_map(|value| nodes.get(value)).for_each(|of| within.unite(of));
            left.intersect(&within);
        }
        Some(left)
    }

    /// The topology that a class obeys at a level.
    pub(super) fn demand(&self, class: PodClassId, level: LevelId) -> Demand {
        let level = &self.classes[class].levels[level];
        let groups = level.groups.iter().map(|owned| {
            let allowed = self.spread_domains(level, owned.group);
            (*owned, self.counted(owned.group).minimum(&self.universe, allowed))
        });
        let near = |owned: &&Owned| self.topology.groups[owned.group].is.kind == GroupKind::Affinity;
        let bootstraps = level
            .groups
            .iter()
            .filter(near)
            .all(|owned| owned.selects_itself && self.counted(owned.group).is_unused());
        let label_set = &self.topology.label_sets[self.classes[class].label_set];
        let inverse = label_set.groups.iter().copied().filter(|group| self.counted(*group).has_owners());
        let mut demand = Demand {
            groups: groups.collect(),
            inverse: inverse.collect(),
            bootstraps,
            choices: SmallVec::new(),
        };
        self.choose(&mut demand, &label_set.groups);
        demand
    }

    /// Works out which domains of each key are left.
    fn choose(&self, demand: &mut Demand, selecting: &[TopologyGroupId]) {
        let mut choices: SmallVec<[Choice; 2]> = SmallVec::new();
        for (owned, minimum) in &demand.groups {
            let group = self.counted(owned.group);
            let bootstraps = demand.bootstraps;
            self.restrict(&mut choices, owned.group, bootstraps, |domain| {
                group.allows(domain, owned.selects_itself, *minimum, bootstraps)
            });
        }
        // Who is avoided takes no more domains from those that avoid it than it has to.
        let avoided = |at: &&TopologyGroupId| {
            self.pinning.has(**at) && self.topology.groups[**at].is.kind == GroupKind::Anti
        };
        let avoiding = selecting.iter().filter(avoided).chain(&demand.inverse);
        for at in avoiding {
            self.restrict(&mut choices, *at, false, |domain| self.counted(*at).unclaimed(domain));
        }
        demand.choices = choices;
    }

    fn restrict(
        &self,
        choices: &mut SmallVec<[Choice; 2]>,
        at: TopologyGroupId,
        bootstraps: bool,
        allows: impl Fn(DomainId) -> bool,
    ) {
        let group = self.counted(at);
        if group.by_host {
            return;
        }
        let mut domains: SmallVec<[Value; 8]> =
            group.domains.iter().copied().filter(|value| allows(DomainId::of_value(*value))).collect();
        let (one, only_away) = match group.is.kind {
            GroupKind::Spread { .. } => (true, false),
            GroupKind::Affinity => (bootstraps, false),
            GroupKind::Anti => (self.pinning.has(at), true),
        };
        let excludes = domains.len() < group.domains.len();
        if matches!(group.is.kind, GroupKind::Spread { .. }) {
            domains.sort_by_key(|value| group.count(DomainId::of_value(*value)));
        }
        let key = group.is.key;
        match choices.iter_mut().find(|choice| choice.key == key) {
            Some(choice) => {
                choice.domains.retain(|value| domains.contains(value));
                choice.one |= one;
                choice.only_away &= only_away;
                choice.excludes |= excludes;
                choice.group = at;
            }
            None => choices.push(Choice { key, domains, one, only_away, excludes, group: at }),
        }
    }

    /// Whether the topology allows a pod on a node whose labels are fixed.
    pub(super) fn obeys_on(&self, demand: &Demand, at: NodeId) -> bool {
        let domain = |group: TopologyGroupId| {
            let group = self.counted(group);
            if group.by_host {
                Some(at.into())
            } else {
                self.nodes[at].label(group.is.key).map(DomainId::of_value)
            }
        };
        let own = demand.groups.iter().all(|(owned, minimum)| {
            let group = self.counted(owned.group);
            match domain(owned.group) {
                Some(domain) => group.allows(domain, owned.selects_itself, *minimum, demand.bootstraps),
                None => group.is.kind == GroupKind::Anti,
            }
        });
        own && demand
            .inverse
            .iter()
            .all(|group| domain(*group).is_none_or(|domain| self.counted(*group).unclaimed(domain)))
    }

    /// Whether a node or claim may have another pod as far as groups by hostname say.
    pub(super) fn obeys_by_host(&self, demand: &Demand, host: DomainId) -> Result<(), Nowhere> {
        for (owned, minimum) in &demand.groups {
            let group = self.counted(owned.group);
            if group.by_host && !group.allows(host, owned.selects_itself, *minimum, demand.bootstraps) {
                return Err(Nowhere(owned.group));
            }
        }
        let taken = |group: &&TopologyGroupId| {
            let group = self.counted(**group);
            group.by_host && !group.unclaimed(host)
        };
        match demand.inverse.iter().find(taken) {
            Some(group) => Err(Nowhere(*group)),
            None => Ok(()),
        }
    }

    /// Takes the new NodeClaims out of `claims` that groups by hostname close to a pod.
    pub(super) fn keep_by_host(&self, demand: &Demand, claims: &mut Bits<NewClaimId>) {
        for (owned, _) in &demand.groups {
            let group = self.counted(owned.group);
            group.keep_allowed(claims, owned.selects_itself, demand.bootstraps);
        }
        for group in &demand.inverse {
            self.counted(*group).keep_unclaimed(claims);
        }
    }

    /// Whether `req` leaves a domain of every key that matters.
    pub(super) fn obeys_by_key(&self, demand: &Demand, req: Req) -> Result<(), Nowhere> {
        for choice in &demand.choices {
            let left = match self.universe.get(req, choice.key) {
                None => choice.only_away || !choice.domains.is_empty(),
                Some(set) => {
                    let within = |value: &Value| self.universe.has(choice.key, set, *value);
                    (choice.only_away && !choice.excludes) || choice.domains.iter().any(within)
                }
            };
            if !left {
                return Err(Nowhere(choice.group));
            }
        }
        Ok(())
    }

    /// What the topology leaves of `req` for a pod on the claim that is node `host` to it: alternatives, best first.
    /// Where it leaves nothing, the group that took the last.
    pub(super) fn narrow(
        &mut self,
        demand: &Demand,
        host: DomainId,
        req: Req,
    ) -> Result<SmallVec<[Req; 4]>, Nowhere> {
        self.obeys_by_host(demand, host)?;
        let mut options: SmallVec<[Req; 4]> = smallvec::smallvec![req];
        for choice in &demand.choices {
            let set = self.universe.get(req, choice.key);
            if choice.only_away
                && ((!choice.excludes && !choice.one)
                    || (set.is_none() && !self.universe.is_well_known(choice.key)))
            {
                // Nothing is out, or without the label there is no domain to share.
                continue;
            }
            let within = |value: &Value| set.is_none_or(|set| self.universe.has(choice.key, set, *value));
            let left: SmallVec<[Value; 8]> = choice.domains.iter().copied().filter(within).collect();
            let nowhere = Nowhere(choice.group);
            if left.is_empty() {
                return Err(nowhere);
            }
            if set.and_then(Set::single).is_some() {
                continue;
            }
            options = self.combine(&options, choice, &left).ok_or(nowhere)?;
        }
        Ok(options)
    }

    /// Each option with each of the domains that are left, or with all of them at once where none must be picked.
    fn combine(&mut self, options: &[Req], choice: &Choice, left: &[Value]) -> Option<SmallVec<[Req; 4]>> {
        let narrower: SmallVec<[Req; 8]> = if choice.one {
            left.iter().map(|value| self.universe.only(choice.key, *value)).collect()
        } else {
            let set = Set::of(left.iter().copied());
            smallvec::smallvec![self.universe.conjunction([(choice.key, set)])]
        };
        let mut combined: SmallVec<[Req; 4]> = SmallVec::new();
        for (option, with) in options.iter().flat_map(|option| narrower.iter().map(move |n| (*option, *n))) {
            if combined.len() == MAX_COMBINATIONS {
                break;
            }
            combined.extend(self.universe.meet(option, with, Side::Claim));
        }
        (!combined.is_empty()).then_some(combined)
    }
}
