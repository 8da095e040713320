//! The official AWS SDK behind [`fleetwright_aws::calls::AwsApi`]: the only crate that names it.
//!
//! It decides nothing. [`SdkClient`] sends each call with all its pages and gives the answer back in the types of
//! `aws::calls`; what the SDK does not know yet passes through as text, and what lacks an identity is left out.

mod api;
mod connect;
mod convert;
mod error;
mod fleet;
mod instance;
mod instance_types;
mod network;
mod policies;
mod prices;
mod queues;
mod requests;
mod template;

pub use connect::{ConnectError, Endpoint, SdkClient};
