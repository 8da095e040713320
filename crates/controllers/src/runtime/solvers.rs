//! Keeps prepared snapshots between passes, so that the next pass only applies the changes of the snapshot.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleetwright_core::{
    model::Snapshot,
    scheduling::{PreparedSnapshot, Rules},
};

/// Number of prepared snapshots that are kept: provisioning and disruption may run at the same time.
const MAX_IDLE: usize = 2;

/// Idle ones, the most recently used last.
#[derive(Debug, Default)]
pub struct Solvers(Mutex<Vec<PreparedSnapshot>>);

impl Solvers {
    /// Returns `snapshot` made ready: an idle one that is brought up to date, or a new one.
    pub fn on(&self, snapshot: &Arc<Snapshot>, rules: &Rules) -> PreparedSnapshot {
        let kept = self.idle().pop();
        match kept.filter(|prepared| prepared.rules() == rules) {
            Some(mut prepared) => {
                prepared.update(snapshot);
                prepared
            }
            None => PreparedSnapshot::on(Arc::clone(snapshot), rules),
        }
    }

    /// Keeps one for the next pass.
    pub fn keep(&self, prepared: PreparedSnapshot) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(prepared);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PreparedSnapshot>> {
        // A panic leaves none half inserted.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
