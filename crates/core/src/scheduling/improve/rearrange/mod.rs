//! New NodeClaims packed again once topology has had its say.
//!
//! Pods that spread or keep apart are placed one by one, in an order that knows no prices. Here they change nodes, and
//! keep the domains that they were given (zones, capacity types, …): every count of a group by such a key stays what it
//! is, so that nothing about it has to be asked again. What groups by hostname demand is counted node by node.
//!
//! - [`PinnedDomains`]: what topology holds a pod to.
//! - `hosts`: nodes that pods are put on and taken off, at what price.
//! - `search`: the cheapest nodes that can be found; free of Kubernetes, like `hosts`.
//! - `commit`: what was found, as new NodeClaims of the pass.
//!
//! What a disruption would open is taken apart as a whole, to see whether it can be had for less than what goes.
//!
//! Left alone are new NodeClaims of pools with limits, those that hold reservations, ports or volumes, and those with a pod whose
//! place others depend on: affinity by hostname, spreads that count some nodes only.

mod commit;
mod hosts;
mod search;

use hashbrown::HashMap;
use indexmap::IndexSet;
use smallvec::SmallVec;

use self::{
    commit::{Found, rebuild},
    hosts::{Host, Kind, Marks, Problem},
    search::Search,
};
use crate::scheduling::{
    greedy::{
        deferral::{Eligibility, groups_of},
        pass::Pass,
    },
    ids::{IdVec, LevelId, NewClaimId, NodePoolId, PodClassId, PodId, TopologyGroupId},
    improve::{
        improve,
        patterns::{Builder, State, dims},
    },
    placement::Placement,
    request::Effort,
    tables::{
        Tables,
        amounts::Amounts,
        bits::Bits,
        intern::{ANY, Key, Req, Set, Side},
        topology::GroupKind,
    },
};

/// More new NodeClaims than this are not packed again.
const MAX_NEW_CLAIMS: usize = 20_000;
/// Nor are larger requests: their first plan would wait for it.
const MAX_PODS: usize = 60_000;
/// Pools of one weight beyond these are not looked at for one pod.
const MAX_TEMPLATES: usize = 16;
/// Rounds without a saving after which the search ends: so many per node.
const BARREN_PER_NODE: usize = 200;

/// What topology holds a pod to while it changes nodes.
#[derive(Clone, Debug, Default)]
struct PinnedDomains {
    /// Keys whose domain it keeps.
    keys: SmallVec<[Key; 2]>,
    marks: Marks,
}

/// New NodeClaims that may be packed again.
#[derive(Debug)]
pub(crate) struct Rearrangement {
    problem: Problem,
    states: Vec<State>,
    hosts: Vec<Host>,
    /// By kind: its pods, as indices into the request, in the order of the new NodeClaims.
    pods: Vec<Vec<PodId>>,
    /// By host as it was: the new NodeClaim.
    claims: Vec<NewClaimId>,
}

/// What may be packed again, and on what.
#[derive(Clone, Copy, Debug)]
struct Scope {
    /// What the nodes that are opened obey beside what their pods ask for.
    within: Req,
    /// Where there is one, all new NodeClaims are taken apart, a single one too, and those of pools with limits, which whoever
    /// asks looks at again: their pods lie on one heap that costs so much, in nano-dollars per hour.
    heap: Option<i64>,
}

/// How the search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the new NodeClaims as they are.
    NewClaims,
    /// With all pods off their nodes, where that is cheaper.
    Afresh,
    /// The same, in several orders: for what a disruption would open.
    Heap,
}

/// Packs the new NodeClaims again for as long as `effort` lasts; returns whether that saved anything.
pub(crate) fn rearrange(
    pass: &mut Pass,
    tables: &mut Tables,
    placement: &Placement,
    classes: &IdVec<PodId, PodClassId>,
    start: Start,
    effort: Effort<'_>,
) -> bool {
    let scope = Scope { within: ANY, heap: None };
    rearrangement(pass, tables, placement, classes, scope)
        .is_some_and(|of| search(pass, tables, classes, of, start, effort))
}

/// Packs all pods of the new NodeClaims again, on nodes that obey `within`; returns whether that costs less than `paid`, the
/// weight of nodes included. Nothing changes where some of them cannot be packed again. Limits are not counted down.
pub(crate) fn rearrange_below(
    pass: &mut Pass,
    tables: &mut Tables,
    placement: &Placement,
    classes: &IdVec<PodId, PodClassId>,
    (within, paid): (Req, i64),
    effort: Effort<'_>,
) -> bool {
    let scope = Scope { within, heap: Some(paid) };
    let found = rearrangement(pass, tables, placement, classes, scope);
    found.is_some_and(|of| search(pass, tables, classes, of, Start::Heap, effort))
}

fn search(
    pass: &mut Pass,
    tables: &Tables,
    classes: &IdVec<PodId, PodClassId>,
    of: Rearrangement,
    start: Start,
    effort: Effort<'_>,
) -> bool {
    let Rearrangement { problem, states, hosts, pods, claims } = of;
    let before: i64 = hosts.iter().map(|host| host.price).sum();
    let mut search = Search::new(&problem, hosts);
    match start {
        Start::NewClaims => {}
        Start::Afresh => search.afresh(),
        Start::Heap => search.afresh_in_turns(),
    }
    let most = BARREN_PER_NODE.saturating_mul(search.hosts().len());
    improve(effort, most, || search.improve());
    let hosts = search.into_hosts();
    if hosts.iter().map(|host| host.price).sum::<i64>() >= before {
        return false;
    }
    pass.once = pass.once.max(pass.claims.len());
    rebuild(pass, tables, classes, Found { problem: &problem, states: &states, hosts, pods, claims });
    true
}

/// The new NodeClaims that may be packed again, as a problem; `None` where there are fewer than two, or where a heap would not
/// have all of them.
fn rearrangement(
    pass: &Pass,
    tables: &mut Tables,
    placement: &Placement,
    classes: &IdVec<PodId, PodClassId>,
    scope: Scope,
) -> Option<Rearrangement> {
    if !tables.reservations.names.is_empty() || classes.len() > MAX_PODS {
        return None;
    }
    let mut census = Census::new(tables, placement, classes, scope);
    let mut members: Vec<(NewClaimId, SmallVec<[usize; 8]>)> = Vec::new();
    for at in pass.claims.ids().take(MAX_NEW_CLAIMS) {
        if let Some(kinds) = kinds_of(pass, tables, &mut census, classes, at) {
            members.push((at, kinds));
        }
    }
    let enough = if scope.heap.is_some() { members.len() == pass.claims.len() } else { members.len() > 1 };
    if !enough {
        return None;
    }
    let mut builder = Builder::new(pass, dims(census.kinds.iter().map(|kind| &kind.requests)));
    for template in census.eligibilities.iter().flat_map(|eligibility| eligibility.templates.iter()) {
        builder.state(tables, *template);
    }
    let eligibilities: Vec<Eligibility> = census.eligibilities.into_iter().collect();
    builder.join(tables, &eligibilities);
    let kinds = census.kinds.into_iter().map(|key| {
        let requests = builder.flat(&key.requests);
        let types = builder.types(&eligibilities[key.eligibility], &requests).into();
        Kind { requests, eligibility: key.eligibility, types, marks: key.marks }
    });
    let kinds: Vec<Kind> = kinds.collect();
    let templates = eligibilities
        .iter()
        .map(|eligibility| eligibility.templates.iter().filter_map(|template| builder.known(*template)));
    let templates = templates.map(Iterator::collect).collect();
    let (patterns, states) = builder.into_parts();
    let problem = Problem::new(kinds, templates, patterns);
    let mut pods: Vec<Vec<PodId>> = vec![Vec::new(); problem.kinds.len()];
    let (mut hosts, mut claims) = (Vec::new(), Vec::new());
    if let Some(price) = scope.heap {
        let all = members.iter().flat_map(|(_, kinds)| kinds.iter().copied());
        hosts.push(problem.heap(all, price));
    }
    for (at, kinds) in members {
        if scope.heap.is_none() {
            let Some(host) = problem.host(&kinds, hosts.len()) else { continue };
            hosts.push(host);
        }
        for (kind, pod) in kinds.into_iter().zip(&pass.claims[at].pods) {
            pods[kind].push(*pod);
        }
        claims.push(at);
    }
    (claims.len() > 1 || scope.heap.is_some()).then_some(Rearrangement {
        problem,
        states,
        hosts,
        pods,
        claims,
    })
}

/// The kind of each pod of a new NodeClaim; `None` where the new NodeClaim is left alone.
fn kinds_of(
    pass: &Pass,
    tables: &mut Tables,
    census: &mut Census,
    classes: &IdVec<PodId, PodClassId>,
    at: NewClaimId,
) -> Option<SmallVec<[usize; 8]>> {
    let claim = &pass.claims[at];
    let limited = census.scope.heap.is_none() && tables.pools[claim.pool].is_limited();
    if limited || !claim.ports.is_empty() || claim.relaxed {
        return None;
    }
    let kind = |pod: &PodId| {
        let level = pass.levels.get(pod).copied().unwrap_or(LevelId::FIRST);
        census.kind(tables, (classes[*pod], level), claim.pool, claim.req)
    };
    claim.pods.iter().map(kind).collect()
}

/// What tells kinds apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct KindKey {
    requests: Amounts,
    eligibility: usize,
    marks: Marks,
}

/// Pods by what they are to the search.
#[derive(Debug)]
struct Census {
    scope: Scope,
    /// Groups that the request is about.
    relevant: Bits<TopologyGroupId>,
    /// By class and level.
    pinned_domains: HashMap<(PodClassId, LevelId), Option<PinnedDomains>>,
    /// By class, level, pool and the domains that are kept.
    known: HashMap<(PodClassId, LevelId, NodePoolId, Req), Option<usize>>,
    kinds: IndexSet<KindKey>,
    eligibilities: IndexSet<Eligibility>,
}

impl Census {
    fn new(tables: &Tables, placement: &Placement, classes: &[PodClassId], scope: Scope) -> Self {
        let mut distinct = classes.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        Self {
            scope,
            relevant: groups_of(tables, placement, &distinct),
            pinned_domains: HashMap::new(),
            known: HashMap::new(),
            kinds: IndexSet::new(),
            eligibilities: IndexSet::new(),
        }
    }

    /// The kind of a pod of a class, placed at a level, on a new NodeClaim of a pool with `req`; `None` where it has to stay.
    fn kind(
        &mut self,
        tables: &mut Tables,
        of: (PodClassId, LevelId),
        pool: NodePoolId,
        req: Req,
    ) -> Option<usize> {
        let relevant = &self.relevant;
        let pinned_domains = self
            .pinned_domains
            .entry(of)
            .or_insert_with(|| pinned_domains(tables, relevant, of.0, of.1))
            .as_ref()?;
        let mut pins: SmallVec<[(Key, Set); 2]> =
            tables.universe.sets(self.scope.within).iter().cloned().collect();
        for key in &pinned_domains.keys {
            let domain = tables.universe.get(req, *key).and_then(Set::single)?;
            pins.push((*key, Set::of([domain])));
        }
        let pins = tables.universe.conjunction(pins);
        if let Some(known) = self.known.get(&(of.0, of.1, pool, pins)) {
            return *known;
        }
        let eligibility = eligibility_within(tables, of, pool, pins, self.scope.heap.is_some());
        let kind = eligibility.map(|eligibility| {
            let eligibility = self.eligibilities.insert_full(eligibility).0;
            let requests = tables.classes[of.0].requests.clone();
            self.kinds.insert_full(KindKey { requests, eligibility, marks: pinned_domains.marks.clone() }).0
        });
        self.known.insert((of.0, of.1, pool, pins), kind);
        kind
    }
}

/// What topology holds a pod to; `None` where it has to stay on its node.
fn pinned_domains(
    tables: &Tables,
    relevant: &Bits<TopologyGroupId>,
    class: PodClassId,
    level: LevelId,
) -> Option<PinnedDomains> {
    let this = &tables.classes[class];
    let plain = this.wants_room_only()
        && this.pod.spec.volumes.is_empty()
        && this.pod.spec.resource_claims.is_empty();
    if !plain {
        return None;
    }
    let mut pinned_domains = PinnedDomains::default();
    let of_kind = &tables.topology.label_sets[this.label_set].groups;
    let selecting = of_kind.iter().copied().filter(|group| relevant.has(*group));
    let owned = this.levels[level].groups.iter().map(|owned| (owned.group, Some(owned.selects_itself)));
    for (at, owned) in owned.chain(selecting.map(|group| (group, None))) {
        let group = &tables.topology.groups[at];
        if group.is.filter.as_ref().is_some_and(|filter| !filter.counts_all()) {
            return None;
        }
        if !group.by_hostname {
            if !pinned_domains.keys.contains(&group.is.key) {
                pinned_domains.keys.push(group.is.key);
            }
            continue;
        }
        let most = match (group.is.kind, owned) {
            (GroupKind::Affinity, _) => return None,
            (_, None) => {
                pinned_domains.marks.counted.push(at);
                continue;
            }
            (GroupKind::Spread { max_skew, .. }, _) => u32::try_from(max_skew).unwrap_or(u32::MAX),
            (GroupKind::Anti, Some(selects_itself)) => u32::from(selects_itself),
        };
        pinned_domains.marks.caps.push((at, most));
    }
    pinned_domains.marks.counted.sort_unstable();
    pinned_domains.marks.caps.sort_unstable();
    Some(pinned_domains)
}

/// What a pod may wait for that keeps its domains: the pools of the weight of its own, without limits but for those of
/// its own where it `keeps` that one.
fn eligibility_within(
    tables: &mut Tables,
    (class, level): (PodClassId, LevelId),
    pool: NodePoolId,
    pins: Req,
    keeps: bool,
) -> Option<Eligibility> {
    let weight = tables.pools[pool].model.weight;
    let mut templates: Vec<(NodePoolId, Req)> = Vec::new();
    for at in tables.pools.ids() {
        if tables.pools[at].model.weight != weight
            || (tables.pools[at].is_limited() && !(keeps && at == pool))
            || templates.len() == MAX_TEMPLATES
        {
            continue;
        }
        let Some(template) = tables.template_for(class, level, at) else { continue };
        templates.extend(tables.universe.meet(template, pins, Side::Claim).map(|req| (at, req)));
    }
    let asked = tables.classes[class].levels[level].req;
    let both: SmallVec<[(Key, Set); 4]> =
        tables.universe.sets(asked).iter().chain(tables.universe.sets(pins).iter()).cloned().collect();
    let req = tables.universe.conjunction(both);
    templates.iter().any(|(template, _)| *template == pool).then_some(Eligibility { req, templates })
}
