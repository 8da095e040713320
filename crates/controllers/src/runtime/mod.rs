//! The runtime under all controllers: watches feed the index, changes enqueue keys in ordered queues, and workers reconcile
//! those keys.
//!
//! The same code runs in production and in simulation (one thread of paused tokio): work is started in order of
//! arrival, selects are biased, time is [`Clocks`], and nothing depends on the order of a hash map.

mod api_client;
mod client;
mod clocks;
mod cluster;
mod controller;
mod ctx;
pub mod decisions;
mod features;
mod fence;
mod gate;
mod heartbeat;
mod hub;
mod leader;
mod limit;
mod names;
mod queue;
mod read_only;
mod recorder;
mod reference_watch;
mod references;
mod run;
mod shared;
mod shutdown;
mod solvers;
mod unreadable;
mod watch;
mod worker;

pub use api_client::{ApiClient, CALL_DEADLINE};
pub use client::client;
pub use clocks::Clocks;
pub use cluster::Cluster;
pub use controller::{Controller, ReconcileError, Requeue, ignore_not_found};
pub use ctx::{Ctx, CtxParts};
pub(crate) use features::CONTROLLER as FEATURES;
pub use features::Features;
pub use gate::{Gate, MAX_SILENCE, Passive, may_act};
pub use heartbeat::{SILENT, STUCK, Stuck};
pub use leader::{Election, LEASE_DURATION, Leadership, Lost, RENEW_DEADLINE, RETRY_PERIOD};
pub use limit::RateLimit;
pub use names::Names;
pub use queue::{Queue, later};
pub use read_only::ReadOnlyClient;
pub use recorder::Recorder;
pub use references::References;
pub use run::{RunError, run};
pub use shared::Shared;
pub use shutdown::{Shutdown, Trigger, shutdown};
pub use solvers::{Offload, Solvers};
pub(crate) use unreadable::{INVALID_POOL, UNREADABLE};
pub(crate) use watch::parse;

#[cfg(test)]
mod tests;
