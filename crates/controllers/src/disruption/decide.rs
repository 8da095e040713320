//! The loop that looks for machines that should go.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::disruption::{Command, METHODS, Method, method, propose_with, still_allowed, validate};
use fleetwright_state::Key;

use super::{Commands, IDLE, VALIDATION_DELAY, execute, figures, live, orphans, report, rules};
use crate::{
    events::{Event, regarding},
    runtime::{Controller, Ctx, ReconcileError, Requeue, may_act},
    settings::Settings,
};

/// The methods that the settings allow.
fn methods(settings: &Settings) -> Vec<&'static dyn Method> {
    let allowed =
        |method: &&'static dyn Method| settings.gates.static_capacity || method.name() != "static-drift";
    METHODS.into_iter().filter(allowed).collect()
}

/// Looks, decides, waits, looks again, and starts what still holds.
pub(super) struct Disruption {
    commands: Arc<Commands>,
}

impl Disruption {
    pub(super) fn new(commands: Arc<Commands>) -> Self {
        Self { commands }
    }
}

#[async_trait]
impl Controller for Disruption {
    fn name(&self) -> &'static str {
        "disruption"
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, ctx: &Ctx, _: &Key) -> Result<Requeue, ReconcileError> {
        let now = ctx.now();
        if may_act(&ctx.index(), now).is_err() {
            return Ok(Requeue::After(std::time::Duration::from_secs(1)));
        }
        let snapshot = ctx.index().snapshot(now);
        orphans::unmark(ctx, &self.commands, &snapshot.nodes).await?;
        let rules = rules(&ctx.settings);
        let began = ctx.now();
        let methods = methods(&ctx.settings);
        let proposal = ctx.offload(move || propose_with(&snapshot, &rules, now, &methods)).await?;
        report::proposal(ctx, &proposal);
        if let Some(command) = proposal.commands.first() {
            let labels = [report::reason_label(command.reason), command.consolidation_type];
            let took = ctx.now().duration_since(began).as_secs_f64();
            ctx.metrics.observe(&figures::EVALUATION, &labels, took);
        }
        let started = self.carry_out(ctx, proposal.commands).await?;
        Ok(if started { Requeue::Now } else { Requeue::After(IDLE) })
    }
}

impl Disruption {
    /// Starts the commands of a pass that still hold, in order. Returns whether there was any.
    ///
    /// Each is looked at again right before it starts, on what the earlier ones left behind.
    async fn carry_out(&self, ctx: &Ctx, commands: Vec<Command>) -> Result<bool, ReconcileError> {
        let Some(method) = commands.first().and_then(|first| method(first.method)) else { return Ok(false) };
        if method.is_validated() {
            for command in &commands {
                report::on_machines(ctx, command, "ConsolidationCandidate", &command.to_string());
            }
            ctx.clock.sleep(VALIDATION_DELAY).await;
            for command in &commands {
                live::refresh(ctx, &command.candidates).await?;
            }
        }
        let mut started = false;
        for command in commands {
            if let Some(command) = self.confirm(ctx, command, method.is_validated()).await? {
                execute::start(ctx, &self.commands, command).await?;
                started = true;
            }
        }
        Ok(started)
    }

    /// The command as it may be carried out now; `None` where it may not.
    async fn confirm(
        &self,
        ctx: &Ctx,
        command: Command,
        simulate: bool,
    ) -> Result<Option<Command>, ReconcileError> {
        let now = ctx.now();
        if may_act(&ctx.index(), now).is_err() {
            return Ok(None);
        }
        let snapshot = ctx.index().snapshot(now);
        let rules = rules(&ctx.settings);
        let decided = command.clone();
        let judge = move || match simulate {
            true => validate(&decided, &snapshot, &rules, now),
            false => still_allowed(&decided, &snapshot, &rules, now).map(|()| decided),
        };
        match ctx.offload(judge).await? {
            Ok(confirmed) => Ok(Some(confirmed)),
            Err(rejected) => {
                ctx.metrics.inc(&figures::FAILED_VALIDATIONS, &[command.consolidation_type]);
                tracing::debug!(reason = rejected.as_str(), command = %command, "abandoning disruption attempt");
                self.tell_rejected(ctx, &command, rejected.as_str());
                Ok(None)
            }
        }
    }

    fn tell_rejected(&self, ctx: &Ctx, command: &Command, why: &str) {
        for candidate in &command.candidates {
            let claim = candidate.node.claim_name().and_then(|name| ctx.index().claim(name).cloned());
            if let Some(claim) = claim {
                let text = format!("{command} does not hold any more ({why})");
                ctx.recorder.publish(Event::normal(regarding(&*claim), "ConsolidationRejected", text));
            }
        }
    }
}
