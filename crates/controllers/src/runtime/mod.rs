//! The runtime under all controllers: watches feed the index, changes enqueue keys in ordered queues, and workers reconcile
//! those keys.
//!
//! The same code runs in production and in simulation (one thread of paused tokio): work is started in order of
//! arrival, selects are biased, time is [`Ctx::clock`], and nothing depends on the order of a hash map.

mod client;
mod controller;
mod ctx;
mod fence;
mod gate;
mod hub;
mod leader;
mod limit;
mod names;
mod pulse;
mod queue;
mod recorder;
mod run;
mod shutdown;
mod solvers;
mod times;
mod unreadable;
mod watch;
mod worker;

pub use client::client;
pub use controller::{Controller, ReconcileError, Requeue, gone_is_ok};
pub use ctx::{CALL_DEADLINE, Ctx, Offload, Parts};
pub use gate::{MAX_SILENCE, Passive, may_act};
pub use leader::{Election, LEASE_DURATION, Leadership, Lost, RENEW_DEADLINE, RETRY_PERIOD};
pub use limit::RateLimit;
pub use names::Names;
pub use pulse::{SILENT, STUCK, Stuck};
pub use queue::{Queue, later};
pub use recorder::Recorder;
pub use run::{RunError, run};
pub use shutdown::{Shutdown, Trigger, shutdown};
pub use solvers::Solvers;
pub(crate) use unreadable::{INVALID_POOL, UNREADABLE};

#[cfg(test)]
mod tests;
