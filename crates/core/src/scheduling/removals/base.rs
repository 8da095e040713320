//! The base placement: what all simulations of a pass have in common, and the last simulation on it.

use std::sync::Arc;

use crate::{
    model::Pod,
    scheduling::{
        explain::finish,
        greedy::{
            pass::{Outcome, Pass, Strategy},
            request_queue::queue,
        },
        ids::{Id, IdVec, NodeId, PodClassId, PodId},
        placement::{Mark, leaving},
        plan::Plan,
        prepared::PreparedSnapshot,
        request::{Effort, Purpose, Request},
        tables::Tables,
    },
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
    kept: Vec<KeptRemoval>,
}

/// A simulation that is part of the base placement.
#[derive(Clone, Debug)]
pub(super) struct KeptRemoval {
    pub(super) moved: Vec<Arc<Pod>>,
    /// Indices into [`crate::model::Snapshot::nodes`].
    pub(super) without: Vec<usize>,
    pub(super) purpose: Purpose,
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

/// Pods that need a place whatever is decided.
pub(super) fn pods_to_place(tables: &Tables) -> PodsToPlace {
    let mut pods = tables.snapshot.pending.clone();
    let waiting = pods.len();
    pods.extend(leaving::of_deleting(tables));
    PodsToPlace { pods, waiting }
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

pub(super) fn simulation<'a>(pods: &'a [Arc<Pod>], without: &'a [usize], purpose: Purpose) -> Request<'a> {
    Request { pods, without, purpose, effort: Effort::First }
}

impl PodsToPlace {
    /// The pods.
    pub(super) fn into_pods(self) -> Vec<Arc<Pod>> {
        self.pods
    }
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
    /// Places what needs a place whatever is decided.
    pub(super) fn new(prepared: &mut PreparedSnapshot, pods_to_place: PodsToPlace) -> Self {
        let PodsToPlace { pods, waiting } = pods_to_place;
        let PreparedSnapshot { tables, placement, asked, .. } = prepared;
        let asked = asked.next(tables, placement, &pods);
        let (mut pass, _) = Pass::begin(
            tables,
            placement,
            &simulation(&pods, &[], Purpose::Simulation),
            &asked,
            Strategy::KARPENTER,
        );
        let unplaced = pass.place_all(tables, placement, &pods, &asked.classes, asked.queue);
        let mark = placement.mark();
        let len = pods.len();
        let classes = asked.classes;
        Self { pass, pods, classes, len, waiting, unplaced, mark, last: None, kept: Vec::new() }
    }

    /// Takes back all of it.
    pub(super) fn rewind(self, prepared: &mut PreparedSnapshot) {
        let mut classes = self.classes.to_vec();
        classes.sort_unstable();
        classes.dedup();
        self.pass.restore(&prepared.tables, &mut prepared.placement, &classes);
    }

    /// Whether it opens nodes.
    pub(super) fn opens(&self) -> bool {
        !self.pass.claims.is_empty()
    }

    /// Whether the last simulation excludes these nodes.
    pub(super) fn last_is(&self, away: &[NodeId]) -> bool {
        self.last.as_ref().is_some_and(|removal| removal.away == away)
    }

    /// Whether what the last simulation moved may stay where it is.
    pub(super) fn last_settles(&self) -> bool {
        self.last.as_ref().is_some_and(|removal| removal.settles(self.waiting))
    }

    /// The last simulation, where it has a place for all of its pods but those that merely wait.
    pub(super) fn last_whole(&mut self) -> Option<Whole<'_>> {
        let removal = self.last.as_mut()?;
        let whole = removal.unplaced.iter().all(|(at, _)| at.position() < self.waiting);
        whole.then_some(Whole { pass: &mut removal.pass, pods: &self.pods, classes: &self.classes })
    }

    /// Makes the last simulation, which ends at `mark`, part of it.
    pub(super) fn keep_last(&mut self, kept: KeptRemoval, mark: Mark) {
        let Some(Removal { mut pass, away, unplaced, .. }) = self.last.take() else { return };
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
        self.kept.push(kept);
    }

    /// The kept simulations, which are forgotten.
    pub(super) fn take_kept(&mut self) -> Vec<KeptRemoval> {
        std::mem::take(&mut self.kept)
    }

    /// One simulation, which stays until it is rewound or kept.
    pub(super) fn ask(
        &mut self,
        prepared: &mut PreparedSnapshot,
        moved: &[Arc<Pod>],
        classes: &[PodClassId],
        (without, purpose): (&[usize], Purpose),
    ) -> Plan {
        let PreparedSnapshot { tables, placement, memo, .. } = prepared;
        self.pods.extend(moved.iter().cloned());
        self.classes.items_mut().extend_from_slice(classes);
        let mut pass = self.pass.fork();
        pass.purpose = purpose;
        placement.make_room(tables.compatibilities.len());
        let slots = without.iter().filter_map(|node| tables.slots.get(*node).copied());
        let mut away: Vec<NodeId> = slots.collect();
        away.sort_unstable();
        let mut unschedulable: Vec<PodId> = self.unplaced.iter().map(|(at, _)| *at).collect();
        for at in away.iter().copied().filter(|at| !self.pass.gone.has(*at)) {
            pass.gone.insert(at);
            pass.limits.give_back(tables, at);
            leaving::discount_removed(tables, placement, at, moved);
            for pod in self.pass.placed.get(&at).into_iter().flatten() {
                leaving::discount_placed(tables, placement, at, self.classes[*pod]);
                unschedulable.push(*pod);
            }
        }
        unschedulable.extend((self.len..self.pods.len()).map(PodId::new));
        let waiting = self.queue(tables, unschedulable);
        let mut own: Vec<PodClassId> = waiting.iter().map(|at| self.classes[*at]).collect();
        own.sort_unstable();
        own.dedup();
        let unplaced = pass.place_all(tables, placement, &self.pods, &self.classes, waiting);
        let told = unplaced.iter().copied().filter(|(at, _)| at.position() >= self.waiting).collect();
        let request = simulation(&self.pods, without, purpose);
        let plan = finish::plan(tables, placement, memo, &pass, (&request, &self.classes), told);
        self.last = Some(Removal { pass, away, classes: own, unplaced });
        plan
    }

    /// The order in which some of the pods are placed.
    fn queue(&self, tables: &Tables, of: Vec<PodId>) -> Vec<PodId> {
        let pods: Vec<Arc<Pod>> = of.iter().map(|at| Arc::clone(&self.pods[at.position()])).collect();
        let classes: Vec<PodClassId> = of.iter().map(|at| self.classes[*at]).collect();
        queue(&pods, &classes, tables).into_iter().map(|at| of[at.position()]).collect()
    }

    /// Rewinds the last simulation.
    pub(super) fn rewind_last(&mut self, prepared: &mut PreparedSnapshot) {
        let Some(Removal { pass, classes, .. }) = self.last.take() else { return };
        let PreparedSnapshot { tables, placement, .. } = prepared;
        placement.rewind(self.mark);
        for level in classes.iter().flat_map(|class| &tables.classes[*class].levels) {
            placement.forget_rejected(level.compatibility);
        }
        for compatibility in pass.starts.into_keys() {
            let (class, level) = tables.compatibilities[compatibility].of;
            let ordered = tables.fitting_in_order(class, level);
            self.pass.skip(placement, compatibility, &ordered);
        }
        self.pods.truncate(self.len);
        self.classes.items_mut().truncate(self.len);
    }
}

#[cfg(test)]
impl BasePlacement {
    /// Where it has its pods.
    pub(super) fn plan(&self, prepared: &mut PreparedSnapshot) -> Plan {
        let PreparedSnapshot { tables, placement, memo, .. } = prepared;
        let request = simulation(&self.pods, &[], Purpose::Simulation);
        finish::plan(tables, placement, memo, &self.pass, (&request, &self.classes), self.unplaced.clone())
    }
}
