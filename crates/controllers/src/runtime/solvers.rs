//! Where decisions are computed, and the prepared snapshots of earlier passes, so that the next pass only applies the changes
//! of the snapshot.

use std::sync::Arc;

use fleetwright_core::{
    model::Snapshot,
    scheduling::{PreparedSnapshot, Rules},
};

use super::{controller::ReconcileError, shared::Shared};

/// Where long computations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// On the calling task: reproducible, for simulation (a wait for another thread would let paused time jump).
    Inline,
    /// On a separate thread, so that the async loops are not blocked.
    Thread,
}

/// Number of prepared snapshots that are kept: provisioning and disruption may run at the same time.
const MAX_IDLE: usize = 2;

/// Runs computations and keeps idle prepared snapshots. Clones share them.
#[derive(Clone, Debug)]
pub struct Solvers {
    /// The most recently used last.
    idle: Shared<Vec<PreparedSnapshot>>,
    offload: Offload,
}

impl Solvers {
    pub(super) fn new(offload: Offload) -> Self {
        Self { idle: Shared::default(), offload }
    }

    /// Runs a long computation without blocking the async loops.
    ///
    /// # Errors
    /// [`ReconcileError::Other`] if the computation panicked.
    pub async fn offload<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ReconcileError> {
        match self.offload {
            Offload::Inline => Ok(work()),
            Offload::Thread => tokio::task::spawn_blocking(work)
                .await
                .map_err(|error| ReconcileError::Other(format!("background work: {error}"))),
        }
    }

    /// Whether computations run on separate threads, so that elapsed time is real.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        self.offload == Offload::Thread
    }

    /// Prepares `snapshot`: updates an idle prepared snapshot, or builds a new one.
    pub fn on(&self, snapshot: &Arc<Snapshot>, rules: &Rules) -> PreparedSnapshot {
        let kept = self.idle.lock().pop();
        match kept.filter(|prepared| prepared.rules() == rules) {
            Some(mut prepared) => {
                prepared.update(snapshot);
                prepared
            }
            None => PreparedSnapshot::on(Arc::clone(snapshot), rules),
        }
    }

    /// Keeps a prepared snapshot for the next pass.
    pub fn keep(&self, prepared: PreparedSnapshot) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(prepared);
        }
    }
}
