//! The commands that this process executes.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::{
    disruption::{StartedCommand, timeout},
    model::Str,
};

/// Karpenter's name of the controller that executes commands.
pub(super) const QUEUE: &str = "disruption.queue";

/// Commands by id.
#[derive(Default)]
pub(super) struct Commands(Mutex<BTreeMap<Str, StartedCommand>>);

impl Commands {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<Str, StartedCommand>> {
        // Every change is one statement: a panic cannot leave half of one behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, id: Str, started: StartedCommand) {
        self.lock().insert(id, started);
    }

    pub(super) fn get(&self, id: &str) -> Option<StartedCommand> {
        self.lock().get(id).cloned()
    }

    pub(super) fn remove(&self, id: &str) -> Option<StartedCommand> {
        self.lock().remove(id)
    }

    /// Whether a command removes this NodeClaim.
    pub(super) fn holds(&self, claim: &str) -> bool {
        self.lock().values().any(|started| started.candidate_claims().any(|name| &**name == claim))
    }

    /// The current timeout of commands, at least `least`.
    pub(super) fn timeout(&self, least: Duration) -> Duration {
        timeout(self.lock().values().map(|started| started.command.candidates.len()).sum(), least)
    }
}
