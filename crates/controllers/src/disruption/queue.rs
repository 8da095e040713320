//! Executes started commands: waits for the replacements, then removes the nodes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::disruption::{Next, StartedCommand, progress};
use fleetwright_state::{Change, Index, Key, Kind};
use kube::api::{DeleteParams, Preconditions};

use super::{
    commands::{Commands, QUEUE},
    execute, live, report,
};
use crate::runtime::{Controller, Ctx, RateLimit, ReconcileError, Requeue, gone_is_ok};

/// How often a command is checked while nothing changes.
const POLL: Duration = Duration::from_secs(1);

/// Executes each command.
pub(super) struct Queue {
    commands: Arc<Commands>,
}

impl Queue {
    pub(super) fn new(commands: Arc<Commands>) -> Self {
        Self { commands }
    }
}

#[async_trait]
impl Controller for Queue {
    fn name(&self) -> &'static str {
        QUEUE
    }

    fn concurrency(&self, settings: &crate::settings::Settings) -> usize {
        settings.scaled(100, 1000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_secs(1), Duration::from_secs(10), 100, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        if change.kind != Kind::NodeClaim {
            return Vec::new();
        }
        index.intents().replaces(&change.key.name).map(|id| Key::cluster(id.clone())).into_iter().collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(started) = self.commands.get(&key.name) else { return Ok(Requeue::No) };
        if ctx.may_act().is_err() {
            return Ok(Requeue::After(POLL));
        }
        match self.progress(ctx, &started) {
            Next::Done => {
                self.commands.remove(&key.name);
                ctx.index().end_command(&key.name);
                Ok(Requeue::No)
            }
            Next::Wait(replacement) => {
                report::waiting(ctx, &started.command, &replacement);
                Ok(Requeue::After(POLL))
            }
            Next::Abandon(why) => {
                tracing::error!(command = %started.command, reason = %why, "failed to disrupt nodes, rolling back");
                execute::roll_back(ctx, &self.commands, &key.name).await;
                Ok(Requeue::No)
            }
            Next::Remove => {
                live::refresh(ctx, &started.command.candidates).await?;
                // Decided again with the fresh objects; any other answer is for the next round.
                if self.progress(ctx, &started) == Next::Remove {
                    remove(ctx, &started).await?;
                    return Ok(Requeue::After(POLL));
                }
                Ok(Requeue::Now)
            }
        }
    }
}

impl Queue {
    fn progress(&self, ctx: &Ctx, started: &StartedCommand) -> Next {
        let snapshot = ctx.index().snapshot(ctx.now());
        progress(started, &snapshot, ctx.steady(), self.commands.timeout(ctx.settings.disruption.timeout))
    }
}

/// Deletes the NodeClaims of a command. The termination controller drains and terminates them.
async fn remove(ctx: &Ctx, started: &StartedCommand) -> Result<(), ReconcileError> {
    let api = ctx.cluster_api::<fleetwright_api::NodeClaim>();
    report::terminating(ctx, &started.command);
    for candidate in started.displaces() {
        ctx.displaced_pods().record(&candidate.pods, ctx.now());
    }
    for candidate in &started.command.candidates {
        let Some(claim) = &candidate.node.claim else { continue };
        // By UID: a NodeClaim that was created again under the same name is another one.
        let preconditions = Preconditions { uid: Some(claim.uid.to_string()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleted = gone_is_ok(ctx.call("delete nodeclaim", api.delete(&claim.name, &params)).await)?;
        if let Some(either) = deleted
            && let Some(object) = either.left()
        {
            ctx.observe(object);
        }
    }
    Ok(())
}
