//! Where the simulations of a pass are made: one solver for all of them, a bound on how many there may be, and notes
//! that methods leave for one another and for reports.

use std::{
    cell::{Cell, OnceCell, RefCell, RefMut},
    collections::BTreeSet,
    rc::Rc,
    sync::Arc,
};

use super::{Judged, Recall, Rules, several::suspects::Suspects};
use crate::{
    model::{Pod, Snapshot, Str},
    scheduling::{self, Repack, Solver},
};

/// A solver that is prepared by the first simulation, and serves all: each one leaves it as it was.
pub struct Bench<'a> {
    snapshot: &'a Snapshot,
    rules: &'a scheduling::Rules,
    solver: Prepared<'a>,
    notes: Rc<Notes>,
}

enum Prepared<'a> {
    Own(OnceCell<Box<RefCell<Solver>>>),
    Lent(&'a RefCell<Solver>),
}

/// What is common to all simulations of a pass.
struct Notes {
    /// How many simulations there still may be.
    left: Cell<u32>,
    /// How many there were.
    made: Cell<u32>,
    /// NodeClaims that the last pass did not reach: they come first.
    first: BTreeSet<Str>,
    /// How moves were weighed by the policy `Balanced`.
    judged: RefCell<Vec<Judged>>,
    /// Sets of nodes, as indices, that could become several cheaper ones, with what that saves in nano-dollars.
    splits: RefCell<Vec<(i64, Vec<usize>)>>,
    /// Sets of nodes that may be worth packing by price.
    suspects: RefCell<Suspects>,
}

impl Default for Notes {
    fn default() -> Self {
        Self {
            left: Cell::new(Rules::WHAT_IFS),
            made: Cell::new(0),
            first: BTreeSet::new(),
            judged: RefCell::default(),
            splits: RefCell::default(),
            suspects: RefCell::default(),
        }
    }
}

impl<'a> Bench<'a> {
    /// For simulations on `snapshot`.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, rules: &'a scheduling::Rules) -> Self {
        Self { snapshot, rules, solver: Prepared::Own(OnceCell::new()), notes: Rc::default() }
    }

    /// For simulations on `snapshot`, by a solver that has followed it already.
    #[must_use]
    pub fn ready(snapshot: &'a Snapshot, rules: &'a scheduling::Rules, solver: Solver) -> Self {
        let solver = Prepared::Own(OnceCell::from(Box::new(RefCell::new(solver))));
        Self { snapshot, rules, solver, notes: Rc::default() }
    }

    /// Begins a pass: at most `what_ifs` simulations, after one that left `recall`.
    pub fn begin(&mut self, what_ifs: u32, recall: Recall) {
        let Recall { first, refused } = recall;
        let suspects = RefCell::new(Suspects::new(refused));
        self.notes = Rc::new(Notes { left: Cell::new(what_ifs), first, suspects, ..Notes::default() });
    }

    /// The same solver on another snapshot. Give it back with [`Self::resume`].
    pub(super) fn on<'b>(&'b self, snapshot: &'b Arc<Snapshot>) -> Bench<'b> {
        let solver = self.prepared();
        drop(solver.borrow_mut().update(snapshot));
        let notes = Rc::clone(&self.notes);
        Bench { snapshot, rules: self.rules, solver: Prepared::Lent(solver), notes }
    }

    /// The snapshot that the solver stands on now, to come back to.
    pub(super) fn base(&self) -> Arc<Snapshot> {
        Arc::clone(self.prepared().borrow().snapshot())
    }

    /// Brings the solver back to where it was.
    pub(super) fn resume(&self, base: &Arc<Snapshot>) {
        drop(self.prepared().borrow_mut().update(base));
    }

    /// The cluster that simulations are about.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The solver, for whoever asks next.
    #[must_use]
    pub fn into_solver(self) -> Solver {
        let own = match self.solver {
            Prepared::Own(cell) => cell.into_inner().map(|solver| solver.into_inner()),
            Prepared::Lent(_) => None,
        };
        let mut solver = own.unwrap_or_else(|| Solver::new(self.snapshot, self.rules));
        solver.lift();
        solver
    }

    /// The same solver, where all that tells `snapshot` from its own has settled ([`Self::settle`]).
    pub(super) fn along<'b>(&'b self, snapshot: &'b Snapshot) -> Bench<'b> {
        let notes = Rc::clone(&self.notes);
        Bench { snapshot, rules: self.rules, solver: Prepared::Lent(self.prepared()), notes }
    }

    /// Lets later simulations go on from one that leaves no node to be created; `false` where that cannot be.
    pub(super) fn settle(&self, moved: &[Arc<Pod>], without: &[usize]) -> bool {
        self.prepared().borrow_mut().settle(moved, without)
    }

    /// Answers what would happen without some nodes, whose pods are `moved`, as one of the simulations that a pass may
    /// make.
    pub(super) fn what_if(&self, moved: &[Arc<Pod>], without: &[usize]) -> scheduling::Plan {
        self.notes.left.set(self.notes.left.get().saturating_sub(1));
        self.notes.made.set(self.notes.made.get().saturating_add(1));
        self.prepared().borrow_mut().what_if(moved, without)
    }

    /// [`Self::what_if`] with its new NodeClaims packed by price, as one more of the simulations.
    pub(super) fn repack(
        &self,
        moved: &[Arc<Pod>],
        without: &[usize],
        terms: &Repack<'_>,
    ) -> Option<scheduling::Plan> {
        self.notes.left.set(self.notes.left.get().saturating_sub(1));
        self.notes.made.set(self.notes.made.get().saturating_add(1));
        self.prepared().borrow_mut().repack(moved, without, terms)
    }

    /// Whether the pass has made all the simulations that it may.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.notes.left.get() == 0
    }

    /// How many simulations were made.
    #[must_use]
    pub fn what_ifs(&self) -> u32 {
        self.notes.made.get()
    }

    /// Whether the last pass did not reach this NodeClaim.
    pub(super) fn is_first(&self, claim: &str) -> bool {
        self.notes.first.contains(claim)
    }

    /// Notes how a move was weighed.
    pub(super) fn judge(&self, judged: &[Judged]) {
        self.notes.judged.borrow_mut().extend_from_slice(judged);
    }

    /// How moves were weighed, in order; each is told once.
    pub(super) fn take_judged(&self) -> Vec<Judged> {
        self.notes.judged.take()
    }

    /// Notes nodes that could become several.
    pub(super) fn note_split(&self, saving: i64, nodes: Vec<usize>) {
        let mut splits = self.notes.splits.borrow_mut();
        if splits.iter().all(|(_, known)| *known != nodes) {
            splits.push((saving, nodes));
        }
    }

    /// The sets of nodes that could become several, what saves most first.
    pub(super) fn splits(&self) -> Vec<Vec<usize>> {
        let mut splits = self.notes.splits.borrow().clone();
        splits.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
        splits.into_iter().map(|(_, nodes)| nodes).collect()
    }

    /// Sets of nodes that may be worth packing by price.
    pub(super) fn suspects(&self) -> RefMut<'_, Suspects> {
        self.notes.suspects.borrow_mut()
    }

    fn prepared(&self) -> &RefCell<Solver> {
        match &self.solver {
            Prepared::Own(cell) => {
                cell.get_or_init(|| Box::new(RefCell::new(Solver::new(self.snapshot, self.rules))))
            }
            Prepared::Lent(solver) => solver,
        }
    }
}
