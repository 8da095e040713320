//! Execution of what `core::disruption` decides.
//!
//! [`decide::Disruption`] runs passes, waits out the validation delay and starts commands; [`queue::Queue`] executes each
//! command: replacements first, then the removal of the nodes. A command is one entry of the index's intents from its
//! start, so that every snapshot has all of it.

mod commands;
mod decide;
mod drift_caps;
mod durable;
mod execute;
pub(crate) mod figures;
mod live;
mod orphans;
mod queue;
mod report;
mod settings;
mod status;
#[cfg(test)]
mod tests;
mod timed;

pub use durable::{recorded_commands, resumable_commands};
pub use settings::{methods, rules};

use std::sync::Arc;

use self::commands::Commands;
use crate::runtime::{Controller, Ctx};

/// The controllers of disruption.
#[must_use]
pub fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let commands = Arc::new(Commands::default());
    vec![Arc::new(decide::Disruption::new(ctx, commands.clone())), Arc::new(queue::Queue::new(ctx, commands))]
}
