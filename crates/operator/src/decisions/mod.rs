//! The decisions of a controller: `/decisions` on its metrics port, and `fleetwright decisions`, which reads it.
//!
//! The records are those of `fleetwright_core::decisions::record`. The endpoint is off by default, reads only, and is as public as the
//! metrics beside it.

mod client;
mod document;
mod endpoint;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod tool;

pub(crate) use endpoint::routes;
pub(crate) use source::{DecisionSource, SHOWN};
pub(crate) use table::DecisionRow;
pub(crate) use tool::run;
