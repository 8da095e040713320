//! The hands: thin loops that observe, ask the core, and act.
//!
//! [`runtime`] feeds the index from watches and hands keys to controllers; each controller is a small file that reads
//! the index, asks a pure function of `core` what to do, and does it. [`all`] lists them.

pub mod all;
pub mod capacitybuffer;
pub mod disruption;
pub mod events;
pub mod lifecycle;
pub mod metrics;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod observability;
mod patch;
mod provider;
pub mod provisioning;
pub mod runtime;
pub mod settings;
pub mod termination;
#[cfg(test)]
mod testing;
