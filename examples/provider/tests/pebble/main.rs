//! The provider and its operator, over the cloud in memory.

mod conformance;
mod operator;
mod properties;
mod stub;
