//! The official AWS SDK behind [`fleetwright_aws::calls::AwsApi`]: the only crate that names it.
//!
//! It makes no decisions. [`SdkClient`] sends each call with all its pages and returns the answer in the types of `aws::calls`; values
//! that the SDK does not know pass through as text, and items without an identity are left out.

mod api;
mod connect;
mod convert;
#[cfg(test)]
mod environment;
mod error;
mod fleet;
mod http;
mod instance;
mod instance_trial;
mod instance_types;
mod network;
mod policies;
mod prices;
mod queues;
mod record;
mod requests;
mod template;

pub use connect::{ConnectError, Endpoint, SdkClient};
pub use http::HttpError;
pub use record::{Exchange, Listener};
