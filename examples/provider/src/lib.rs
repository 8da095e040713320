//! A provider for Pebble, an invented cloud that sells servers by the hour through an HTTP API.
//!
//! Reading order: [`api`] is the cloud's API, [`class`] the NodeClass, [`catalogue`] what is sold, [`provider`] the contract of
//! Fleetwright, [`steps`] the provider's loops.

pub mod api;
pub mod catalogue;
pub mod class;
pub mod provider;
pub mod steps;

pub use api::PebbleApi;
pub use class::{Classes, PebbleNodeClass, PebbleNodeClassSpec, definitions, node_classes};
pub use provider::PebbleProvider;
