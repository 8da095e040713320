//! Decisions as records: what a plan, a command, a refusal or a held act was decided on, what was chosen, and what came of it.
//!
//! [`record`] is the form, which programs read (`docs/decisions.schema.json` is made from it). [`of_plan`], [`of_claim`],
//! [`of_command`], [`of_deletion`], [`of_orphan`], [`of_refused_pods`], [`of_refused_nodes`] and [`of_held`] describe the values that the other modules return; nothing is
//! decided here. A record has names, figures and typed reasons. It has no part of an object that decisions do not read: no environment
//! variables, arguments and annotations.

mod deletions;
mod describe;
mod digest;
pub mod record;
mod refusals;
#[cfg(test)]
mod tests;

pub use deletions::{DeletedClaim, of_deletion, of_orphan};
pub use describe::{
    NodeClaimContext, ResumedCommand, held_key, of_claim, of_command, of_held, of_plan, of_resumed,
};
pub use digest::{inputs_of_nodes, inputs_of_plan, process_name};
pub use record::{Choice, DecisionDraft, DecisionInputs, DecisionOutcome, DecisionRecord, OutcomeStatus};
pub use refusals::{Refused, of_refused_nodes, of_refused_pods};
