//! Kubernetes objects become the immutable [`fleetwright_core::model::Snapshot`] that decisions read.
//!
//! [`Index`] is a synchronous table of everything that watches deliver. [`Index::apply`] takes in an object, whether
//! from a watch or from the answer to an own write; [`Index::snapshot`] hands out a view that shares all parts that
//! did not change. Our own [intents] stand in it beside what the API server shows.
//!
//! Architecture invariant: no client, no clock, no logging, no randomness. There is no gate for the whole: a NodeClaim
//! that is not launched yet is capacity on its way, not a reason to wait.

mod answers;
mod change;
mod expected;
mod index;
pub mod intents;
mod kind;
mod ledger;
pub mod lower;
mod nodes;
pub mod observed;
mod pods;
pub mod raise;
mod tracked;
pub mod validate;

pub use change::{Change, Object};
pub use index::{BufferOutcome, ClassState, Index, OverlayState};
pub use kind::{Key, Kind};
pub use lower::Invalid;
pub use tracked::Tracked;
