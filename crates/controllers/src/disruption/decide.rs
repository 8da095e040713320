//! The controller that decides which nodes to disrupt.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::disruption::{
    Agenda, Command, PassMemory, PassStart, SimulationSolver, method, propose_after, statuses, still_allowed,
    validate_on,
};
use fleetwright_core::model::DisruptionReason;
use fleetwright_state::Key;
use jiff::Timestamp;

use super::{
    commands::Commands,
    drift_caps, durable,
    execute::{self, NotStarted},
    figures, live, orphans, report,
    settings::{methods, rules_now},
    status,
};
use crate::{
    events::{Event, regarding},
    runtime::{Controller, Ctx, ReconcileError, Requeue, later},
};

/// Runs passes: decides, waits out the validation delay, validates, and starts the commands that still hold.
pub(super) struct Disruption {
    commands: Arc<Commands>,
    /// When the first pass ran and took over the commands of an earlier process, in steady time.
    began: OnceLock<Timestamp>,
    /// When the conditions were last updated, or the first pass ran, in steady time.
    reported_at: Mutex<Option<Timestamp>>,
    conditions: status::Conditions,
    memory: Mutex<PassMemory>,
}

impl Disruption {
    pub(super) fn new(commands: Arc<Commands>) -> Self {
        Self {
            commands,
            began: OnceLock::new(),
            reported_at: Mutex::default(),
            conditions: status::Conditions::default(),
            memory: Mutex::default(),
        }
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
        let (now, steady) = (ctx.now(), ctx.steady());
        if ctx.may_act().is_err() {
            return Ok(Requeue::After(Duration::from_secs(1)));
        }
        let began = *self.began.get_or_init(|| {
            durable::restore(ctx, &self.commands);
            steady
        });
        let snapshot = ctx.index().snapshot(now);
        orphans::unmark(ctx, &self.commands, &snapshot.nodes).await?;
        if let Some(rest) = ctx.wall_clock_rest() {
            // Budget schedules, `consolidateAfter` and ages of conditions use the wall clock.
            return Ok(Requeue::After(rest));
        }
        let rules = rules_now(ctx);
        let (started_at, epoch, reports) = (ctx.now(), snapshot.epoch, self.is_report_due(steady));
        let start = PassStart::new(epoch, steady, began, reports);
        let Agenda { methods, recall, consolidates } = self.memory().agenda(start, methods(&ctx.settings));
        let solvers = Arc::clone(&ctx.solvers);
        let decide = move || {
            let prepared = solvers.on(&snapshot, &rules.scheduling);
            let mut solver = SimulationSolver::ready(&snapshot, &rules.scheduling, prepared);
            let proposal = propose_after(&mut solver, &rules, now, &methods, recall);
            solvers.keep(solver.into_prepared());
            let all = reports.then(|| statuses(&snapshot, &rules, now, &methods, &proposal));
            (proposal, all.unwrap_or_default())
        };
        let (proposal, statuses) = ctx.offload(decide).await?;
        if consolidates {
            self.memory().record(epoch, steady, &proposal);
        }
        report::proposal(ctx, &proposal);
        if let Err(error) = drift_caps::write(ctx, &proposal.drift_caps).await {
            tracing::warn!(%error, "failed to update DriftWithinCap conditions of NodePools");
        }
        if let Some(command) = proposal.commands.first() {
            let labels = [report::reason_label(command.method.reason), command.method.consolidation_type];
            let took = ctx.now().duration_since(started_at).as_secs_f64();
            ctx.metrics.observe(&figures::EVALUATION, &labels, took);
        }
        let scope = status::Scope::of(&proposal);
        let started = self.start_all(ctx, proposal.commands).await;
        // A failed write of a condition does not delay commands.
        if reports && let Err(error) = self.conditions.write(ctx, &statuses, &scope).await {
            tracing::warn!(%error, "failed to update DisruptionBlocked conditions of NodeClaims");
        }
        let started = started?;
        Ok(if started { Requeue::Now } else { Requeue::After(ctx.settings.disruption.period) })
    }
}

impl Disruption {
    fn memory(&self) -> MutexGuard<'_, PassMemory> {
        // Every change is one statement: a panic cannot leave half of one behind.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the conditions of all NodeClaims are due for an update; records that. Not at the start: facts that are not
    /// known yet would look like blockers, and be written on every node and removed again.
    fn is_report_due(&self, now: Timestamp) -> bool {
        let mut reported = self.reported_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = later(*reported.get_or_insert(now), status::INTERVAL) <= now;
        if due {
            *reported = Some(now);
        }
        due
    }

    /// Starts the commands of a pass that still hold, in order. Returns whether any started.
    ///
    /// Each is checked again right before it starts, on the cluster that the earlier ones leave behind.
    async fn start_all(&self, ctx: &Ctx, commands: Vec<Command>) -> Result<bool, ReconcileError> {
        let Some(method) = commands.first().and_then(|first| method(first.method.name)) else {
            return Ok(false);
        };
        if method.spec().validated {
            for command in &commands {
                report::on_nodes(ctx, command, "ConsolidationCandidate", &command.to_string());
                report::approved(ctx, command);
            }
            ctx.clock.sleep(ctx.settings.disruption.validation_delay).await;
            for command in &commands {
                live::refresh(ctx, &command.candidates).await?;
            }
        }
        let mut started = false;
        for command in commands {
            let Some(command) = self.confirm(ctx, command, method.spec().validated).await? else { continue };
            match execute::start(ctx, &self.commands, command.clone()).await {
                Ok(()) => started = true,
                Err(NotStarted::Limit(exceeded)) => self.reject(ctx, &command, &exceeded.to_string()),
                Err(held @ NotStarted::Held(_)) => tracing::warn!(%command, "{held}"),
                Err(NotStarted::Failed(error)) => return Err(error),
            }
        }
        Ok(started)
    }

    /// The command as it may start now; `None` where it may not.
    async fn confirm(
        &self,
        ctx: &Ctx,
        command: Command,
        simulate: bool,
    ) -> Result<Option<Command>, ReconcileError> {
        let now = ctx.now();
        if ctx.may_act().is_err() || ctx.wall_clock_rest().is_some() {
            return Ok(None);
        }
        let snapshot = ctx.index().snapshot(now);
        let rules = rules_now(ctx);
        let decided = command.clone();
        let solvers = Arc::clone(&ctx.solvers);
        let judge = move || {
            if !simulate {
                return still_allowed(&decided, &snapshot, &rules, now).map(|()| decided);
            }
            let prepared = solvers.on(&snapshot, &rules.scheduling);
            let mut solver = SimulationSolver::ready(&snapshot, &rules.scheduling, prepared);
            let confirmed = validate_on(&decided, &mut solver, &rules, now);
            solvers.keep(solver.into_prepared());
            confirmed
        };
        match ctx.offload(judge).await? {
            Ok(confirmed) => Ok(Some(confirmed)),
            Err(rejected) => {
                self.reject(ctx, &command, rejected.as_str());
                Ok(None)
            }
        }
    }

    /// Publishes that a command no longer holds, and why. A command of consolidation is rejected; drift is blocked.
    pub(super) fn reject(&self, ctx: &Ctx, command: &Command, why: &str) {
        let drifted = command.method.reason == DisruptionReason::Drifted;
        if !drifted {
            ctx.metrics.inc(&figures::FAILED_VALIDATIONS, &[command.method.consolidation_type]);
        }
        let reason = if drifted { "DisruptionBlocked" } else { "ConsolidationRejected" };
        tracing::debug!(why, command = %command, "abandoning disruption attempt");
        for candidate in &command.candidates {
            let claim = candidate.node.claim_name().and_then(|name| ctx.index().claim(name).cloned());
            if let Some(claim) = claim {
                let text = format!("{command} no longer holds ({why})");
                ctx.recorder.publish(Event::normal(regarding(&*claim), reason, text));
            }
        }
    }
}
