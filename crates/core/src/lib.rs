//! The brain of Fleetwright: pure and synchronous.
//!
//! Reading order for newcomers:
//! 1. [`model`] — plain data: quantities, requirements, taints, pods, nodes, pools, instance types, and the
//!    immutable [`model::Snapshot`] that every decision reads.
//! 2. [`scheduling`] — a batch of pods becomes a [`scheduling::Plan`].
//! 3. [`disruption`] — a snapshot becomes a [`disruption::Command`].
//! 4. [`nodeclaim`] — one NodeClaim and its Node become the [`nodeclaim::Next`] step of its life.
//! 5. [`overlay`] — the user's corrections of prices and capacities.
//! 6. [`safety`] — which limits an act that changes capacity or moves pods must pass.
//! 7. [`shadow`] — what another controller did beside what this planner would have done.
//! 8. [`rate`] — token buckets and delays.
//! 9. [`cloud`] — the seam to a cloud: [`cloud::CloudProvider`] and the suite that checks it.
//!
//! Architecture invariant: nothing here reads a clock, the environment, a random number or the network, and nothing
//! logs. Time is an argument, chance is a seed, and what there is to tell is in the returned value.

pub mod clock;
pub mod cloud;
pub mod disruption;
pub mod model;
pub mod nodeclaim;
pub mod overlay;
pub mod rate;
pub mod safety;
pub mod scheduling;
pub mod shadow;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
