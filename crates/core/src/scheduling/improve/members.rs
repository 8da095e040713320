//! The new NodeClaims that may be packed again, and their pods as items.
//!
//! Pods keep the domains that topology gave them (zones, capacity types, …): every count of a group by such a key stays what it is,
//! so that topology need not be asked again. What groups by hostname demand is counted node by node.
//!
//! Not packed again are new NodeClaims that hold reservations or host ports, and those with a pod on which the placement of others
//! depends: affinity by hostname, spreads that may not count the nodes that it could move to.

use std::cmp::Reverse;

use hashbrown::HashMap;
use indexmap::IndexSet;
use smallvec::SmallVec;

use crate::scheduling::{
    greedy::pass::Pass,
    ids::{
        EligibilityId, Id, IdVec, ItemId, LevelId, NewClaimId, NodePoolId, PodClassId, PodId, TopologyGroupId,
    },
    improve::{
        build::{self, Eligibility, ItemKey},
        problem::{HostnameRules, Problem},
    },
    placement::{Placement, claim::Claim, domains::Domains, limits::Limits},
    tables::{
        Tables,
        amounts::get,
        bits::Bits,
        intern::{ANY, Key, Req, Set, Side},
        topology::GroupKind,
    },
};

/// More new NodeClaims than this are not packed again.
const MAX_NEW_CLAIMS: usize = 20_000;
/// Nor are more pods than this where they are inserted one by one: the first plan would wait for it.
const MAX_INSERTED: usize = 60_000;
/// NodePools of one weight beyond these are not looked at for one pod.
const MAX_TEMPLATES: usize = 16;

/// What may be packed again, and on what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// What the nodes that are created obey beside what their pods ask for.
    pub(super) within: Req,
    /// Where there is one, all new NodeClaims are taken apart, a single one too, and have to cost less than this together, in
    /// nano-dollars per hour, the overhead of nodes included.
    pub(super) paid: Option<i64>,
    /// Whether NodePools with limits take part.
    pub(super) limited: bool,
    /// Whether pods may go to NodePools of a higher weight, which limits kept them from.
    pub(super) raised: bool,
}

impl Scope {
    /// The new NodeClaims of a batch.
    pub(crate) const BATCH: Self = Self { within: ANY, paid: None, limited: true, raised: true };

    /// The replacements of nodes that cost `paid`, in nano-dollars per hour, with the overhead of nodes.
    pub(crate) fn replacements(within: Req, paid: i64) -> Self {
        Self { within, paid: Some(paid), limited: true, raised: false }
    }
}

/// New NodeClaims that may be packed again.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) problem: Problem,
    /// The NodeClaims, and the item of each of their pods.
    pub(super) claims: Vec<(NewClaimId, SmallVec<[ItemId; 8]>)>,
    /// By item: its pods.
    pub(super) pods: IdVec<ItemId, Vec<PodId>>,
    /// What is left of the limits of NodePools without the NodeClaims; `None` for replacements, whose limits disruption checks and
    /// names.
    pub(super) limits: Option<Limits>,
    /// Whether these are all new NodeClaims of the pass.
    pub(super) whole: bool,
}

/// What topology holds a pod to while it changes nodes.
#[derive(Clone, Debug, Default)]
struct PinnedDomains {
    /// Keys whose domain it keeps.
    keys: SmallVec<[Key; 2]>,
    hostname: HostnameRules,
}

/// A class at a level of relaxation, the NodePool that its pods are on, and the requirements that they keep.
type Pinned = (PodClassId, LevelId, NodePoolId, Req);

/// Pods by class, level, NodePool and what they keep.
#[derive(Debug)]
struct Survey {
    /// Groups that the request is about.
    relevant: Bits<TopologyGroupId>,
    domains: HashMap<(PodClassId, LevelId), Option<PinnedDomains>>,
    /// By class, level, NodePool and requirements of the NodeClaim: the position in `pinned`.
    known: HashMap<Pinned, Option<usize>>,
    pinned: IndexSet<Pinned>,
}

/// Finds what may be packed again; `None` where nothing of it could become cheaper. What is to be packed thoroughly has subproblems
/// in any case.
pub(super) fn members(
    pass: &Pass,
    tables: &Tables,
    placement: &Placement,
    classes: &IdVec<PodId, PodClassId>,
    (scope, thorough): (Scope, bool),
) -> Option<Members> {
    let mut distinct = classes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let relevant = Domains::new(tables, placement).groups_of(&distinct);
    let mut survey =
        Survey { relevant, domains: HashMap::new(), known: HashMap::new(), pinned: IndexSet::new() };
    let mut limits = pass.limits.clone();
    let mut claims: Vec<(NewClaimId, SmallVec<[usize; 8]>)> = Vec::new();
    for (claim_id, claim) in pass.claims.entries().take(MAX_NEW_CLAIMS) {
        let limited = !scope.limited && tables.pools[claim.pool].is_limited();
        if limited || claim.relaxed || !claim.reserved.is_empty() {
            continue;
        }
        let pinned = |pod: &PodId| {
            let level = pass.levels.get(pod).copied().unwrap_or(LevelId::FIRST);
            let of = (classes[*pod], level, claim.pool, claim.req);
            if let Some(known) = survey.known.get(&of) {
                return *known;
            }
            let pinned = survey.pin(tables, (classes[*pod], level), claim, scope.within);
            survey.known.insert(of, pinned);
            pinned
        };
        if let Some(pods) = claim.pods.iter().map(pinned).collect() {
            limits.add(claim.pool, &claim.charged, 1);
            claims.push((claim_id, pods));
        }
    }
    let pods: usize = claims.iter().map(|(_, pods)| pods.len()).sum();
    let whole = claims.len() == pass.claims.len();
    let enough = if scope.paid.is_some() { whole } else { pods > 1 };
    if !enough {
        return None;
    }
    let (keys, item_of, eligibilities) = survey.items(tables, &limits, scope.raised)?;
    let claims = claims
        .into_iter()
        .map(|(claim_id, pods)| (claim_id, pods.into_iter().map(|pod| item_of[pod]).collect()));
    let claims: Vec<(NewClaimId, SmallVec<[ItemId; 8]>)> = claims.collect();
    let mut of_item: IdVec<ItemId, Vec<PodId>> = vec![Vec::new(); keys.len()].into();
    for (claim_id, items) in &claims {
        items.iter().zip(&pass.claims[*claim_id].pods).for_each(|(item, pod)| of_item[*item].push(*pod));
    }
    let counts = of_item.iter().map(|pods| u32::try_from(pods.len()).unwrap_or(u32::MAX)).collect();
    let problem = build::problem(tables, &limits, &eligibilities, (keys, &counts), thorough);
    (problem.is_plain() || pods <= MAX_INSERTED).then_some(Members {
        problem,
        claims,
        pods: of_item,
        limits: scope.paid.is_none().then_some(limits),
        whole,
    })
}

impl Survey {
    /// What a pod of a class at a level keeps when it leaves a NodeClaim; `None` where it has to stay.
    fn pin(
        &mut self,
        tables: &Tables,
        class_level: (PodClassId, LevelId),
        claim: &Claim,
        within: Req,
    ) -> Option<usize> {
        let relevant = &self.relevant;
        let domains = self
            .domains
            .entry(class_level)
            .or_insert_with(|| pinned_domains(tables, relevant, class_level))
            .as_ref()?;
        let mut volumes = None;
        for alternative in tables.classes[class_level.0].alternatives.clone() {
            if tables.universe.meet(claim.req, alternative, Side::Claim) == Some(claim.req) {
                volumes = Some(alternative);
                break;
            }
        }
        let sets = [within, volumes?].into_iter().flat_map(|req| tables.universe.sets(req).iter().cloned());
        let mut pins: SmallVec<[(Key, Set); 4]> = sets.collect();
        for key in &domains.keys {
            let domain = tables.universe.get(claim.req, *key).and_then(Set::single)?;
            pins.push((*key, Set::of([domain])));
        }
        let pins = tables.universe.conjunction(pins);
        Some(self.pinned.insert_full((class_level.0, class_level.1, claim.pool, pins)).0)
    }

    /// The items, the largest first, the item of each entry of `pinned`, and the eligibilities.
    fn items(
        self,
        tables: &Tables,
        limits: &Limits,
        raised: bool,
    ) -> Option<(IndexSet<ItemKey>, Vec<ItemId>, Vec<Eligibility>)> {
        let mut order: Vec<usize> = (0..self.pinned.len()).collect();
        order.sort_by_key(|index| {
            let requests = &tables.classes[self.pinned[*index].0].requests;
            (Reverse(get(requests, 0)), Reverse(get(requests, 1)))
        });
        let (mut keys, mut eligibilities) = (IndexSet::new(), IndexSet::new());
        let mut item_of = vec![ItemId::FIRST; order.len()];
        for index in order {
            let pinned @ (class, level, ..) = self.pinned[index];
            let eligibility = eligibilities.insert_full(eligibility(tables, (limits, raised), pinned)?).0;
            let requests = tables.classes[class].requests.clone();
            let hostname = self.domains.get(&(class, level))?.as_ref()?.hostname.clone();
            let key = ItemKey { requests, eligibility: EligibilityId::new(eligibility), hostname };
            item_of[index] = ItemId::new(keys.insert_full(key).0);
        }
        Some((keys, item_of, eligibilities.into_iter().collect()))
    }
}

/// What topology holds a pod to; `None` where it has to stay on its node.
fn pinned_domains(
    tables: &Tables,
    relevant: &Bits<TopologyGroupId>,
    (class, level): (PodClassId, LevelId),
) -> Option<PinnedDomains> {
    let this = &tables.classes[class];
    if this.claims_devices() || !this.pod.spec.host_ports.is_empty() {
        return None;
    }
    let mut pinned = PinnedDomains::default();
    let selecting = &tables.topology.label_sets[this.label_set].groups;
    let selecting = selecting.iter().copied().filter(|group| relevant.has(*group));
    let owned = this.levels[level].groups.iter().map(|owned| (owned.group, Some(owned.selects_itself)));
    for (group_id, owned) in owned.chain(selecting.map(|group| (group, None))) {
        let group = &tables.topology.groups[group_id];
        if group.spec.filter.as_ref().is_some_and(|filter| !tables.always_counts(filter, (class, level))) {
            return None;
        }
        if !group.by_hostname {
            if !pinned.keys.contains(&group.spec.key) {
                pinned.keys.push(group.spec.key);
            }
            continue;
        }
        let most = match (group.spec.kind, owned) {
            (GroupKind::Affinity, _) => return None,
            (_, None) => {
                pinned.hostname.counted.push(group_id);
                continue;
            }
            (GroupKind::Spread { max_skew, .. }, _) => u32::try_from(max_skew).unwrap_or(u32::MAX),
            (GroupKind::Anti, Some(selects_itself)) => u32::from(selects_itself),
        };
        pinned.hostname.caps.push((group_id, most));
    }
    pinned.hostname.counted.sort_unstable();
    pinned.hostname.caps.sort_unstable();
    Some(pinned)
}

/// Where a pod may go that keeps some requirements: the NodePools of the weight of its own or, if `raised`, a higher one.
fn eligibility(
    tables: &Tables,
    (limits, raised): (&Limits, bool),
    (class, level, own, pins): Pinned,
) -> Option<Eligibility> {
    let own_weight = tables.pools[own].model.weight;
    let mut templates: Vec<(NodePoolId, Req)> = Vec::new();
    for pool in tables.pools.ids() {
        let weight = tables.pools[pool].model.weight;
        let other = if raised { weight < own_weight } else { weight != own_weight };
        if other || limits.allows_no_node(pool) || templates.len() == MAX_TEMPLATES {
            continue;
        }
        let Some(template) = tables.template_for(class, level, pool) else { continue };
        templates.extend(tables.universe.meet(template, pins, Side::Claim).map(|req| (pool, req)));
    }
    let required = tables.classes[class].levels[level].req;
    let both: SmallVec<[(Key, Set); 4]> =
        [required, pins].into_iter().flat_map(|req| tables.universe.sets(req).iter().cloned()).collect();
    let req = tables.universe.conjunction(both);
    templates.iter().any(|(template, _)| *template == own).then_some(Eligibility { req, templates })
}
