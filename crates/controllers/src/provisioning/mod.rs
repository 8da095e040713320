//! From pending pods to NodeClaims.
//!
//! 1. [`trigger`] adds pending pods to the [`batch`].
//! 2. When the batch is due, [`provisioner`] takes a snapshot and calls `core` for a plan.
//! 3. [`crate::nodeclaim::nominations`] releases pods from NodeClaims that cannot run them.
//! 4. [`launch_loops`] holds demands whose pods did not run on the nodes that were launched for them.
//! 5. [`create`] creates the NodeClaims of the plan, within the limits of the NodePools.
//! 6. [`pod_events`] publishes an event for each pod; [`buffers`] records the outcome for each CapacityBuffer.
//!
//! [`catalog`] keeps the instance types of each NodePool current.

pub mod batch;
mod buffers;
pub mod catalog;
mod create;
pub mod eligible;
mod inbox;
mod launch_loops;
pub(crate) mod names;
mod pod_events;
pub mod provisioner;
pub mod trigger;
mod zones;

pub use catalog::CatalogController;
pub(crate) use create::{ClaimCreator, CreationCause, Replacement};
pub use inbox::Inbox;
pub use provisioner::Provisioner;
pub use trigger::{NodeTrigger, PodTrigger};

use std::sync::Arc;

use crate::runtime::{Controller, Ctx};

/// The controllers of provisioning.
#[must_use]
pub fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let inbox = Inbox::new(&ctx.settings);
    vec![
        Arc::new(CatalogController::new(ctx)),
        Arc::new(PodTrigger::new(ctx, inbox.clone())),
        Arc::new(NodeTrigger::new(ctx, inbox.clone())),
        Arc::new(Provisioner::new(ctx, inbox)),
    ]
}
