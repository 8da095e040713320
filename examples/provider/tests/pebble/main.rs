//! The provider and its operator, over the cloud in memory.

mod api;
mod cluster;
mod conformance;
mod kubelet;
mod operator;
mod properties;
mod stub;
