//! Solvers between their uses: what one pass has prepared, the next brings up to date.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleetwright_core::{
    model::Snapshot,
    scheduling::{Rules, Solver},
};

/// So many are kept: provisioning and disruption may work at the same time.
const MAX_IDLE: usize = 2;

/// Solvers that nobody uses just now, the one that was used last at the end.
#[derive(Debug, Default)]
pub struct Solvers(Mutex<Vec<Solver>>);

impl Solvers {
    /// A solver on `snapshot`: one that was kept, brought up to date, or a new one.
    pub fn on(&self, snapshot: &Arc<Snapshot>, rules: &Rules) -> Solver {
        let kept = self.idle().pop();
        match kept.filter(|solver| solver.rules() == rules) {
            Some(mut solver) => {
                solver.update(snapshot);
                solver
            }
            None => Solver::on(Arc::clone(snapshot), rules),
        }
    }

    /// Keeps a solver for the next who asks.
    pub fn keep(&self, solver: Solver) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(solver);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Solver>> {
        // Solvers are put in and taken out whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
