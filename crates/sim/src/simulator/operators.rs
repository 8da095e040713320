//! The operators of a simulator: each is a process that can be killed, cut off from the API server, and given a wrong clock.
//!
//! One operator runs without leader election, several elect a leader as in production. An operator that exits because it lost the lease
//! is restarted, as by its Deployment.

use std::{sync::Arc, time::Duration};

use fleetwright_controllers::runtime::{Ctx, CtxParts, Election, Leadership, Offload, Trigger, shutdown};
use fleetwright_core::{clock::SharedClock, cloud::Identity};
use http::HeaderValue;
use jiff::SignedDuration;
use tokio::task::AbortHandle;

use super::{
    Simulator, SimulatorError,
    link::{Cut, Link},
    mirror,
    skew::SkewedClock,
};
use crate::clock::TokioClock;

/// Karpenter's name of the lease.
const LEASE: &str = "karpenter-leader-election";
/// Where it is.
const NAMESPACE: &str = "kube-system";
/// How long the Deployment takes to restart an operator that exited.
const RESTART: Duration = Duration::from_secs(3);

/// One operator: its instance, and the process on it.
pub(super) struct Operator {
    number: usize,
    clock: SkewedClock,
    cut: Cut,
    /// When the process is started next.
    due: Option<Duration>,
    process: Option<Process>,
    /// Why it exits at startup: the cloud belongs to another cluster.
    refused: Option<String>,
}

struct Process {
    ctx: Ctx,
    /// Stops the controllers when dropped.
    _trigger: Trigger,
    task: AbortHandle,
}

impl Operator {
    pub(super) fn new(number: usize, clock: TokioClock) -> Self {
        Self {
            number,
            clock: SkewedClock::new(clock),
            cut: Cut::default(),
            due: Some(Duration::ZERO),
            process: None,
            refused: None,
        }
    }

    /// The shared state of its controllers, while they run.
    pub(super) fn ctx(&self) -> Option<&Ctx> {
        self.process.as_ref().map(|process| &process.ctx)
    }
}

impl Simulator {
    /// Starts every operator that is due, and schedules the restart of those that exited.
    ///
    /// # Errors
    /// If the cloud cannot be used.
    pub async fn start_due(&mut self) -> Result<(), SimulatorError> {
        let now = self.elapsed();
        for at in 0..self.operators.len() {
            let operator = &mut self.operators[at];
            if operator.process.as_ref().is_some_and(|process| process.task.is_finished()) {
                operator.process = None;
                operator.due = Some(now.saturating_add(RESTART));
            }
            if operator.process.is_none() && operator.due.is_some_and(|due| due <= now) {
                self.start(at).await?;
            }
        }
        Ok(())
    }

    /// Kills an operator at any await; [`Simulator::start_due`] restarts it `after` a while.
    pub fn kill(&mut self, operator: usize, after: Duration) {
        let due = self.elapsed().saturating_add(after);
        let Some(operator) = self.operators.get_mut(operator) else { return };
        if let Some(process) = operator.process.take() {
            process.task.abort();
        }
        operator.due = Some(due);
    }

    /// Cuts an operator off from the API server: its requests fail at the end, and until then it receives nothing.
    pub fn cut_off(&self, operator: usize, duration: Duration) {
        if let Some(operator) = self.operators.get(operator) {
            operator.cut.cut(duration);
        }
    }

    /// Makes the clock of an operator wrong by this amount.
    pub fn skew(&self, operator: usize, off: SignedDuration) {
        if let Some(operator) = self.operators.get(operator) {
            operator.clock.set(off);
        }
    }

    /// Why an operator exits at startup; `None` if it runs.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.operators.iter().find_map(|operator| operator.refused.as_deref())
    }

    /// The number of operators.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.operators.len()
    }

    async fn start(&mut self, at: usize) -> Result<(), SimulatorError> {
        // Another process generates other names.
        let seed = self.config.seed.wrapping_add(self.starts.wrapping_mul(0x9e37_79b9));
        self.starts = self.starts.saturating_add(1);
        let operator = &self.operators[at];
        let agent = format!("operator-{}/{}", operator.number, self.starts);
        let link = Link {
            server: self.server.clone(),
            agent: HeaderValue::from_str(&agent).unwrap_or(HeaderValue::from_static("operator")),
            cut: operator.cut.clone(),
            distort: self.config.distort.clone(),
        };
        let client = kube::Client::new(link, "default");
        let clock: SharedClock = Arc::new(operator.clock.clone());
        let mut parts = match self.parts(client.clone(), clock, seed).await? {
            Ok(parts) => parts,
            Err(mismatch) => {
                let due = self.elapsed().saturating_add(RESTART);
                let operator = &mut self.operators[at];
                (operator.due, operator.refused) = (Some(due), Some(mismatch));
                return Ok(());
            }
        };
        let (trigger, stop) = shutdown();
        let clock = parts.clock.clone();
        let mut campaign = None;
        if self.operators.len() > 1 {
            let leadership = Leadership::candidate();
            parts.leadership = leadership.clone();
            let (namespace, name) = (NAMESPACE.to_owned(), LEASE.to_owned());
            campaign = Some((Election { namespace, name, identity: agent }, leadership));
        }
        let ctx = Ctx::new(parts);
        let context = ctx.clone();
        let task = self.tasks.spawn(async move {
            let resign = stop.clone();
            let controllers = fleetwright_controllers::all::run(context, stop);
            let Some((election, leadership)) = campaign else {
                if let Err(error) = controllers.await {
                    tracing::error!(%error, "the controllers ended");
                }
                return;
            };
            tokio::select! {
                biased;
                _ = controllers => {}
                // Another replica may be active already: this process exits at once.
                _ = election.campaign(client, clock, &leadership, resign, |_| {}) => {}
            }
        });
        let operator = &mut self.operators[at];
        (operator.due, operator.refused) = (None, None);
        operator.process = Some(Process { ctx, _trigger: trigger, task });
        Ok(())
    }

    /// The parts of an operator, or why it exits at startup: the cloud belongs to another cluster.
    async fn parts(
        &self,
        client: kube::Client,
        clock: SharedClock,
        seed: u64,
    ) -> Result<Result<CtxParts, String>, SimulatorError> {
        let cluster_uid = mirror::cluster_uid(&self.server);
        let unusable = |error: &dyn std::fmt::Display| SimulatorError::Cloud(error.to_string());
        let provider = self.simulated.provider(clock.clone()).await.map_err(|error| unusable(&error))?;
        let identity = provider.identify(&cluster_uid).await.map_err(|error| unusable(&error))?;
        if let Identity::Mismatch(why) = identity {
            return Ok(Err(why.to_string()));
        }
        let cloud = match &self.config.wrap {
            Some(wrap) => wrap(provider, &self.cloud),
            None => provider,
        };
        let (settings, leadership) = (self.config.settings.clone(), Leadership::without_election());
        let offload = Offload::Inline;
        let api_server = "kubernetes".to_owned();
        Ok(Ok(CtxParts {
            api_server,
            client,
            clock,
            cloud,
            settings,
            seed,
            offload,
            cluster_uid,
            leadership,
        }))
    }
}
