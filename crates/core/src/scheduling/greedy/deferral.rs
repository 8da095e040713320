//! Pods that topology says nothing about may wait until the others have their places, to be packed at the least price.
//!
//! A pod may wait where no topology group that matters to the request selects it, and where it asks for no port, volume
//! or reservation: its place then makes no difference to any other pod but for the room that it takes. It waits for the
//! pools of the highest weight that can take it, and for no other.

use hashbrown::HashMap;
use indexmap::IndexMap;

use crate::scheduling::{
    ids::{LevelId, NodePoolId, PodClassId, PodId, TopologyGroupId},
    placement::{Placement, limits::Limits},
    tables::{
        Tables,
        amounts::{Amounts, fits},
        bits::Bits,
        intern::{ANY, Req},
        topology::GroupKind,
    },
};

/// Pools of one weight beyond these are not looked at for one pod.
const MAX_TEMPLATES: usize = 16;

/// What a pod asks of labels, and the pools that it may go to, with the requirements of a new claim there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Eligibility {
    pub(crate) req: Req,
    pub(crate) templates: Vec<(NodePoolId, Req)>,
}

/// Pods by what they ask for, as indices into the request, in the order of the queue.
pub(crate) type Waiting = IndexMap<(Eligibility, Amounts), Vec<PodId>>;

/// Pods that wait to be packed.
#[derive(Debug, Default)]
pub(crate) struct Deferral {
    /// Groups that the request is about.
    groups: Bits<TopologyGroupId>,
    /// By class and level: what such a pod waits for; `None` where it may not.
    eligibilities: HashMap<(PodClassId, LevelId), Option<Eligibility>>,
    waiting: Waiting,
}

/// How much of a request can be packed by price alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Every pod that needs a new NodeClaim.
    All,
    /// Most of them.
    Most,
    /// Some of them.
    Some,
    /// None.
    None,
}

impl Deferral {
    /// No pod waits yet. `classes` are those of the request.
    pub(crate) fn new(tables: &Tables, placement: &Placement, classes: &[PodClassId]) -> Self {
        Self { groups: groups_of(tables, placement, classes), ..Self::default() }
    }

    /// Lets pods of one class wait, where they may.
    pub(crate) fn defer(
        &mut self,
        tables: &mut Tables,
        limits: &Limits,
        pods: &[PodId],
        class: PodClassId,
        level: LevelId,
    ) -> bool {
        let known = self.eligibilities.get(&(class, level)).cloned();
        let eligibility = known.unwrap_or_else(|| {
            let plain = is_plain(tables, &self.groups, class, level);
            let eligibility = if plain { eligibility(tables, limits, class, level) } else { None };
            self.eligibilities.insert((class, level), eligibility.clone());
            eligibility
        });
        let waits = eligibility.is_some();
        if let Some(eligibility) = eligibility {
            let key = (eligibility, tables.classes[class].requests.clone());
            self.waiting.entry(key).or_default().extend(pods);
        }
        waits
    }

    /// The pods that wait.
    pub(crate) fn into_waiting(self) -> Waiting {
        self.waiting
    }
}

/// Topology groups that a request is about.
pub(crate) fn groups_of(
    tables: &Tables,
    placement: &Placement,
    classes: &[PodClassId],
) -> Bits<TopologyGroupId> {
    let mut groups = Bits::default();
    for class in classes {
        let class = &tables.classes[*class];
        let owned = class.levels.iter().flat_map(|level| level.groups.iter().map(|owned| owned.group));
        owned.chain(class.keeps_away.iter().copied()).for_each(|group| groups.insert(group));
    }
    let claimed = tables.topology.groups.ids();
    let claimed = claimed.filter(|group| placement.counted(&tables.topology, *group).has_owners());
    claimed.for_each(|group| groups.insert(group));
    groups
}

/// How much of a request can be packed by price alone, as far as can be told before that is tried. `classes` are those
/// of its pods, with how many are of each.
pub(crate) fn share(tables: &Tables, placement: &Placement, classes: &[(PodClassId, usize)]) -> Share {
    let distinct: Vec<PodClassId> = classes.iter().map(|(class, _)| *class).collect();
    let groups = groups_of(tables, placement, &distinct);
    let (mut plain, mut other) = (0, 0);
    for (class, count) in classes.iter().filter(|(class, _)| tables.classes[*class].refused.is_none()) {
        *(if is_plain(tables, &groups, *class, LevelId::FIRST) { &mut plain } else { &mut other }) += count;
    }
    match (plain, other) {
        (0, _) => Share::None,
        (_, 0) => Share::All,
        _ if plain > other => Share::Most,
        _ => Share::Some,
    }
}

/// Whether some pods keep away from others by another key than the hostname.
pub(crate) fn keeps_domains(tables: &Tables, classes: &[(PodClassId, usize)]) -> bool {
    let away = |group: TopologyGroupId| {
        let group = &tables.topology.groups[group];
        group.is.kind == GroupKind::Anti && !group.by_hostname
    };
    classes.iter().any(|(class, _)| {
        let levels = tables.classes[*class].levels.iter();
        levels.flat_map(|level| &level.groups).any(|owned| away(owned.group))
    })
}

/// Whether the place of such a pod makes no difference to others but for the room that it takes.
fn is_plain(tables: &Tables, groups: &Bits<TopologyGroupId>, class: PodClassId, level: LevelId) -> bool {
    let this = &tables.classes[class];
    let selected = tables.topology.label_sets[this.label_set].groups.iter().any(|group| groups.has(*group));
    !selected
        && this.levels[level].groups.is_empty()
        && this.keeps_away.is_empty()
        && this.alternatives[..] == [ANY]
        && this.pod.spec.volumes.is_empty()
        && this.pod.spec.host_ports.is_empty()
        && !this.claims_devices()
        && tables.reservations.names.is_empty()
}

/// What a pod would wait for.
fn eligibility(
    tables: &mut Tables,
    limits: &Limits,
    class: PodClassId,
    level: LevelId,
) -> Option<Eligibility> {
    let this = &tables.classes[class];
    let (req, requests) = (this.levels[level].req, this.requests.clone());
    let mut templates: Vec<(NodePoolId, Req)> = Vec::new();
    for pool in tables.pools.ids() {
        let weight = tables.pools[pool].model.weight;
        let lighter = |(best, _): &(NodePoolId, Req)| tables.pools[*best].model.weight != weight;
        if templates.len() == MAX_TEMPLATES || templates.first().is_some_and(lighter) {
            break;
        }
        if limits.allows_no_node(pool) {
            continue;
        }
        let Some(template) = tables.template_for(class, level, pool) else { continue };
        let mut rows = limits.rows_within(tables, pool);
        rows.intersect(&tables.pools[pool].mask(&tables.universe, template));
        let none = Amounts::new();
        if rows.iter().any(|row| fits(&none, &requests, &tables.row(pool, row).free)) {
            templates.push((pool, template));
        }
    }
    (!templates.is_empty()).then_some(Eligibility { req, templates })
}
