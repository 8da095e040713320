//! Packing by patterns: pods that topology says nothing about wait until the others have their places, and are then
//! packed together at the least price.
//!
//! - [`Deferral`]: which pods may wait, and for what.
//! - `build`: the waiting pods as a [`problem`].
//! - `table`, `fill`, `search`, `exact`: the problem's solution, free of Kubernetes.
//! - `commit`: the solution as claims of the pass.
//!
//! A pod may wait where no topology group that matters to the request selects it, and where it asks for no port, volume
//! or reservation: its place then makes no difference to any other pod but for the room that it takes. It waits for the
//! pools of the highest weight that can take it, and for no other.

mod build;
mod commit;
mod exact;
mod fill;
mod problem;
mod search;
mod table;

use hashbrown::HashMap;
use indexmap::IndexMap;

use self::{build::Built, commit::Packing, search::Search};
pub(super) use self::{
    build::{Builder, State, dims},
    problem::{Content, Problem as Patterns},
    search::Dice,
    table::{Room, Table},
};
use super::{
    Solver,
    amounts::{Amounts, fits},
    bits::Bits,
    intern::{ANY, Req},
    pass::Pass,
    topology::GroupKind,
};
use crate::scheduling::ids::{IdVec, LevelId, NodePoolId, PodClassId, PodId, TopologyGroupId};
use crate::scheduling::solver::{allowed_domains, tables::Tables};
use crate::scheduling::{Effort, Request};

/// Pools of one weight beyond these are not looked at for one pod.
const MAX_TEMPLATES: usize = 16;
/// Rounds without a saving after which the search ends: so many per node, and at most.
const BARREN_PER_NODE: usize = 500;
const MAX_BARREN: usize = 20_000;

/// What a pod asks of labels, and the pools that it may go to, with the requirements of a new claim there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Eligibility {
    pub(super) req: Req,
    pub(super) templates: Vec<(NodePoolId, Req)>,
}

/// Pods that wait for patterns.
#[derive(Debug, Default)]
pub(super) struct Deferral {
    /// Groups that the request is about.
    groups: Bits<TopologyGroupId>,
    /// By class and level: what such a pod waits for; `None` where it may not.
    eligibilities: HashMap<(PodClassId, LevelId), Option<Eligibility>>,
    /// By what they ask for: the pods, as indices into the request, in the order of the queue.
    waiting: IndexMap<(Eligibility, Amounts), Vec<PodId>>,
}

impl Deferral {
    /// No pod waits yet. `classes` are those of the request.
    pub(super) fn new(solver: &Solver, classes: &[PodClassId]) -> Self {
        let mut groups = Bits::default();
        for class in classes {
            let class = &solver.tables.classes[*class];
            let owned = class.levels.iter().flat_map(|level| level.groups.iter().map(|owned| owned.group));
            owned.chain(class.keeps_away.iter().copied()).for_each(|group| groups.insert(group));
        }
        let claimed =
            solver.tables.topology.groups.ids().filter(|group| {
                allowed_domains::counted(&solver.tables, &solver.placement, *group).has_owners()
            });
        claimed.for_each(|group| groups.insert(group));
        Self { groups, ..Self::default() }
    }

    /// Groups that the request is about.
    pub(super) fn into_groups(self) -> Bits<TopologyGroupId> {
        self.groups
    }
}

/// How much of a request patterns can pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduling) enum Share {
    /// Every pod that needs a new NodeClaim.
    All,
    /// Most of them.
    Most,
    /// Some of them.
    Some,
    /// None.
    None,
}

impl Solver {
    /// How much of a request patterns can pack, as far as can be told before they try.
    pub(in crate::scheduling) fn share(&mut self, request: &Request<'_>) -> Share {
        self.rewind_base();
        let classes = self.counted_classes(request.pods);
        let distinct: Vec<PodClassId> = classes.iter().map(|(class, _)| *class).collect();
        let deferral = Deferral::new(self, &distinct);
        let (mut plain, mut other) = (0, 0);
        for (class, count) in classes {
            if self.tables.classes[class].refused.is_some() {
                continue;
            }
            *(if self.tables.is_plain(&deferral, class, LevelId::FIRST) {
                &mut plain
            } else {
                &mut other
            }) += count;
        }
        match (plain, other) {
            (0, _) => Share::None,
            (_, 0) => Share::All,
            _ if plain > other => Share::Most,
            _ => Share::Some,
        }
    }

    /// Whether some pods keep away from others by another key than the hostname.
    pub(in crate::scheduling) fn keeps_domains(&mut self, request: &Request<'_>) -> bool {
        let classes = self.counted_classes(request.pods);
        let away = |group: &TopologyGroupId| {
            let group = &self.tables.topology.groups[*group];
            group.is.kind == GroupKind::Anti && !group.by_hostname
        };
        classes.iter().any(|(class, _)| {
            let this = &self.tables.classes[*class];
            this.levels.iter().flat_map(|level| &level.groups).any(|owned| away(&owned.group))
        })
    }
}

impl Tables {
    /// Whether the place of such a pod makes no difference to others but for the room that it takes.
    fn is_plain(&self, deferral: &Deferral, class: PodClassId, level: LevelId) -> bool {
        let this = &self.classes[class];
        let selected =
            self.topology.label_sets[this.label_set].groups.iter().any(|group| deferral.groups.has(*group));
        !selected
            && this.levels[level].groups.is_empty()
            && this.keeps_away.is_empty()
            && this.alternatives[..] == [ANY]
            && this.pod.spec.volumes.is_empty()
            && this.pod.spec.host_ports.is_empty()
            && !this.claims_devices()
            && self.reservations.names.is_empty()
    }
}

impl Pass {
    /// Lets pods of one class wait, where they may.
    pub(super) fn defer(
        &mut self,
        solver: &mut Solver,
        pods: &[PodId],
        class: PodClassId,
        level: LevelId,
    ) -> bool {
        let Some(mut deferral) = self.deferral.take() else { return false };
        let known = deferral.eligibilities.get(&(class, level)).cloned();
        let eligibility = known.unwrap_or_else(|| {
            let eligibility = self.eligibility(solver, &deferral, class, level);
            deferral.eligibilities.insert((class, level), eligibility.clone());
            eligibility
        });
        let waits = eligibility.is_some();
        if let Some(eligibility) = eligibility {
            let key = (eligibility, solver.tables.classes[class].requests.clone());
            deferral.waiting.entry(key).or_default().extend(pods);
        }
        self.deferral = Some(deferral);
        waits
    }

    /// What a pod would wait for.
    fn eligibility(
        &self,
        solver: &mut Solver,
        deferral: &Deferral,
        class: PodClassId,
        level: LevelId,
    ) -> Option<Eligibility> {
        if !solver.tables.is_plain(deferral, class, level) {
            return None;
        }
        let this = &solver.tables.classes[class];
        let (req, requests) = (this.levels[level].req, this.requests.clone());
        let mut templates: Vec<(NodePoolId, Req)> = Vec::new();
        for pool in solver.tables.pools.ids() {
            let weight = solver.tables.pools[pool].model.weight;
            if templates.len() == MAX_TEMPLATES
                || templates
                    .first()
                    .is_some_and(|(template, _)| solver.tables.pools[*template].model.weight != weight)
            {
                break;
            }
            if self.left[pool].1.is_some_and(|nodes| nodes <= 0) {
                continue;
            }
            let Some(template) = solver.tables.template_for(class, level, pool) else { continue };
            let mut rows = self.within_limits(&solver.tables, pool);
            rows.intersect(&solver.tables.pools[pool].mask(&solver.tables.universe, template));
            let none = Amounts::new();
            if rows.iter().any(|row| fits(&none, &requests, &solver.tables.row(pool, row).free)) {
                templates.push((pool, template));
            }
        }
        (!templates.is_empty()).then_some(Eligibility { req, templates })
    }

    /// Packs the pods that wait, improving as long as `effort` lasts. Returns those that found no place, which wait no longer.
    pub(super) fn pack(
        &mut self,
        solver: &mut Solver,
        classes: &IdVec<PodId, PodClassId>,
        effort: Effort<'_>,
    ) -> Bits<PodId> {
        let Some(deferral) = self.deferral.take() else { return Bits::default() };
        if deferral.waiting.is_empty() {
            return Bits::default();
        }
        let Built { problem, states, pods, mut leftover, claims } = self.build(solver, deferral.waiting);
        let mut search = Search::new(&problem);
        let (mut bins, _) = search.first();
        let most = if search.is_exact() { 0 } else { MAX_BARREN.min(BARREN_PER_NODE * bins.len()) };
        let (mut round, mut barren) = (0, 0);
        loop {
            let go_on = barren < most
                && match effort {
                    Effort::First => false,
                    Effort::Iterations(rounds) => round < rounds,
                    // Asking costs more than it is worth before every round.
                    Effort::While(go_on) => !u32::is_multiple_of(round, 8) || go_on(),
                };
            if !go_on {
                break;
            }
            barren = if search.improve(&mut bins) { 0 } else { barren + 1 };
            round += 1;
        }
        let opened = self.claims.next_id();
        leftover.extend(self.commit(
            solver,
            classes,
            Packing { problem: &problem, states, pods, claims, bins },
        ));
        self.packed = opened..self.claims.next_id();
        leftover.into_iter().collect()
    }
}
