//! From pending pods to NodeClaims.
//!
//! [`trigger`] hears of pods that wait and fills the [`batch`]; when the batch is due, [`provisioner`] takes a snapshot,
//! lets the core decide, and carries the plan out: [`create`] writes NodeClaims within [`limits`], [`tell`] says to people what
//! becomes of each pod and of each capacity buffer ([`buffers`]). [`catalog`] keeps the instance types of each pool current.

pub(crate) mod answers;
pub mod batch;
mod buffers;
pub mod catalog;
mod create;
pub mod eligible;
mod limits;
pub mod provisioner;
mod tell;
pub mod trigger;
mod zones;

pub use catalog::CatalogController;
pub(crate) use create::{replacement, write_replacement};
pub(crate) use limits::{LimitExceeded, reserve};
pub(crate) use provisioner::NAME as PROVISIONER;
pub use provisioner::Provisioner;
pub use trigger::{Inbox, NodeTrigger, PodTrigger};

use std::sync::Arc;

use crate::{runtime::Controller, settings::Settings};

/// The controllers of provisioning.
#[must_use]
pub fn controllers(settings: &Settings) -> Vec<Arc<dyn Controller>> {
    let inbox = Inbox::new(settings);
    vec![
        Arc::new(CatalogController),
        Arc::new(PodTrigger(inbox.clone())),
        Arc::new(NodeTrigger(inbox.clone())),
        Arc::new(Provisioner::new(inbox)),
    ]
}
