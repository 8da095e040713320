//! A deterministic simulator around the controllers: a cluster, a cloud and workloads, in one process.
//!
//! Reading order:
//! 1. [`clock`] — virtual time over tokio's.
//! 2. [`simulator`] — the simulator, assembled from a seed; used by `demo`, scenarios and tests.
//! 3. [`overview`] — its observable state.
//! 4. [`actors`] — the parts of Kubernetes that Fleetwright relies on: scheduler, workload controllers, volumes, node
//!    lifecycle.

pub mod actors;
pub mod clock;
pub mod overview;
pub mod simulator;

pub use clock::TokioClock;
pub use overview::Overview;
pub use simulator::{Simulator, SimulatorConfig, SimulatorError};
