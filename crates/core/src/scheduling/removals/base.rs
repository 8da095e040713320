//! The base placement: what all simulations of a pass have in common, and the last simulation on it.

use std::sync::Arc;

use crate::{
    model::Pod,
    scheduling::{
        explain::finish,
        greedy::{
            pass::{Outcome, Pass, Strategy},
            place::Greedy,
            request_queue::{self, RequestQueue},
        },
        ids::{Id, IdVec, NodeId, PodClassId, PodId},
        placement::{Mark, discount},
        plan::Plan,
        prepared::PreparedSnapshot,
        request::{Effort, Purpose, Request},
        tables::{Tables, bits::Bits, pod_classes::distinct},
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
    /// The number of pods of the base placement.
    len: usize,
    /// The number of pending pods: a simulation may leave them unschedulable.
    pending: usize,
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

/// Pods with their classes.
type Placed<'a> = (&'a [Arc<Pod>], &'a IdVec<PodId, PodClassId>);

/// A simulation that is not rewound yet.
#[derive(Debug)]
struct Removal {
    pass: Pass,
    /// Excluded nodes.
    excluded: Bits<NodeId>,
    /// Distinct classes of the pods that it placed.
    classes: Vec<PodClassId>,
    unplaced: Vec<(PodId, Outcome)>,
}

/// Pods that are placed before every simulation: the pending pods, then those of deleting nodes.
pub(super) fn pods_to_place(tables: &Tables) -> Vec<Arc<Pod>> {
    let mut pods = tables.snapshot.pending.clone();
    pods.extend(discount::pods_of_deleting_nodes(tables));
    pods
}

pub(super) fn simulation<'a>(pods: &'a [Arc<Pod>], without: &'a [usize], purpose: Purpose) -> Request<'a> {
    Request { pods, without, purpose, effort: Effort::First }
}

impl Removal {
    /// Whether existing nodes take all pods that it moved.
    fn fits_nodes(&self, pending: usize) -> bool {
        self.pass.claims.is_empty() && self.is_complete(pending) && !self.pass.exhausted
    }

    /// Whether only pending pods are unschedulable.
    fn is_complete(&self, pending: usize) -> bool {
        self.unplaced.iter().all(|(pod_id, _)| pod_id.position() < pending)
    }
}

impl BasePlacement {
    /// Places [`pods_to_place`].
    pub(super) fn new(prepared: &mut PreparedSnapshot, pods: Vec<Arc<Pod>>) -> Self {
        let RequestQueue { classes, distinct, queue } = prepared.queue(&pods);
        let PreparedSnapshot { tables, placement, .. } = prepared;
        let request = simulation(&pods, &[], Purpose::Simulation);
        let mut pass = Pass::begin(tables, placement, &request, &distinct, Strategy::KARPENTER);
        let mut greedy = Greedy { tables, placement, pass: &mut pass, pods: &pods, classes: &classes };
        let unplaced = greedy.place_all(queue);
        let (mark, len, pending) = (placement.mark(), pods.len(), tables.snapshot.pending.len());
        Self { pass, pods, classes, len, pending, unplaced, mark, last: None, kept: Vec::new() }
    }

    /// Rewinds the base placement.
    pub(super) fn rewind(self, prepared: &mut PreparedSnapshot) {
        self.pass.restore(&mut prepared.tables, &mut prepared.placement, &distinct(self.classes.to_vec()));
    }

    /// Whether it has no pods.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it creates NodeClaims.
    pub(super) fn has_new_claims(&self) -> bool {
        !self.pass.claims.is_empty()
    }

    /// Whether the last simulation excludes these nodes.
    pub(super) fn last_is(&self, excluded: &Bits<NodeId>) -> bool {
        self.last.as_ref().is_some_and(|removal| removal.excluded == *excluded)
    }

    /// Whether existing nodes take all pods that the last simulation moved.
    pub(super) fn last_fits_nodes(&self) -> bool {
        self.last.as_ref().is_some_and(|removal| removal.fits_nodes(self.pending))
    }

    /// The pass of the last simulation, if only pending pods are unschedulable in it, and its pods, those of the base placement
    /// included, with their classes.
    pub(super) fn last_complete(&mut self) -> Option<(&mut Pass, Placed<'_>)> {
        let removal = self.last.as_mut().filter(|removal| removal.is_complete(self.pending))?;
        Some((&mut removal.pass, (&self.pods, &self.classes)))
    }

    /// Makes the last simulation, which ends at `mark`, part of it.
    pub(super) fn keep_last(&mut self, kept: KeptRemoval, mark: Mark) {
        let Some(Removal { mut pass, excluded, unplaced, .. }) = self.last.take() else { return };
        let mut placed = std::mem::take(&mut self.pass.placed);
        for node_id in excluded.iter() {
            placed.remove(&node_id);
            pass.removed.insert(node_id);
        }
        for (node_id, pods) in std::mem::take(&mut pass.placed) {
            placed.entry(node_id).or_default().extend(pods);
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
        let excluded = tables.slots_of(without);
        let mut unschedulable: Vec<PodId> = self.unplaced.iter().map(|(pod_id, _)| *pod_id).collect();
        for node_id in excluded.iter().filter(|node_id| !self.pass.excluded.has(*node_id)) {
            pass.excluded.insert(node_id);
            pass.limits.give_back(tables, node_id);
            discount::discount_removed(tables, placement, node_id, moved);
            for pod in self.pass.placed.get(&node_id).into_iter().flatten() {
                discount::discount_placed(tables, placement, node_id, self.classes[*pod]);
                unschedulable.push(*pod);
            }
        }
        unschedulable.extend((self.len..self.pods.len()).map(PodId::new));
        let waiting = request_queue::order(tables, &self.pods, &self.classes, unschedulable);
        let own = distinct(waiting.iter().map(|pod_id| self.classes[*pod_id]).collect());
        let (pods, classes) = (&self.pods, &self.classes);
        let unplaced = Greedy { tables, placement, pass: &mut pass, pods, classes }.place_all(waiting);
        let reported =
            unplaced.iter().copied().filter(|(pod_id, _)| pod_id.position() >= self.pending).collect();
        let request = simulation(&self.pods, without, purpose);
        let plan = finish::plan(tables, placement, memo, &pass, (&request, &self.classes), reported);
        self.last = Some(Removal { pass, excluded, classes: own, unplaced });
        plan
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
            let (class, level) = tables.compatibilities[compatibility].representative;
            let ordered = tables.fitting_in_order(class, level);
            self.pass.skip(placement, compatibility, ordered);
        }
        self.pods.truncate(self.len);
        self.classes.items_mut().truncate(self.len);
    }
}

#[cfg(test)]
impl BasePlacement {
    /// The base placement as a plan.
    pub(super) fn plan(&self, prepared: &mut PreparedSnapshot) -> Plan {
        let PreparedSnapshot { tables, placement, memo, .. } = prepared;
        let request = simulation(&self.pods, &[], Purpose::Simulation);
        finish::plan(tables, placement, memo, &self.pass, (&request, &self.classes), self.unplaced.clone())
    }
}
