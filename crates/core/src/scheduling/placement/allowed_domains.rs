//! What topology leaves of the domains that a node or claim could be in.

use smallvec::SmallVec;

use crate::scheduling::{
    ids::{DomainId, LevelId, NewClaimId, NodeId, PodClassId, TopologyGroupId},
    placement::{CountedGroup, Placement},
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

/// The topology that a class obeys at one level, as the counters stand now.
#[derive(Debug)]
pub(crate) struct Demand {
    pub(crate) class: PodClassId,
    pub(crate) level: LevelId,
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
pub(crate) struct Nowhere(pub(crate) TopologyGroupId);

impl Demand {
    /// Whether topology has no say.
    pub(crate) fn is_free(&self) -> bool {
        self.groups.is_empty() && self.inverse.is_empty()
    }
}

/// Whether nothing but room, labels and taints matters to a class before it is relaxed, and it to no other.
pub(crate) fn is_unbound(tables: &Tables, class: PodClassId) -> bool {
    let this = &tables.classes[class];
    this.refused.is_none()
        && this.levels[LevelId::FIRST].groups.is_empty()
        && this.keeps_away.is_empty()
        && this.alternatives[..] == [ANY]
        && this.attachments.is_empty()
        && this.pod.spec.host_ports.is_empty()
        && !this.claims_devices()
        && tables.reservations.names.is_empty()
}

/// Whether `req` leaves a domain of every key that matters.
pub(crate) fn obeys_by_key(tables: &Tables, demand: &Demand, req: Req) -> Result<(), Nowhere> {
    for choice in &demand.choices {
        let left = match tables.universe.get(req, choice.key) {
            None => choice.only_away || !choice.domains.is_empty(),
            Some(set) => {
                let within = |value: &Value| tables.universe.has(choice.key, set, *value);
                (choice.only_away && !choice.excludes) || choice.domains.iter().any(within)
            }
        };
        if !left {
            return Err(Nowhere(choice.group));
        }
    }
    Ok(())
}

/// Each option with each of the domains that are left, or with all of them at once where none must be picked.
fn combine(
    tables: &mut Tables,
    options: &[Req],
    choice: &Choice,
    left: &[Value],
) -> Option<SmallVec<[Req; 4]>> {
    let narrower: SmallVec<[Req; 8]> = if choice.one {
        left.iter().map(|value| tables.universe.only(choice.key, *value)).collect()
    } else {
        let set = Set::of(left.iter().copied());
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

/// A group with its counters.
pub(crate) fn counted<'a>(
    tables: &'a Tables,
    placement: &'a Placement,
    group: TopologyGroupId,
) -> CountedGroup<'a> {
    placement.counted(&tables.topology, group)
}

/// The nodes of `fitting` that topology leaves to a pod; all that say yes are among them. `None` is all.
pub(crate) fn nodes_left(
    tables: &mut Tables,
    placement: &Placement,
    demand: &Demand,
    fitting: &Bits<NodeId>,
) -> Option<Bits<NodeId>> {
    if demand.is_free() || fitting.is_empty() {
        return None;
    }
    let mut left = fitting.clone();
    for (owned, _) in &demand.groups {
        let group = counted(tables, placement, owned.group);
        group.keep_nodes(&mut left, owned.selects_itself, demand.bootstraps);
    }
    for group in &demand.inverse {
        counted(tables, placement, *group).keep_unclaimed_nodes(&mut left);
    }
    for choice in demand.choices.iter().filter(|choice| !choice.only_away) {
        let mut within = tables.open.clone();
        let nodes = tables.nodes_by(choice.key);
        choice.domains.iter().filter_map(|value| nodes.get(value)).for_each(|of| within.unite(of));
        left.intersect(&within);
    }
    Some(left)
}

/// The topology that a class obeys at a level.
pub(crate) fn demand(tables: &Tables, placement: &Placement, class: PodClassId, level: LevelId) -> Demand {
    let of = &tables.classes[class].levels[level];
    let groups = of.groups.iter().map(|owned| (*owned, counted(tables, placement, owned.group).minimum()));
    let near = |owned: &&Owned| tables.topology.groups[owned.group].is.kind == GroupKind::Affinity;
    let bootstraps = of
        .groups
        .iter()
        .filter(near)
        .all(|owned| owned.selects_itself && counted(tables, placement, owned.group).is_unused());
    let label_set = &tables.topology.label_sets[tables.classes[class].label_set];
    let inverse =
        label_set.groups.iter().copied().filter(|group| counted(tables, placement, *group).has_owners());
    let mut demand = Demand {
        class,
        level,
        groups: groups.collect(),
        inverse: inverse.collect(),
        bootstraps,
        choices: SmallVec::new(),
    };
    choose(tables, placement, &mut demand, &label_set.groups);
    demand
}

/// Works out which domains of each key are left.
fn choose(tables: &Tables, placement: &Placement, demand: &mut Demand, selecting: &[TopologyGroupId]) {
    let mut choices: SmallVec<[Choice; 2]> = SmallVec::new();
    for (owned, minimum) in &demand.groups {
        let group = counted(tables, placement, owned.group);
        let bootstraps = demand.bootstraps;
        restrict(tables, placement, &mut choices, owned.group, bootstraps, |domain| {
            group.allows(domain, owned.selects_itself, *minimum, bootstraps)
        });
    }
    // Who is avoided takes no more domains from those that avoid it than it has to.
    let avoided = |at: &&TopologyGroupId| {
        placement.pinning.has(**at) && tables.topology.groups[**at].is.kind == GroupKind::Anti
    };
    let avoiding = selecting.iter().filter(avoided).chain(&demand.inverse);
    for at in avoiding {
        restrict(tables, placement, &mut choices, *at, false, |domain| {
            counted(tables, placement, *at).unclaimed(domain)
        });
    }
    demand.choices = choices;
}

fn restrict(
    tables: &Tables,
    placement: &Placement,
    choices: &mut SmallVec<[Choice; 2]>,
    at: TopologyGroupId,
    bootstraps: bool,
    allows: impl Fn(DomainId) -> bool,
) {
    let group = counted(tables, placement, at);
    if group.by_hostname {
        return;
    }
    let mut domains: SmallVec<[Value; 8]> =
        group.domains.iter().copied().filter(|value| allows(DomainId::of_value(*value))).collect();
    let (one, only_away) = match group.is.kind {
        GroupKind::Spread { .. } => (true, false),
        GroupKind::Affinity => (bootstraps, false),
        GroupKind::Anti => (placement.pinning.has(at), true),
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
pub(crate) fn obeys_on(tables: &Tables, placement: &Placement, demand: &Demand, at: NodeId) -> bool {
    let domain = |group: TopologyGroupId| {
        let group = counted(tables, placement, group);
        if group.by_hostname {
            Some(at.into())
        } else {
            tables.nodes[at].label(group.is.key).map(DomainId::of_value)
        }
    };
    let own = demand.groups.iter().all(|(owned, minimum)| {
        let group = counted(tables, placement, owned.group);
        match domain(owned.group) {
            Some(domain) => group.allows(domain, owned.selects_itself, *minimum, demand.bootstraps),
            None => group.is.kind == GroupKind::Anti,
        }
    });
    own && demand
        .inverse
        .iter()
        .all(|group| domain(*group).is_none_or(|domain| counted(tables, placement, *group).unclaimed(domain)))
}

/// Whether a node or claim may have another pod as far as groups by hostname say.
pub(crate) fn obeys_by_hostname(
    tables: &Tables,
    placement: &Placement,
    demand: &Demand,
    host: DomainId,
) -> Result<(), Nowhere> {
    for (owned, minimum) in &demand.groups {
        let group = counted(tables, placement, owned.group);
        if group.by_hostname && !group.allows(host, owned.selects_itself, *minimum, demand.bootstraps) {
            return Err(Nowhere(owned.group));
        }
    }
    let taken = |group: &&TopologyGroupId| {
        let group = counted(tables, placement, **group);
        group.by_hostname && !group.unclaimed(host)
    };
    match demand.inverse.iter().find(taken) {
        Some(group) => Err(Nowhere(*group)),
        None => Ok(()),
    }
}

/// Takes the new NodeClaims out of `claims` that groups by hostname close to a pod.
pub(crate) fn keep_by_hostname(
    tables: &Tables,
    placement: &Placement,
    demand: &Demand,
    claims: &mut Bits<NewClaimId>,
) {
    for (owned, _) in &demand.groups {
        let group = counted(tables, placement, owned.group);
        group.keep_allowed(claims, owned.selects_itself, demand.bootstraps);
    }
    for group in &demand.inverse {
        counted(tables, placement, *group).keep_unclaimed(claims);
    }
}

/// What the topology leaves of `req` for a pod on the claim that is node `host` to it: alternatives, best first.
/// Where it leaves nothing, the group that took the last.
pub(crate) fn narrow(
    tables: &mut Tables,
    placement: &Placement,
    demand: &Demand,
    host: DomainId,
    req: Req,
) -> Result<SmallVec<[Req; 4]>, Nowhere> {
    obeys_by_hostname(tables, placement, demand, host)?;
    let mut options: SmallVec<[Req; 4]> = smallvec::smallvec![req];
    for choice in &demand.choices {
        let set = tables.universe.get(req, choice.key);
        if choice.only_away
            && ((!choice.excludes && !choice.one)
                || (set.is_none() && !tables.universe.is_well_known(choice.key)))
        {
            // Nothing is out, or without the label there is no domain to share.
            continue;
        }
        let within = |value: &Value| set.is_none_or(|set| tables.universe.has(choice.key, set, *value));
        let left: SmallVec<[Value; 8]> = choice.domains.iter().copied().filter(within).collect();
        let nowhere = Nowhere(choice.group);
        if left.is_empty() {
            return Err(nowhere);
        }
        if set.and_then(Set::single).is_some() {
            continue;
        }
        options = combine(tables, &options, choice, &left).ok_or(nowhere)?;
    }
    Ok(options)
}
