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
//! 9. [`decisions`] — what was decided, as records for people and programs.
//! 10. [`cloud`] — the seam to a cloud: [`cloud::CloudProvider`] and the suite that checks it.
//! 11. [`suggest`] — the name that was probably meant.
//!
//! Authors of providers need [`cloud`], [`clock`] and parts of [`model`]: [`cloud`] says which, and what versions promise. The rest is
//! public for the crates of this workspace only and changes in any version.
//!
//! Architecture invariant: nothing here reads a clock, the environment, a random number or the network, and nothing
//! logs. Time is an argument, chance is a seed, and what there is to tell is in the returned value.

pub mod clock;
pub mod cloud;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod decisions;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod disruption;
pub mod model;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod nodeclaim;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod overlay;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod rate;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod safety;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod scheduling;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod shadow;
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod suggest;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub mod testing;
