//! An in-memory cloud, its provider, and the kubelets of its instances.
//!
//! Reading order:
//! 1. [`catalogue`] — instance types and offerings.
//! 2. [`cloud`] — instances, limited capacity, latency, faults; driven by a clock and a seed.
//! 3. [`api`] — the calls of the cloud, in process or over [`http`].
//! 4. [`provider`] — [`fleetwright_core::cloud::CloudProvider`] over those calls.
//! 5. [`kubelet`] — instances join the cluster and run pods: the only module with a Kubernetes client.

pub mod api;
pub mod catalogue;
pub mod classes;
pub mod cloud;
mod dice;
pub mod http;
pub mod kubelet;
pub mod labels;
pub mod provider;
mod shared;
mod steps;
mod time;

pub(crate) use dice::dice;

pub use catalogue::{Catalogue, Vocabulary};
pub use classes::{NodeClass, node_classes};
pub use cloud::{Cloud, CloudConfig};
pub use dice::Latency;
pub use fleetwright_instance_types::quantities;
pub use provider::FakeProvider;
pub use shared::UNAVAILABLE_FOR;
