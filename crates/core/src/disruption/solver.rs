//! The solver of a pass: one for all scheduling simulations, with a limit on their number.

use std::sync::Arc;

use super::Rules;
use crate::{
    model::{Pod, Snapshot},
    scheduling::{self, Plan, PreparedSnapshot, Purpose, Removals, Repack},
};

/// A solver that is prepared by the first simulation. Each simulation restores it.
pub struct SimulationSolver<'a> {
    snapshot: &'a Snapshot,
    rules: &'a scheduling::Rules,
    removals: Option<Box<Removals>>,
    /// How many simulations the pass may still run.
    remaining: u32,
    /// How many it has run.
    simulations_run: u32,
}

impl<'a> SimulationSolver<'a> {
    /// For simulations on `snapshot`.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, rules: &'a scheduling::Rules) -> Self {
        Self { snapshot, rules, removals: None, remaining: Rules::SIMULATIONS_MAX, simulations_run: 0 }
    }

    /// For simulations on `snapshot`, which `prepared` has been updated to.
    #[must_use]
    pub fn with_prepared(
        snapshot: &'a Snapshot,
        rules: &'a scheduling::Rules,
        prepared: PreparedSnapshot,
    ) -> Self {
        Self { removals: Some(Box::new(Removals::new(prepared))), ..Self::new(snapshot, rules) }
    }

    /// Starts a pass of at most `simulations_max` simulations.
    pub(super) fn begin(&mut self, simulations_max: u32) {
        (self.remaining, self.simulations_run) = (simulations_max, 0);
    }

    /// The snapshot that it was created for.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The prepared snapshot, for the next use.
    #[must_use]
    pub fn into_prepared(self) -> PreparedSnapshot {
        match self.removals {
            Some(removals) => removals.into_prepared(),
            None => PreparedSnapshot::new(self.snapshot, self.rules),
        }
    }

    /// The snapshot of the next simulation.
    pub(super) fn base(&mut self) -> Arc<Snapshot> {
        Arc::clone(self.removals().snapshot())
    }

    /// Updates it to another snapshot.
    pub(super) fn follow(&mut self, snapshot: &Arc<Snapshot>) {
        drop(self.removals().update(snapshot));
    }

    /// Keeps the placements of a simulation that creates no node, so that later ones start from it. `false` if that is
    /// not possible.
    pub(super) fn keep(&mut self, moved: &[Arc<Pod>], without: &[usize], purpose: Purpose) -> bool {
        self.removals().keep(moved, without, purpose)
    }

    /// Schedules `moved` on the cluster without some nodes.
    pub(super) fn simulate(&mut self, moved: &[Arc<Pod>], without: &[usize], purpose: Purpose) -> Plan {
        self.count();
        self.removals().without(moved, without, purpose)
    }

    /// [`Self::simulate`] with its new NodeClaims packed by price.
    pub(super) fn repack(
        &mut self,
        moved: &[Arc<Pod>],
        without: &[usize],
        terms: &Repack<'_>,
    ) -> Option<Plan> {
        self.count();
        self.removals().repack(moved, without, terms)
    }

    /// Whether the pass has run all its simulations.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.remaining == 0
    }

    /// How many simulations the pass has run.
    #[must_use]
    pub fn simulations(&self) -> u32 {
        self.simulations_run
    }

    fn count(&mut self) {
        self.remaining = self.remaining.saturating_sub(1);
        self.simulations_run = self.simulations_run.saturating_add(1);
    }

    fn removals(&mut self) -> &mut Removals {
        let (snapshot, rules) = (self.snapshot, self.rules);
        let new = || Box::new(Removals::new(PreparedSnapshot::new(snapshot, rules)));
        self.removals.get_or_insert_with(new)
    }
}
