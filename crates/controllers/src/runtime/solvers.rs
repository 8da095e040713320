//! Keeps solvers between passes, so that the next pass only applies the changes of the snapshot.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleetwright_core::{
    model::Snapshot,
    scheduling::{Rules, Solver},
};

/// Number of solvers that are kept: provisioning and disruption may run at the same time.
const MAX_IDLE: usize = 2;

/// Idle solvers, the most recently used last.
#[derive(Debug, Default)]
pub struct Solvers(Mutex<Vec<Solver>>);

impl Solvers {
    /// Returns a solver on `snapshot`: an idle one that is brought up to date, or a new one.
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

    /// Keeps a solver for the next pass.
    pub fn keep(&self, solver: Solver) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(solver);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Solver>> {
        // A panic leaves no solver half inserted.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
