//! Rules of Kubernetes that several crates apply. Its only dependency is an error macro, because `core` depends on it.
//!
//! - [`quantity`]: the text of quantities and their exact values.
//! - [`selector`]: the set operators of label selectors.
//! - [`fnv`]: the FNV hashes that Kubernetes and Karpenter use in names and annotations.
//!
//! `sim` does not use this crate: its scheduler and its checks are independent oracles with their own implementation.

pub mod fnv;
pub mod quantity;
pub mod selector;

pub use quantity::{Quantity, QuantityError};
