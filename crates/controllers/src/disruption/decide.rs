//! The loop that looks for machines that should go.

use std::{cell::RefCell, sync::Arc};

use async_trait::async_trait;
use fleetwright_core::disruption::{Command, METHODS, propose_by, validate_by};
use fleetwright_state::Key;

use super::{Commands, IDLE, VALIDATION_DELAY, execute, figures, orphans, report, rules};
use crate::{
    events::{Event, regarding},
    runtime::{Controller, Ctx, ReconcileError, Requeue, may_act},
};

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
        let solvers = Arc::clone(&ctx.solvers);
        let work = move || {
            let solver = RefCell::new(solvers.on(&snapshot, &rules.scheduling));
            let proposal = propose_by(&solver, &rules, now, &METHODS);
            solvers.keep(solver.into_inner());
            proposal
        };
        let proposal = ctx.offload(work).await?;
        report::proposal(ctx, &proposal);
        if let Some(command) = proposal.commands.first() {
            let labels = [report::reason_label(command.reason), command.consolidation_type];
            let took = ctx.now().duration_since(began).as_secs_f64();
            ctx.metrics.observe(&figures::EVALUATION, &labels, took);
        }
        let mut started = false;
        for command in proposal.commands {
            if let Some(command) = self.confirm(ctx, command).await? {
                execute::start(ctx, &self.commands, command).await?;
                started = true;
            }
        }
        Ok(if started { Requeue::Now } else { Requeue::After(IDLE) })
    }
}

impl Disruption {
    /// The command as it may be carried out after the delay; `None` where it may not.
    async fn confirm(&self, ctx: &Ctx, command: Command) -> Result<Option<Command>, ReconcileError> {
        let waits = METHODS.iter().any(|method| method.name() == command.method && method.is_validated());
        if !waits {
            return Ok(Some(command));
        }
        report::on_machines(ctx, &command, "ConsolidationCandidate", &command.to_string());
        ctx.clock.sleep(VALIDATION_DELAY).await;
        let now = ctx.now();
        if may_act(&ctx.index(), now).is_err() {
            return Ok(None);
        }
        let snapshot = ctx.index().snapshot(now);
        let rules = rules(&ctx.settings);
        let decided = command.clone();
        let solvers = Arc::clone(&ctx.solvers);
        let work = move || {
            let solver = RefCell::new(solvers.on(&snapshot, &rules.scheduling));
            let verdict = validate_by(&decided, &solver, &rules, now);
            solvers.keep(solver.into_inner());
            verdict
        };
        match ctx.offload(work).await? {
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
