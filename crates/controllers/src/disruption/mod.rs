//! Carrying out what `core::disruption` decides.
//!
//! [`decide::Disruption`] looks at the cluster again and again, waits out the validation delay and starts commands;
//! [`queue::Queue`] sees each command through: replacements first, then the nodes. A command is one entry of the
//! index's intents from the moment that it starts, so that every snapshot sees all of it.

mod brakes;
mod decide;
mod durable;
mod execute;
pub(crate) mod figures;
mod live;
mod orphans;
mod queue;
mod report;
mod returns;
mod standing;
#[cfg(test)]
mod tests;

pub use decide::methods;
pub use durable::under_way;
pub use returns::Returns;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::{
    disruption::{Candidate, Command, Decision, Rules},
    model::{ClaimName, DisruptionReason, Str},
};
use jiff::Timestamp;

use crate::{
    runtime::{Controller, Ctx},
    settings::Settings,
};

/// The longest that a command may take, unless the settings grant all of them more.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// The controllers of disruption.
#[must_use]
pub fn controllers() -> Vec<Arc<dyn Controller>> {
    let commands = Arc::new(Commands::default());
    vec![Arc::new(decide::Disruption::new(commands.clone())), Arc::new(queue::Queue::new(commands))]
}

/// What disruption reads of the settings.
#[must_use]
pub fn rules(settings: &Settings) -> Rules {
    Rules { scheduling: settings.rules(), spot_to_spot: settings.gates.spot_to_spot, ..Rules::default() }
}

/// [`rules`], with what the cloud knows of the age of its prices.
fn rules_now(ctx: &Ctx) -> Rules {
    Rules { prices_as_of: ctx.cloud.prices_as_of(), ..rules(&ctx.settings) }
}

/// Commands under way.
#[derive(Default)]
struct Commands(Mutex<BTreeMap<Str, Running>>);

/// A command under way.
#[derive(Clone, Debug)]
struct Running {
    /// What was decided.
    command: Arc<Command>,
    /// NodeClaims that come in the nodes' place, in the order of the command.
    replacements: Vec<ClaimName>,
    /// When this process began it or took it over, in steady time.
    since: Timestamp,
    /// When it was started, on the clock of whoever did: for people.
    started: Timestamp,
}

impl Running {
    /// Whether the command creates anything.
    fn decision(&self) -> Decision {
        if self.replacements.is_empty() { Decision::Delete } else { Decision::Replace }
    }

    /// Whether a node of the command was chosen because it was empty.
    fn was_empty(&self, candidate: &Candidate) -> bool {
        candidate.is_empty() || self.command.reason == DisruptionReason::Empty
    }
}

impl Commands {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Str, Running>> {
        // Every change is one statement: a panic cannot leave half of one behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, id: Str, running: Running) {
        self.lock().insert(id, running);
    }

    fn get(&self, id: &str) -> Option<Running> {
        self.lock().get(id).cloned()
    }

    fn remove(&self, id: &str) -> Option<Running> {
        self.lock().remove(id)
    }

    /// Whether a command has this NodeClaim, to remove it.
    fn holds(&self, claim: &str) -> bool {
        let takes = |running: &Running| {
            running
                .command
                .candidates
                .iter()
                .any(|candidate| candidate.node.claim_name().is_some_and(|name| &**name == claim))
        };
        self.lock().values().any(takes)
    }

    /// How long a command may take while so many nodes are queued: 80 ms for each, and no less than the settings say.
    fn timeout(&self, least: Duration) -> Duration {
        let queued: usize = self.lock().values().map(|running| running.command.candidates.len()).sum();
        Duration::from_millis(80)
            .saturating_mul(u32::try_from(queued).unwrap_or(u32::MAX))
            .min(TIMEOUT_MAX)
            .max(least)
    }
}
