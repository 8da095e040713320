//! Kubernetes objects become the immutable [`fleetwright_core::model::Snapshot`] that decisions read.
//!
//! [`Index`] is synchronous. [`Index::apply`] takes in an object, whether from a watch or from the response to our own
//! write; [`Index::snapshot`] returns a view that shares all parts that did not change. The index is composed of
//!
//! - [`objects`]: what the API server shows, as read and lowered ([`lower`]);
//! - [`intents`]: what the controller decided and the API server does not show yet, with the nomination of each pod;
//! - `catalogs`: the instance types of each NodePool;
//! - `buffers`: the virtual pods of CapacityBuffers.
//!
//! [`fields`] lists what decisions read, for files that hold nothing else. [`limits`] admits creations against the index, and [`raise`] makes Kubernetes objects from plans.
//!
//! Architecture invariant: no client, no clock, no logging, no randomness. There is no global sync gate: a NodeClaim that is not launched
//! yet is in-flight capacity, not a reason to wait.

mod buffers;
mod catalogs;
mod change;
mod expected;
mod feature;
pub mod fields;
mod index;
pub mod intents;
mod kind;
pub mod launch_loops;
pub mod limits;
pub mod lower;
pub mod objects;
pub mod observed;
pub mod raise;
mod tracked;
pub mod validate;
mod watches;

pub use buffers::BufferOutcome;
pub use catalogs::OverlayOutcome;
pub use change::{Change, Object};
pub use feature::{Feature, Refusal, RefusalCause};
pub use index::Index;
pub use kind::{Key, WatchedKind};
pub use lower::Invalid;
pub use objects::{NodeClassStatus, Objects};
pub use tracked::Tracked;
