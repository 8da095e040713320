//! The life of a NodeClaim, one stage a file: launch, registration, initialization, liveness, conditions, drain,
//! termination, garbage collection.
//!
//! A stage is a type with a method `next`: a pure function from a [`ClaimView`] and the time to the [`Next`] action. The controllers execute
//! the steps and decide nothing. A stage is called again after every change. Equal views give equal results, and executing the steps
//! leads to a view with fewer steps, so that a stage becomes idle.

pub mod answer;
pub mod conditions;
pub mod consistency;
pub mod deadline;
pub mod drain;
pub mod expiration;
pub mod finalization;
pub mod garbage_collection;
pub mod health;
pub mod initialization;
pub mod launch;
pub mod liveness;
pub mod nominated_node;
mod notice;
pub mod observations;
pub mod orphans;
pub mod pod_events;
pub mod pool_hash;
pub mod registration;
pub mod repair;
mod step;
pub mod termination;
pub mod trace;
mod view;

pub use notice::Notice;
pub use step::{ClaimStep, ConditionChange, Next, NodeChange};
pub use view::{ClaimView, InstanceState};

use crate::rate::remaining;

#[cfg(test)]
pub(crate) mod tests;
