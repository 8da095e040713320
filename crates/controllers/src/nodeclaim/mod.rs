//! The lifecycle of a NodeClaim, from launch to the removal of its finalizer.
//!
//! Reading order: [`claimed_node`] reads a NodeClaim with its Node and pods from the index; a stage of
//! `fleetwright_core::nodeclaim` returns the next steps; [`executor`] executes them. One controller per file:
//!
//! | phase | files |
//! |---|---|
//! | launch, registration, initialization, liveness | `lifecycle`, `launch`, `initialization_deadline` |
//! | while it runs | `consistency`, `disruption`, `hydration`, `nominations`, `pod_events`, `validation` |
//! | deletion | `expiration`, `repair`, `garbage_collection` |
//! | drain, termination | `node_termination`, `eviction`, `orphans`, `cloud_refusals` |
//!
//! [`LifecycleCache`] saves calls between passes. A restart loses it; safety does not depend on it.

mod cache;
pub(crate) mod claimed_node;
mod cloud_call;
mod cloud_refusals;
mod consistency;
mod disruption;
mod eviction;
pub(crate) mod executor;
mod expiration;
pub(crate) mod families;
mod garbage_collection;
mod hydration;
mod initialization_deadline;
mod launch;
mod lifecycle;
mod node_patch;
mod node_release;
mod node_termination;
mod nominated_node;
pub(crate) mod nominations;
mod orphans;
mod pod_events;
mod publish;
mod repair;
#[cfg(test)]
mod tests;
mod validation;

pub use cache::LifecycleCache;
pub(crate) use cache::{REGISTRATION_HEALTH, registration_condition};
pub(crate) use claimed_node::ClaimedNode;
pub use consistency::Consistency;
pub use disruption::Disruption;
pub use eviction::EvictionQueue;
pub(crate) use executor::only;
pub use expiration::Expiration;
pub use garbage_collection::GarbageCollection;
pub use hydration::{ClaimHydration, NodeHydration};
pub use initialization_deadline::InitializationDeadline;
pub(crate) use launch::end_creation;
pub use lifecycle::Lifecycle;
pub use node_termination::NodeTermination;
pub use nominated_node::NominatedNode;
pub use pod_events::PodEvents;
pub use repair::Repair;
pub use validation::Validation;
