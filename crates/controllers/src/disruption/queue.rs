//! Executes started commands: waits for the replacements, then removes the nodes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::disruption::{DisplacedPods, Next, StartedCommand, progress};
use fleetwright_state::{Change, Index, Key, WatchedKind};
use kube::api::{DeleteParams, Preconditions};

use super::{
    commands::{Commands, QUEUE},
    execute::Execution,
    live,
    report::Reporter,
};
use crate::{
    runtime::decisions::Decisions,
    runtime::{
        ApiClient, Clocks, Cluster, Controller, Ctx, Gate, RateLimit, ReconcileError, Requeue, Shared,
        ignore_not_found,
    },
    settings::Settings,
};

/// How often a command is checked while nothing changes.
const POLL: Duration = Duration::from_secs(1);

/// Executes each command.
pub(super) struct Queue {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    settings: Arc<Settings>,
    gate: Gate,
    execution: Execution,
    reporter: Reporter,
    decisions: Decisions,
    displaced: Shared<DisplacedPods>,
    commands: Arc<Commands>,
}

impl Queue {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx, commands: Arc<Commands>) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            settings: ctx.settings.clone(),
            gate: ctx.gate.clone(),
            execution: Execution::new(ctx, commands.clone()),
            reporter: Reporter::new(ctx),
            decisions: ctx.decisions.clone(),
            displaced: ctx.displaced.clone(),
            commands,
        }
    }
}

#[async_trait]
impl Controller for Queue {
    fn name(&self) -> &'static str {
        QUEUE
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(100, 1000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_secs(1), Duration::from_secs(10), 100, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        if change.kind != WatchedKind::NodeClaim {
            return Vec::new();
        }
        index.intents().replaces(&change.key.name).map(|id| Key::cluster(id.clone())).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(started) = self.commands.get(&key.name) else { return Ok(Requeue::No) };
        if self.gate.may_act().is_err() {
            return Ok(Requeue::After(POLL));
        }
        match self.progress(&started) {
            Next::Done => {
                self.reporter.done(&started);
                self.commands.remove(&key.name);
                self.decisions.command_ended(&key.name, None);
                self.cluster.index().end_command(&key.name);
                Ok(Requeue::No)
            }
            Next::Wait(replacement) => {
                let decision = self.decisions.of_started(&key.name);
                self.reporter.waiting(&started.command, &replacement, decision.as_deref());
                Ok(Requeue::After(POLL))
            }
            Next::Abandon(why) => {
                let command = started.command.text(self.settings.currency);
                tracing::error!(command, reason = %why, "failed to disrupt nodes, rolling back");
                self.execution.roll_back(&key.name, &why.to_string()).await;
                Ok(Requeue::No)
            }
            Next::Remove => {
                live::refresh(&self.client, &self.cluster, &started.command.candidates).await?;
                // Decides again on the objects that were read; any other result is for the next reconcile.
                if self.progress(&started) == Next::Remove {
                    self.remove(&key.name, &started).await?;
                    return Ok(Requeue::After(POLL));
                }
                Ok(Requeue::Now)
            }
        }
    }
}

impl Queue {
    fn progress(&self, started: &StartedCommand) -> Next {
        let snapshot = self.cluster.index().snapshot(self.clocks.now());
        progress(
            started,
            &snapshot,
            self.clocks.steady(),
            self.commands.timeout(self.settings.disruption.timeout),
        )
    }
}

impl Queue {
    /// Deletes the NodeClaims of a command. The termination controller drains and terminates them.
    async fn remove(&self, id: &str, started: &StartedCommand) -> Result<(), ReconcileError> {
        let api = self.client.cluster::<fleetwright_api::NodeClaim>();
        self.reporter.terminating(&started.command, self.decisions.of_started(id).as_deref());
        for candidate in started.displaces() {
            self.displaced.lock().record(&candidate.pods, self.clocks.now());
        }
        for candidate in &started.command.candidates {
            let Some(claim) = &candidate.node.claim else { continue };
            // By UID: a later NodeClaim with the same name is another one.
            let preconditions = Preconditions { uid: Some(claim.uid.to_string()), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let deleted = ignore_not_found(
                self.client.call("delete nodeclaim", api.delete(&claim.name, &params)).await,
            )?;
            if let Some(either) = deleted
                && let Some(object) = either.left()
            {
                self.cluster.observe(object);
            }
        }
        Ok(())
    }
}
