//! Simulations of removals on a base placement: pending pods and pods on deleting nodes are placed once, in Karpenter's
//! order, and every simulation starts from there, at the cost of what it moves.
//!
//! A simulation excludes nodes. The pods that it moves are placed, in the same order, together with those that the base
//! placement has on the excluded nodes and with those that the base placement leaves unschedulable. An unschedulable pod
//! is thus placed before a scheduled one, on the cluster as it is at that moment: the order in which it will happen.
//! Karpenter's queue orders by size only, so pods may go to other nodes there when the cluster is tight.
//!
//! The last simulation can be kept in the base placement ([`Solver::settle`]): the next simulation of the pass starts
//! from it.

use std::sync::Arc;

use super::{
    Solver, follow, leaving,
    pass::{Outcome, Pass, Strategy},
    placement::Mark,
    placement::Placement,
    pod_classes,
    tables::Tables,
};
use crate::scheduling::ids::{Id, IdVec, NodeId, PodClassId, PodId, TopologyGroupId};
use crate::{
    model::Pod,
    scheduling::{Effort, Plan, Purpose, Request},
};

/// What all simulations of a pass have in common.
#[derive(Debug)]
pub(super) struct BasePlacement {
    pass: Pass,
    /// Pending pods, pods on deleting nodes, pods of kept simulations; then the pods of the last simulation.
    pods: Vec<Arc<Pod>>,
    /// Their classes.
    classes: IdVec<PodId, PodClassId>,
    /// How many are of the base placement.
    len: usize,
    /// How many are pending: a simulation may leave them unschedulable.
    waiting: usize,
    /// Unschedulable pods of the base placement.
    unplaced: Vec<(PodId, Outcome)>,
    /// Rewound to after each simulation.
    mark: Mark,
    /// The last simulation, not yet rewound.
    last: Option<Removal>,
    /// Kept simulations, in their order.
    settled: Vec<KeptRemoval>,
}

/// A simulation that is part of the base placement.
#[derive(Clone, Debug)]
struct KeptRemoval {
    moved: Vec<Arc<Pod>>,
    /// Indices into [`crate::model::Snapshot::nodes`].
    without: Vec<usize>,
}

/// A simulation that schedules every pod.
pub(super) struct Whole<'a> {
    pub(super) pass: &'a mut Pass,
    /// The pods of the base placement, then its own.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) classes: &'a IdVec<PodId, PodClassId>,
}

/// A simulation that is not rewound yet.
#[derive(Debug)]
struct Removal {
    pass: Pass,
    /// Excluded nodes.
    away: Vec<NodeId>,
    /// Distinct classes of what it placed.
    classes: Vec<PodClassId>,
    unplaced: Vec<(PodId, Outcome)>,
}

impl Solver {
    /// What would happen if some nodes, as indices into [`crate::model::Snapshot::nodes`], went away and the pods in
    /// `moved`, which run there, had to find another place. Pods that wait and pods of nodes that are leaving have
    /// theirs first. The plan has all new NodeClaims that this takes; of placements it may have only those that are
    /// others without `without`, and of pods that wait it does not tell why they have no place.
    pub fn what_if(&mut self, moved: &[Arc<Pod>], without: &[usize]) -> Plan {
        self.rewind_last();
        if self.base.is_none() {
            let pods_to_place = self.tables.pods_to_place();
            if pods_to_place.is_empty() || self.tables.claims_devices(&pods_to_place) {
                return self.alone(pods_to_place, moved, without);
            }
            self.place_base(pods_to_place);
        }
        let leaving =
            |node: &usize| self.tables.slots.get(*node).is_some_and(|at| self.tables.deleting.has(*at));
        if self.tables.claims_devices(moved) || without.iter().any(leaving) {
            let pods_to_place = self.tables.pods_to_place();
            return self.alone(pods_to_place, moved, without);
        }
        let groups = self.tables.topology.groups.next_id();
        let classes = compiled(&mut self.tables, &mut self.placement, moved);
        if self.tables.topology.groups.next_id() > groups {
            self.place_base_again(groups);
        }
        let Some(mut base) = self.base.take() else { return Plan::default() };
        let plan = base.ask(self, moved, &classes, without);
        self.base = Some(base);
        plan
    }

    /// Makes a simulation ([`Self::what_if`]) part of the base placement, so that the next one goes on from it. Only where all its pods
    /// have a place on nodes that exist; else nothing happens, and the answer is `false`.
    pub(crate) fn settle(&mut self, moved: &[Arc<Pod>], without: &[usize]) -> bool {
        let slots = without.iter().filter_map(|node| self.tables.slots.get(*node).copied());
        let mut away: Vec<NodeId> = slots.collect();
        away.sort_unstable();
        let is_last = |base: &BasePlacement| base.last.as_ref().is_some_and(|removal| removal.away == away);
        if !self.base.as_ref().is_some_and(|base| is_last(base)) {
            self.rewind_last();
            if self.base.is_none() {
                let pods_to_place = self.tables.pods_to_place();
                if self.tables.claims_devices(&pods_to_place) {
                    return false;
                }
                self.place_base(pods_to_place);
            }
            drop(self.what_if(moved, without));
        }
        let settles = self.base.as_ref().is_some_and(|base| {
            let removal = base.last.as_ref();
            removal.is_some_and(|removal| removal.away == away && removal.settles(base.waiting))
        });
        if settles {
            self.keep_last(KeptRemoval { moved: moved.to_vec(), without: without.to_vec() });
        }
        settles
    }

    /// Makes the last simulation, which is `settled`, part of the base placement as it is.
    fn keep_last(&mut self, settled: KeptRemoval) {
        let mark = self.placement.mark();
        let Some(base) = &mut self.base else { return };
        if let Some(removal) = base.last.take() {
            base.absorb(removal, mark);
            base.settled.push(settled);
        }
    }

    /// Takes everything back that simulations have in common, so that the solver is as the snapshot says.
    pub(crate) fn rewind_base(&mut self) {
        self.rewind_last();
        let Some(base) = self.base.take() else { return };
        let mut classes = base.classes.to_vec();
        classes.sort_unstable();
        classes.dedup();
        base.pass.restore(self, &classes);
    }

    /// One request for all.
    fn alone(&mut self, pods_to_place: PodsToPlace, moved: &[Arc<Pod>], without: &[usize]) -> Plan {
        let mut pods = pods_to_place.pods;
        pods.extend(moved.iter().cloned());
        self.solve(&simulation(&pods, without))
    }

    /// Groups from `known` on came while the base placement was there, and have counted what it left. Counts them as they should be,
    /// looks at all pods that run, so that no simulation brings another one, and places the base again.
    fn place_base_again(&mut self, known: TopologyGroupId) {
        let settled = self.base.as_mut().map(|base| std::mem::take(&mut base.settled)).unwrap_or_default();
        self.rewind_base();
        for group in self.tables.topology.groups.ids().filter(|group| *group >= known) {
            follow::count_again(&mut self.tables, &mut self.placement, group);
        }
        let snapshot = Arc::clone(&self.tables.snapshot);
        for pod in snapshot.nodes.iter().flat_map(|node| &node.pods).filter(|pod| pod.is_reschedulable()) {
            let class = pod_classes::class_of(&mut self.tables, &mut self.placement, pod);
            all_levels(&mut self.tables, &mut self.placement, &[class]);
        }
        self.place_base(self.tables.pods_to_place());
        // One after the other, as it happened: laid together, pods would find other places than those that they were
        // promised, or none. Whom none is left for stays without one, so that nothing else goes.
        for settled in settled {
            drop(self.what_if(&settled.moved, &settled.without));
            self.keep_last(settled);
        }
    }

    /// Places what needs a place whatever is decided.
    fn place_base(&mut self, pods_to_place: PodsToPlace) {
        let PodsToPlace { pods, waiting } = pods_to_place;
        let (mut pass, asked, _) = Pass::begin(self, &simulation(&pods, &[]), Strategy::KARPENTER);
        let unplaced = pass.place_all(self, &pods, &asked.classes, asked.queue);
        let mark = self.placement.mark();
        let len = pods.len();
        let base = BasePlacement {
            pass,
            pods,
            classes: asked.classes,
            len,
            waiting,
            unplaced,
            mark,
            last: None,
            settled: Vec::new(),
        };
        self.base = Some(Box::new(base));
    }

    /// Rewinds the last simulation.
    fn rewind_last(&mut self) {
        let Some(mut base) = self.base.take() else { return };
        if let Some(removal) = base.last.take() {
            base.forget(self, removal);
        }
        self.base = Some(base);
    }
}

impl Tables {
    /// Pods that need a place whatever is decided.
    pub(super) fn pods_to_place(&self) -> PodsToPlace {
        let mut pods = self.snapshot.pending.clone();
        let waiting = pods.len();
        pods.extend(self.leaving());
        PodsToPlace { pods, waiting }
    }

    fn claims_devices(&self, pods: &[Arc<Pod>]) -> bool {
        !self.rules.ignore_dra && pods.iter().any(|pod| !pod.spec.resource_claims.is_empty())
    }
}

/// The classes of some pods, all levels of which are known.
fn compiled(tables: &mut Tables, placement: &mut Placement, pods: &[Arc<Pod>]) -> Vec<PodClassId> {
    let classes: Vec<PodClassId> =
        pods.iter().map(|pod| pod_classes::class_of(tables, placement, pod)).collect();
    all_levels(tables, placement, &classes);
    classes
}

/// Compiles all levels of some classes; returns the distinct ones, ascending.
pub(super) fn all_levels(
    tables: &mut Tables,
    placement: &mut Placement,
    classes: &[PodClassId],
) -> Vec<PodClassId> {
    let mut distinct = classes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    for class in distinct.iter().copied() {
        let mut levels = 1;
        while pod_classes::has_level(tables, placement, class, levels) {
            levels += 1;
        }
    }
    distinct
}

/// Pods that need a place whatever is decided: first those that wait.
pub(super) struct PodsToPlace {
    pods: Vec<Arc<Pod>>,
    waiting: usize,
}

impl std::ops::Deref for PodsToPlace {
    type Target = [Arc<Pod>];
    fn deref(&self) -> &Self::Target {
        &self.pods
    }
}

pub(super) fn simulation<'a>(pods: &'a [Arc<Pod>], without: &'a [usize]) -> Request<'a> {
    Request { pods, without, purpose: Purpose::Simulation, effort: Effort::First }
}

impl Removal {
    /// Whether what it moved may stay where it is.
    fn settles(&self, waiting: usize) -> bool {
        self.pass.claims.is_empty()
            && self.unplaced.iter().all(|(at, _)| at.position() < waiting)
            && !self.pass.exhausted
    }
}

impl BasePlacement {
    /// Whether what needs a place whatever is decided opens nodes.
    pub(super) fn opens(&self) -> bool {
        !self.pass.claims.is_empty()
    }

    /// The last simulation, where it has a place for all of its pods but those that merely wait.
    pub(super) fn last_whole(&mut self) -> Option<Whole<'_>> {
        let removal = self.last.as_mut()?;
        let whole = removal.unplaced.iter().all(|(at, _)| at.position() < self.waiting);
        whole.then_some(Whole { pass: &mut removal.pass, pods: &self.pods, classes: &self.classes })
    }

    /// One simulation, which stays until it is rewound or kept.
    fn ask(
        &mut self,
        solver: &mut Solver,
        moved: &[Arc<Pod>],
        classes: &[PodClassId],
        without: &[usize],
    ) -> Plan {
        self.pods.extend(moved.iter().cloned());
        self.classes.items_mut().extend_from_slice(classes);
        let mut pass = self.pass.fork();
        solver.placement.make_room(solver.tables.compatibilities.len());
        let slots = without.iter().filter_map(|node| solver.tables.slots.get(*node).copied());
        let mut away: Vec<NodeId> = slots.collect();
        away.sort_unstable();
        let mut unschedulable: Vec<PodId> = self.unplaced.iter().map(|(at, _)| *at).collect();
        for at in away.iter().copied().filter(|at| !self.pass.gone.has(*at)) {
            pass.gone.insert(at);
            solver.tables.give_back(at, &mut pass.left);
            leaving::discount_all(&mut solver.tables, &mut solver.placement, at);
            for pod in self.pass.placed.get(&at).into_iter().flatten() {
                leaving::discount_placed(&mut solver.tables, &mut solver.placement, at, self.classes[*pod]);
                unschedulable.push(*pod);
            }
        }
        unschedulable.extend((self.len..self.pods.len()).map(PodId::new));
        let waiting = self.queue(solver, unschedulable);
        let mut own: Vec<PodClassId> = waiting.iter().map(|at| self.classes[*at]).collect();
        own.sort_unstable();
        own.dedup();
        let unplaced = pass.place_all(solver, &self.pods, &self.classes, waiting);
        let told = unplaced.iter().copied().filter(|(at, _)| at.position() >= self.waiting).collect();
        let request = simulation(&self.pods, without);
        let plan = super::finish::plan(solver, &pass, &request, &self.classes, told);
        self.last = Some(Removal { pass, away, classes: own, unplaced });
        plan
    }

    /// The order in which some of the pods are placed.
    fn queue(&self, solver: &Solver, of: Vec<PodId>) -> Vec<PodId> {
        let pods: Vec<Arc<Pod>> = of.iter().map(|at| Arc::clone(&self.pods[at.position()])).collect();
        let classes: Vec<PodClassId> = of.iter().map(|at| self.classes[*at]).collect();
        super::request_queue::queue(&pods, &classes, solver).into_iter().map(|at| of[at.position()]).collect()
    }

    /// Rewinds a simulation.
    fn forget(&mut self, solver: &mut Solver, removal: Removal) {
        let Removal { pass, classes, .. } = removal;
        solver.placement.rewind(self.mark);
        for level in classes.iter().flat_map(|class| &solver.tables.classes[*class].levels) {
            solver.placement.forget_rejected(level.compatibility);
        }
        for (class, level) in pass
            .starts
            .into_keys()
            .map(|compatibility| solver.tables.compatibilities[compatibility].of)
            .collect::<Vec<_>>()
        {
            let ordered = solver.tables.fitting_in_order(class, level);
            self.pass.skip(
                &solver.placement,
                solver.tables.classes[class].levels[level].compatibility,
                &ordered,
            );
        }
        self.pods.truncate(self.len);
        self.classes.items_mut().truncate(self.len);
    }

    /// Makes a simulation part of the base placement.
    fn absorb(&mut self, removal: Removal, mark: Mark) {
        let Removal { mut pass, away, unplaced, .. } = removal;
        let mut placed = std::mem::take(&mut self.pass.placed);
        for at in &away {
            placed.remove(at);
            pass.settled.insert(*at);
        }
        for (at, pods) in std::mem::take(&mut pass.placed) {
            placed.entry(at).or_default().extend(pods);
        }
        pass.placed = placed;
        self.pass = pass;
        (self.len, self.unplaced, self.mark) = (self.pods.len(), unplaced, mark);
    }
}

#[cfg(test)]
impl Solver {
    /// Where the base placement has its pods, once the last simulation is taken back.
    pub(in crate::scheduling) fn base_plan(&mut self) -> Option<Plan> {
        self.rewind_last();
        let base = self.base.take()?;
        let unplaced = base.unplaced.clone();
        let request = simulation(&base.pods, &[]);
        let plan = super::finish::plan(self, &base.pass, &request, &base.classes, unplaced);
        self.base = Some(base);
        Some(plan)
    }
}
