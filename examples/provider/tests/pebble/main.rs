//! The provider and its operator, over the cloud in memory.

mod api;
mod conformance;
mod operator;
mod properties;
mod stub;
