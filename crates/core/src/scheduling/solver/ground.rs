//! What-ifs on common ground: pods that need a place whatever is decided (they wait, or their node is leaving) are
//! placed once, in Karpenter's order, and every what-if goes on from there, at the cost of what it moves.
//!
//! A what-if thinks nodes away. The pods that it moves are placed, in the same order, together with those that the
//! ground has on these nodes, and with those that the ground has no place for: what goes may leave them one. A pod that
//! has no place thus comes before one that has, on the cluster as it still is when it looks for one: that is the order in
//! which it will happen. Karpenter's queue knows only sizes, so that in a tight cluster pods may find other places there.
//!
//! What was tried last can be made part of the ground ([`Solver::settle`]): the next what-if of the pass sees its pods
//! where it put them, and pays nothing for them.

use std::sync::Arc;

use super::{
    Solver, compile, counted, follow,
    pass::{Outcome, Pass, Strategy},
    placement::Mark,
    placement::Placement,
    tables::Tables,
};
use crate::scheduling::ids::{Id, IdVec, NodeId, PodClassId, PodId, TopologyGroupId};
use crate::{
    model::Pod,
    scheduling::{Effort, Plan, Purpose, Request},
};

/// Pods that have their places in all what-ifs.
#[derive(Debug)]
pub(super) struct Ground {
    pass: Pass,
    /// The pods of the ground: those that wait, those of nodes that are leaving, those that settled. Behind them those of
    /// the last what-if.
    pods: Vec<Arc<Pod>>,
    /// Their classes.
    classes: IdVec<PodId, PodClassId>,
    /// How many are of the ground.
    len: usize,
    /// How many wait: nobody is worse off where they have no place.
    waiting: usize,
    /// Pods of the ground without a place.
    unplaced: Vec<(PodId, Outcome)>,
    /// What is rewound to after each what-if.
    mark: Mark,
    /// The last what-if, as it left nodes and counters.
    last: Option<Tried>,
    /// What-ifs that settled, in their order.
    settled: Vec<Settled>,
}

/// A what-if that is part of the ground.
#[derive(Clone, Debug)]
struct Settled {
    moved: Vec<Arc<Pod>>,
    /// Indices into [`crate::model::Snapshot::nodes`].
    without: Vec<usize>,
}

/// A what-if that has a place for every pod.
pub(super) struct Whole<'a> {
    pub(super) pass: &'a mut Pass,
    /// The pods of the ground and behind them its own.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) classes: &'a IdVec<PodId, PodClassId>,
}

/// A what-if that was not taken back yet.
#[derive(Debug)]
struct Tried {
    pass: Pass,
    /// Nodes that were thought away for it.
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
        self.retract();
        if self.ground.is_none() {
            let standing = self.tables.standing();
            if standing.is_empty() || self.tables.claims_devices(&standing) {
                return self.alone(standing, moved, without);
            }
            self.lay(standing);
        }
        let leaving =
            |node: &usize| self.tables.slots.get(*node).is_some_and(|at| self.tables.deleting.has(*at));
        if self.tables.claims_devices(moved) || without.iter().any(leaving) {
            let standing = self.tables.standing();
            return self.alone(standing, moved, without);
        }
        let groups = self.tables.topology.groups.next_id();
        let classes = compiled(&mut self.tables, &mut self.placement, moved);
        if self.tables.topology.groups.next_id() > groups {
            self.meet_all(groups);
        }
        let Some(mut ground) = self.ground.take() else { return Plan::default() };
        let plan = ground.ask(self, moved, &classes, without);
        self.ground = Some(ground);
        plan
    }

    /// Makes a what-if ([`Self::what_if`]) part of the ground, so that the next one goes on from it. Only where all its pods
    /// have a place on nodes that exist; else nothing happens, and the answer is `false`.
    pub(crate) fn settle(&mut self, moved: &[Arc<Pod>], without: &[usize]) -> bool {
        let slots = without.iter().filter_map(|node| self.tables.slots.get(*node).copied());
        let mut away: Vec<NodeId> = slots.collect();
        away.sort_unstable();
        let is_last = |ground: &Ground| ground.last.as_ref().is_some_and(|tried| tried.away == away);
        if !self.ground.as_ref().is_some_and(|ground| is_last(ground)) {
            self.retract();
            if self.ground.is_none() {
                let standing = self.tables.standing();
                if self.tables.claims_devices(&standing) {
                    return false;
                }
                self.lay(standing);
            }
            drop(self.what_if(moved, without));
        }
        let settles = self.ground.as_ref().is_some_and(|ground| {
            let tried = ground.last.as_ref();
            tried.is_some_and(|tried| tried.away == away && tried.settles(ground.waiting))
        });
        if settles {
            self.keep_last(Settled { moved: moved.to_vec(), without: without.to_vec() });
        }
        settles
    }

    /// Makes the last what-if, which is `settled`, part of the ground as it is.
    fn keep_last(&mut self, settled: Settled) {
        let mark = self.placement.mark();
        let Some(ground) = &mut self.ground else { return };
        if let Some(tried) = ground.last.take() {
            ground.take_in(tried, mark);
            ground.settled.push(settled);
        }
    }

    /// Takes everything back that what-ifs have in common, so that the solver is as the snapshot says.
    pub(crate) fn lift(&mut self) {
        self.retract();
        let Some(ground) = self.ground.take() else { return };
        let mut classes = ground.classes.to_vec();
        classes.sort_unstable();
        classes.dedup();
        ground.pass.restore(self, &classes);
    }

    /// One request for all.
    fn alone(&mut self, standing: Standing, moved: &[Arc<Pod>], without: &[usize]) -> Plan {
        let mut pods = standing.pods;
        pods.extend(moved.iter().cloned());
        self.solve(&simulation(&pods, without))
    }

    /// Groups from `known` on came while the ground was there, and have counted what it left. Counts them as they should be,
    /// looks at all pods that run, so that no what-if brings another one, and lays the ground again.
    fn meet_all(&mut self, known: TopologyGroupId) {
        let settled =
            self.ground.as_mut().map(|ground| std::mem::take(&mut ground.settled)).unwrap_or_default();
        self.lift();
        for group in self.tables.topology.groups.ids().filter(|group| *group >= known) {
            follow::count_again(&mut self.tables, &mut self.placement, group);
        }
        let snapshot = Arc::clone(&self.tables.snapshot);
        for pod in snapshot.nodes.iter().flat_map(|node| &node.pods).filter(|pod| pod.is_reschedulable()) {
            let class = compile::class_of(&mut self.tables, &mut self.placement, pod);
            all_levels(&mut self.tables, &mut self.placement, &[class]);
        }
        self.lay(self.tables.standing());
        // One after the other, as it happened: laid together, pods would find other places than those that they were
        // promised, or none. Whom none is left for stays without one, so that nothing else goes.
        for settled in settled {
            drop(self.what_if(&settled.moved, &settled.without));
            self.keep_last(settled);
        }
    }

    /// Places what needs a place whatever is decided.
    fn lay(&mut self, standing: Standing) {
        let Standing { pods, waiting } = standing;
        let (mut pass, asked, _) = Pass::begin(self, &simulation(&pods, &[]), Strategy::KARPENTER);
        let unplaced = pass.place_all(self, &pods, &asked.classes, asked.queue);
        let mark = self.placement.mark();
        let len = pods.len();
        let ground = Ground {
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
        self.ground = Some(Box::new(ground));
    }

    /// Takes the last what-if back.
    fn retract(&mut self) {
        let Some(mut ground) = self.ground.take() else { return };
        if let Some(tried) = ground.last.take() {
            ground.forget(self, tried);
        }
        self.ground = Some(ground);
    }
}

impl Tables {
    /// Pods that need a place whatever is decided.
    pub(super) fn standing(&self) -> Standing {
        let mut pods = self.snapshot.pending.clone();
        let waiting = pods.len();
        pods.extend(self.leaving());
        Standing { pods, waiting }
    }

    fn claims_devices(&self, pods: &[Arc<Pod>]) -> bool {
        !self.rules.ignore_dra && pods.iter().any(|pod| !pod.spec.resource_claims.is_empty())
    }
}

/// The classes of some pods, all levels of which are known.
fn compiled(tables: &mut Tables, placement: &mut Placement, pods: &[Arc<Pod>]) -> Vec<PodClassId> {
    let classes: Vec<PodClassId> = pods.iter().map(|pod| compile::class_of(tables, placement, pod)).collect();
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
        while compile::has_level(tables, placement, class, levels) {
            levels += 1;
        }
    }
    distinct
}

/// Pods that need a place whatever is decided: first those that wait.
pub(super) struct Standing {
    pods: Vec<Arc<Pod>>,
    waiting: usize,
}

impl std::ops::Deref for Standing {
    type Target = [Arc<Pod>];
    fn deref(&self) -> &Self::Target {
        &self.pods
    }
}

pub(super) fn simulation<'a>(pods: &'a [Arc<Pod>], without: &'a [usize]) -> Request<'a> {
    Request { pods, without, purpose: Purpose::Simulation, effort: Effort::First }
}

impl Tried {
    /// Whether what it moved may stay where it is.
    fn settles(&self, waiting: usize) -> bool {
        self.pass.claims.is_empty()
            && self.unplaced.iter().all(|(at, _)| at.position() < waiting)
            && !self.pass.exhausted
    }
}

impl Ground {
    /// Whether what needs a place whatever is decided opens nodes.
    pub(super) fn opens(&self) -> bool {
        !self.pass.claims.is_empty()
    }

    /// The last what-if, where it has a place for all of its pods but those that merely wait.
    pub(super) fn last_whole(&mut self) -> Option<Whole<'_>> {
        let tried = self.last.as_mut()?;
        let whole = tried.unplaced.iter().all(|(at, _)| at.position() < self.waiting);
        whole.then_some(Whole { pass: &mut tried.pass, pods: &self.pods, classes: &self.classes })
    }

    /// One what-if, which stays until it is taken back or in.
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
        solver.placement.make_room(solver.tables.shapes.len());
        let slots = without.iter().filter_map(|node| solver.tables.slots.get(*node).copied());
        let mut away: Vec<NodeId> = slots.collect();
        away.sort_unstable();
        let mut unschedulable: Vec<PodId> = self.unplaced.iter().map(|(at, _)| *at).collect();
        for at in away.iter().copied().filter(|at| !self.pass.gone.has(*at)) {
            pass.gone.insert(at);
            solver.tables.give_back(at, &mut pass.left);
            counted::discount_all(&mut solver.tables, &mut solver.placement, at);
            for pod in self.pass.placed.get(&at).into_iter().flatten() {
                counted::discount_placed(&mut solver.tables, &mut solver.placement, at, self.classes[*pod]);
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
        self.last = Some(Tried { pass, away, classes: own, unplaced });
        plan
    }

    /// The order in which some of the pods are placed.
    fn queue(&self, solver: &Solver, of: Vec<PodId>) -> Vec<PodId> {
        let pods: Vec<Arc<Pod>> = of.iter().map(|at| Arc::clone(&self.pods[at.position()])).collect();
        let classes: Vec<PodClassId> = of.iter().map(|at| self.classes[*at]).collect();
        super::asked::queue(&pods, &classes, solver).into_iter().map(|at| of[at.position()]).collect()
    }

    /// Takes a what-if back.
    fn forget(&mut self, solver: &mut Solver, tried: Tried) {
        let Tried { pass, classes, .. } = tried;
        solver.placement.rewind(self.mark);
        for level in classes.iter().flat_map(|class| &solver.tables.classes[*class].levels) {
            solver.placement.forget_rejected(level.shape);
        }
        for (class, level) in
            pass.starts.into_keys().map(|shape| solver.tables.shapes[shape].of).collect::<Vec<_>>()
        {
            let ordered = solver.tables.fitting_in_order(class, level);
            self.pass.skip(&solver.placement, solver.tables.classes[class].levels[level].shape, &ordered);
        }
        self.pods.truncate(self.len);
        self.classes.items_mut().truncate(self.len);
    }

    /// Makes a what-if part of the ground.
    fn take_in(&mut self, tried: Tried, mark: Mark) {
        let Tried { mut pass, away, unplaced, .. } = tried;
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
    /// Where the ground has its pods, once the last what-if is taken back.
    pub(in crate::scheduling) fn ground_plan(&mut self) -> Option<Plan> {
        self.retract();
        let ground = self.ground.take()?;
        let unplaced = ground.unplaced.clone();
        let request = simulation(&ground.pods, &[]);
        let plan = super::finish::plan(self, &ground.pass, &request, &ground.classes, unplaced);
        self.ground = Some(ground);
        Some(plan)
    }
}
