//! The controllers: async loops that observe the cluster, call `core`, and act.
//!
//! [`runtime`] feeds the index from watches and enqueues keys for controllers. Each controller reads the index, calls a
//! pure function of `core`, and executes the value that it returns. [`all`] lists them.

pub mod all;
pub mod capacitybuffer;
pub mod classes;
pub mod disruption;
pub mod events;
#[cfg(test)]
mod families;
pub mod log;
pub mod metrics;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod observability;
mod patch;
mod pool_status;
mod provider_steps;
pub mod provisioning;
pub mod runtime;
mod safety;
pub mod settings;
pub mod shadow;
#[cfg(test)]
mod testing;
