//! Decides which domains topology allows for a pod on a node or a new NodeClaim.

use smallvec::SmallVec;

use crate::scheduling::{
    ids::{DomainId, LevelId, NodeId, PodClassId, TopologyGroupId},
    placement::{CountedGroup, HostId, domains::Domains},
    tables::{
        Tables,
        bits::Bits,
        intern::{ANY, Key, Req, Set, Side, Value},
        pod_classes::Owned,
        topology::GroupKind,
    },
};

/// More combinations of domains than this are not tried for one claim.
const MAX_COMBINATIONS: usize = 32;

/// The topology constraints of a class at one level, with the current counts.
#[derive(Debug)]
pub(crate) struct TopologyDemand {
    pub(crate) class: PodClassId,
    pub(crate) level: LevelId,
    /// Its own groups, each with the count of the emptiest domain.
    groups: SmallVec<[(Owned, i64); 2]>,
    /// Groups by which other pods keep it away.
    inverse: SmallVec<[TopologyGroupId; 2]>,
    /// Whether it may be the first pod of its affinity groups.
    bootstraps: bool,
    /// The allowed domains of each key but the hostname.
    choices: SmallVec<[Choice; 2]>,
}

/// The domains of one key that a pod may use.
#[derive(Debug)]
struct Choice {
    key: Key,
    /// Best first.
    domains: SmallVec<[Value; 8]>,
    /// Whether one of them must be picked now.
    pick_one: bool,
    /// Whether only anti-affinity restricts the key: a claim without the label is allowed.
    optional: bool,
    /// Whether any domain is excluded.
    excludes: bool,
    /// The group that restricted the domains last.
    group: TopologyGroupId,
}

/// The topology group that allows no domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoDomain(pub(crate) TopologyGroupId);

impl TopologyDemand {
    /// Whether no topology constraint applies.
    pub(crate) fn is_free(&self) -> bool {
        self.groups.is_empty() && self.inverse.is_empty()
    }
}

/// Whether only resources, labels and taints constrain a class before relaxation, and it constrains no other.
pub(crate) fn is_unbound(tables: &Tables, class: PodClassId) -> bool {
    let this = &tables.classes[class];
    this.refused.is_none()
        && this.levels[LevelId::FIRST].groups.is_empty()
        && this.keeps_away.is_empty()
        && this.alternatives[..] == [ANY]
        && this.attachments.is_empty()
        && this.pod.spec.host_ports.is_empty()
        && !this.claims_devices()
        && tables.reservations.is_empty()
}

/// Whether `req` leaves a domain of every key that matters.
pub(crate) fn obeys_by_key(tables: &Tables, demand: &TopologyDemand, req: Req) -> Result<(), NoDomain> {
    for choice in &demand.choices {
        let open = match tables.universe.get(req, choice.key) {
            None => choice.optional || !choice.domains.is_empty(),
            Some(set) => {
                let within = |value: &Value| tables.universe.has(choice.key, set, *value);
                (choice.optional && !choice.excludes) || choice.domains.iter().any(within)
            }
        };
        if !open {
            return Err(NoDomain(choice.group));
        }
    }
    Ok(())
}

/// Combines each option with each of the domains, or with all of them at once if none must be picked.
fn combine(
    tables: &Tables,
    options: &[Req],
    choice: &Choice,
    domains: &[Value],
) -> Option<SmallVec<[Req; 4]>> {
    let narrower: SmallVec<[Req; 8]> = if choice.pick_one {
        domains.iter().map(|value| tables.universe.only(choice.key, *value)).collect()
    } else {
        let set = Set::of(domains.iter().copied());
        smallvec::smallvec![tables.universe.conjunction([(choice.key, set)])]
    };
    let mut combined: SmallVec<[Req; 4]> = SmallVec::new();
    for (option, with) in options.iter().flat_map(|option| narrower.iter().map(move |n| (*option, *n))) {
        if combined.len() == MAX_COMBINATIONS {
            break;
        }
        combined.extend(tables.universe.meet(option, with, Side::Claim));
    }
    (!combined.is_empty()).then_some(combined)
}

impl<'a> Domains<'a> {
    /// A group with its counters.
    pub(crate) fn counted(&self, group: TopologyGroupId) -> CountedGroup<'a> {
        self.placement.counted(&self.tables.topology, group)
    }

    /// The topology that a class obeys at a level.
    pub(crate) fn demand(&self, class: PodClassId, level: LevelId) -> TopologyDemand {
        let Self { tables, .. } = *self;
        let owned = &tables.classes[class].levels[level].groups;
        let bootstraps = |owned: &Owned| owned.selects_itself && self.counted(owned.group).is_unused();
        let near = |owned: &&Owned| tables.topology.groups[owned.group].spec.kind == GroupKind::Affinity;
        let selecting = &tables.topology.label_sets[tables.classes[class].label_set].groups;
        let inverse = selecting.iter().copied().filter(|group| self.counted(*group).has_owners());
        let mut demand = TopologyDemand {
            class,
            level,
            groups: owned.iter().map(|owned| (*owned, self.counted(owned.group).minimum())).collect(),
            inverse: inverse.collect(),
            bootstraps: owned.iter().filter(near).all(bootstraps),
            choices: SmallVec::new(),
        };
        demand.choices = self.choices(&demand, selecting);
        demand
    }

    /// The allowed domains of each key.
    fn choices(&self, demand: &TopologyDemand, selecting: &[TopologyGroupId]) -> SmallVec<[Choice; 2]> {
        let mut choices: SmallVec<[Choice; 2]> = SmallVec::new();
        for (owned, minimum) in &demand.groups {
            let group = self.counted(owned.group);
            let bootstraps = demand.bootstraps;
            self.restrict(&mut choices, owned.group, bootstraps, |domain| {
                group.allows(domain, owned.selects_itself, *minimum, bootstraps)
            });
        }
        // A pod that others avoid picks one domain, so that it closes no more domains to them than necessary.
        let avoided = |group_id: &&TopologyGroupId| {
            self.placement.pinning.has(**group_id)
                && self.tables.topology.groups[**group_id].spec.kind == GroupKind::Anti
        };
        for group_id in selecting.iter().filter(avoided).chain(&demand.inverse) {
            let group = self.counted(*group_id);
            self.restrict(&mut choices, *group_id, false, |domain| group.unclaimed(domain));
        }
        choices
    }

    fn restrict(
        &self,
        choices: &mut SmallVec<[Choice; 2]>,
        group_id: TopologyGroupId,
        bootstraps: bool,
        allows: impl Fn(DomainId) -> bool,
    ) {
        let group = self.counted(group_id);
        if group.by_hostname {
            return;
        }
        let mut domains: SmallVec<[Value; 8]> =
            group.domains.iter().copied().filter(|value| allows(DomainId::of_value(*value))).collect();
        let (pick_one, optional) = match group.spec.kind {
            GroupKind::Spread { .. } => (true, false),
            GroupKind::Affinity => (bootstraps, false),
            GroupKind::Anti => (self.placement.pinning.has(group_id), true),
        };
        let excludes = domains.len() < group.domains.len();
        if matches!(group.spec.kind, GroupKind::Spread { .. }) {
            domains.sort_by_key(|value| group.count(DomainId::of_value(*value)));
        }
        let key = group.spec.key;
        match choices.iter_mut().find(|choice| choice.key == key) {
            Some(choice) => {
                choice.domains.retain(|value| domains.contains(value));
                choice.pick_one |= pick_one;
                choice.optional &= optional;
                choice.excludes |= excludes;
                choice.group = group_id;
            }
            None => choices.push(Choice { key, domains, pick_one, optional, excludes, group: group_id }),
        }
    }

    /// The nodes of `fitting` that topology may allow for a pod. `None` is all.
    pub(crate) fn nodes_left(&self, demand: &TopologyDemand, fitting: &Bits<NodeId>) -> Option<Bits<NodeId>> {
        if demand.is_free() || fitting.is_empty() {
            return None;
        }
        let mut allowed = fitting.clone();
        self.keep_by_hostname(demand, &mut allowed);
        for choice in demand.choices.iter().filter(|choice| !choice.optional) {
            let mut within = self.tables.open.clone();
            let nodes = &self.tables.by_value[&choice.key];
            let members = choice.domains.iter().filter_map(|value| nodes.get(value));
            members.for_each(|members| within.unite(members));
            allowed.intersect(&within);
        }
        Some(allowed)
    }

    /// Removes the nodes or new NodeClaims that groups by hostname exclude.
    pub(crate) fn keep_by_hostname<I: HostId>(&self, demand: &TopologyDemand, hosts: &mut Bits<I>) {
        for (owned, _) in &demand.groups {
            self.counted(owned.group).keep_allowed(hosts, owned.selects_itself, demand.bootstraps);
        }
        for group in &demand.inverse {
            self.counted(*group).keep_unclaimed(hosts);
        }
    }

    /// Whether the topology allows a pod on a node whose labels are fixed.
    pub(crate) fn obeys_on(&self, demand: &TopologyDemand, node_id: NodeId) -> bool {
        let domain = |group: &CountedGroup<'_>| match group.by_hostname {
            true => Some(node_id.into()),
            false => self.tables.nodes[node_id].label(group.spec.key).map(DomainId::of_value),
        };
        let own = demand.groups.iter().all(|(owned, minimum)| {
            let group = self.counted(owned.group);
            match domain(&group) {
                Some(domain) => group.allows(domain, owned.selects_itself, *minimum, demand.bootstraps),
                None => group.spec.kind == GroupKind::Anti,
            }
        });
        own && demand.inverse.iter().all(|group| {
            let group = self.counted(*group);
            domain(&group).is_none_or(|domain| group.unclaimed(domain))
        })
    }

    /// Whether a node or claim may have another pod as far as groups by hostname say.
    fn obeys_by_hostname(&self, demand: &TopologyDemand, host: DomainId) -> Result<(), NoDomain> {
        for (owned, minimum) in &demand.groups {
            let group = self.counted(owned.group);
            if group.by_hostname && !group.allows(host, owned.selects_itself, *minimum, demand.bootstraps) {
                return Err(NoDomain(owned.group));
            }
        }
        let taken = |group: &&TopologyGroupId| {
            let group = self.counted(**group);
            group.by_hostname && !group.unclaimed(host)
        };
        demand.inverse.iter().find(taken).map_or(Ok(()), |group| Err(NoDomain(*group)))
    }

    /// Narrows `req` by topology for a pod on the claim that is domain `host`: alternatives, best first.
    /// The error is the group that excludes the last domain.
    pub(crate) fn narrow(
        &self,
        demand: &TopologyDemand,
        host: DomainId,
        req: Req,
    ) -> Result<SmallVec<[Req; 4]>, NoDomain> {
        self.obeys_by_hostname(demand, host)?;
        let universe = &self.tables.universe;
        let mut options: SmallVec<[Req; 4]> = smallvec::smallvec![req];
        for choice in &demand.choices {
            let set = universe.get(req, choice.key);
            if choice.optional
                && ((!choice.excludes && !choice.pick_one)
                    || (set.is_none() && !universe.is_well_known(choice.key)))
            {
                // No domain is excluded, or there is none without the label.
                continue;
            }
            let within = |value: &Value| set.is_none_or(|set| universe.has(choice.key, set, *value));
            let left: SmallVec<[Value; 8]> = choice.domains.iter().copied().filter(within).collect();
            let nowhere = NoDomain(choice.group);
            if left.is_empty() {
                return Err(nowhere);
            }
            if set.and_then(Set::single).is_some() {
                continue;
            }
            options = combine(self.tables, &options, choice, &left).ok_or(nowhere)?;
        }
        Ok(options)
    }
}
