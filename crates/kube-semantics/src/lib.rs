//! Rules of Kubernetes that several crates apply. No dependency but an error macro: the solver's crate builds on it.
//!
//! - [`quantity`]: the text of quantities and their exact values.
//! - [`selector`]: the set operators of label selectors.
//! - [`fnv`]: the FNV hashes by which Kubernetes and Karpenter name things.
//!
//! `sim` applies the same rules in code of its own: its scheduler and its checks are the independent oracle of this crate's users.

pub mod fnv;
pub mod quantity;
pub mod selector;

pub use quantity::{Quantity, QuantityError};
