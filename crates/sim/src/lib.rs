//! A deterministic world around the controllers: a cluster, a cloud and the people's workloads, in one process.
//!
//! Reading order:
//! 1. [`clock`] — virtual time over tokio's.
//! 2. [`world`] — a whole world, assembled from a seed; what `demo`, scenarios and tests drive.
//! 3. [`overview`] — what can be seen of it.
//! 4. [`actors`] — the parts of Kubernetes that Fleetwright relies on: scheduler, workload controllers, volumes, node
//!    lifecycle.

pub mod actors;
pub mod clock;
pub mod overview;
pub mod world;

pub use clock::TokioClock;
pub use overview::Overview;
pub use world::{World, WorldConfig, WorldError};
