//! What is watched over while a NodeClaim lives: age, instance, shape, conditions for disruption, pod events.

mod consistency;
mod disruption;
mod expiration;
mod garbage_collection;
mod hydration;
mod initialization_deadline;
mod orphans;
mod pod_events;
mod repair;
mod validation;

pub use consistency::Consistency;
pub use disruption::Disruption;
pub use expiration::Expiration;
pub use garbage_collection::GarbageCollection;
pub use hydration::{ClaimHydration, NodeHydration};
pub use initialization_deadline::InitializationDeadline;
pub use pod_events::PodEvents;
pub use repair::Repair;
pub use validation::Validation;
