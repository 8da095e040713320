//! Shadow mode: decides beside a live Karpenter and compares; changes nothing.
//!
//! [`Shadow`] is built from [`ShadowParts`], which hold a client that cannot write and instance types instead of a cloud: nothing in
//! the process can launch, lease, patch or publish. Watches, index, catalogue and planner are those of the controller.
//!
//! - [`observer`]: collects batches, plans them and follows what Karpenter does.
//! - [`proposer`]: runs disruption passes, whose commands are compared with Karpenter's.
//! - [`journal`]: the last comparisons and the totals, for the report.

mod cloud;
pub(crate) mod families;
mod journal;
mod observer;
mod proposer;
mod recorder;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use fleetwright_core::clock::SharedClock;

pub use self::{
    cloud::InstanceTypeSource,
    journal::{Journal, ShadowRecord, Totals},
};
use self::{cloud::NoCloud, observer::Observer, proposer::Proposer, recorder::Recorder};
use crate::{
    metrics::Metrics,
    provisioning::CatalogController,
    runtime::{
        Ctx, CtxParts, Leadership, Offload, Passive, ReadOnlyClient, RunError, Shared, Shutdown, Stuck,
        may_act, run,
    },
    settings::Settings,
};

/// What a [`Shadow`] is made of.
pub struct ShadowParts {
    /// Host and port of the API server, for metrics.
    pub api_server: String,
    /// The client, which cannot write.
    pub client: ReadOnlyClient,
    /// The clock.
    pub clock: SharedClock,
    /// The instance types, and the kinds of NodeClass.
    pub instance_types: Arc<dyn InstanceTypeSource>,
    /// The settings of the Karpenter beside it.
    pub settings: Settings,
    /// Where the solver runs.
    pub offload: Offload,
}

/// A controller that decides and compares. Clones share one.
#[derive(Clone)]
pub struct Shadow {
    ctx: Ctx,
    journal: Shared<Journal>,
}

impl Shadow {
    /// A shadow that has observed nothing yet.
    #[must_use]
    pub fn new(parts: ShadowParts) -> Self {
        let ShadowParts { api_server, client, clock, instance_types, settings, offload } = parts;
        let journal = Shared::new(Journal::new(clock.now()));
        let ctx = Ctx::new(CtxParts {
            api_server,
            client: client.client(),
            clock,
            cloud: Arc::new(NoCloud(instance_types)),
            settings,
            seed: 0,
            offload,
            cluster_uid: String::new(),
            // There is no lease: neither the client nor the cloud can change anything.
            leadership: Leadership::without_election(),
        });
        Self { ctx, journal }
    }

    /// Observes until shutdown.
    ///
    /// # Errors
    /// If a loop ends without a shutdown.
    pub async fn run(self, stop: Shutdown) -> Result<(), RunError> {
        let (recorder, disruptions) = (Recorder::new(&self.ctx, self.journal.clone()), Shared::default());
        let observer = Observer::new(&self.ctx, recorder.clone(), disruptions.clone());
        let proposer = Proposer::new(&self.ctx, recorder, disruptions);
        let catalog = CatalogController::new(&self.ctx);
        run(self.ctx.clone(), vec![Arc::new(catalog), Arc::new(observer), Arc::new(proposer)], stop).await
    }

    /// The comparisons.
    #[must_use]
    pub fn journal(&self) -> &Shared<Journal> {
        &self.journal
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.ctx.metrics
    }

    /// Whether all loops are alive.
    ///
    /// # Errors
    /// The loops that are stuck.
    pub fn alive(&self) -> Result<(), Stuck> {
        self.ctx.alive()
    }

    /// Whether every watch is fresh.
    ///
    /// # Errors
    /// What is not.
    pub fn ready(&self) -> Result<(), Passive> {
        may_act(&self.ctx.cluster.index(), self.ctx.clocks.steady())
    }
}
