//! From pending pods to NodeClaims.
//!
//! [`trigger`] hears of pods that wait and fills the [`batch`]; when the batch is due, [`provisioner`] takes a snapshot,
//! lets the core decide, and carries the plan out: [`create`] writes NodeClaims, [`tell`] says to people what
//! becomes of each pod. [`catalog`] keeps the instance types of each pool current.

pub mod batch;
pub mod catalog;
mod create;
mod eligible;
pub mod provisioner;
mod tell;
pub mod trigger;

pub use catalog::CatalogController;
pub(crate) use create::{replacement, write_replacement};
pub use provisioner::Provisioner;
pub use trigger::{Inbox, NodeTrigger, PodTrigger};
