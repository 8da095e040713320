//! The loop that looks for nodes that should go.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::disruption::{
    Bench, Command, METHODS, Method, Proposal, Recall, method, propose_after, standings, still_allowed,
    validate_on,
};
use fleetwright_core::model::DisruptionReason;
use fleetwright_state::Key;
use jiff::Timestamp;

use super::{
    Commands, brakes, durable,
    execute::{self, NotStarted},
    figures, live, orphans, report, rules_now, standing,
};
use crate::{
    events::{Event, regarding},
    runtime::{Controller, Ctx, ReconcileError, Requeue, later},
    settings::Settings,
};

/// For so long consolidation rests on a cluster in which nothing changes; some things change with time alone.
const QUIET: Duration = Duration::from_secs(300);

/// For so long after its first pass a process leaves out drift, which is not looked at twice before it is acted on: what an
/// earlier process wrote of it has to be looked at again, by the controller of each NodeClaim.
const DRIFT_SETTLES: Duration = Duration::from_secs(10);

/// The methods that the settings allow.
#[must_use]
pub fn methods(settings: &Settings) -> Vec<&'static dyn Method> {
    let allowed =
        |method: &&'static dyn Method| settings.gates.static_capacity || method.name() != "static-drift";
    METHODS.into_iter().filter(allowed).collect()
}

/// Looks, decides, waits, looks again, and starts what still holds.
pub(super) struct Disruption {
    commands: Arc<Commands>,
    /// When the first pass was, in steady time, and with it commands of an earlier process were taken over.
    restored: OnceLock<Timestamp>,
    /// When conditions were last brought up to date, or the first pass was, in steady time.
    told_at: Mutex<Option<Timestamp>>,
    /// What they say.
    told: standing::Told,
    memory: Mutex<Memory>,
}

/// What one pass leaves for the next.
#[derive(Debug, Default)]
struct Memory {
    /// What was not reached, and what was tried in vain.
    recall: Recall,
    /// The epoch of a cluster in which consolidation finds nothing, though no budget holds it back, and when that was seen, in
    /// steady time.
    quiet: Option<(u64, Timestamp)>,
}

impl Memory {
    /// Whether consolidation has nothing to look at: nothing changed since it last found nothing.
    fn is_quiet(&self, epoch: u64, now: Timestamp) -> bool {
        self.quiet.is_some_and(|(known, at)| known == epoch && now < later(at, QUIET))
    }

    /// Takes note of a pass in which every method was asked.
    fn note(&mut self, epoch: u64, now: Timestamp, proposal: &Proposal) {
        self.recall = proposal.recall();
        let nothing = proposal.commands.is_empty() && proposal.unreached.is_empty() && !proposal.constrained;
        self.quiet = nothing.then_some((epoch, now));
    }
}

impl Disruption {
    pub(super) fn new(commands: Arc<Commands>) -> Self {
        Self {
            commands,
            restored: OnceLock::new(),
            told_at: Mutex::default(),
            told: standing::Told::default(),
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
        let restored = *self.restored.get_or_init(|| {
            durable::restore(ctx, &self.commands);
            steady
        });
        let snapshot = ctx.index().snapshot(now);
        orphans::unmark(ctx, &self.commands, &snapshot.nodes).await?;
        if let Some(rest) = ctx.wall_clock_rest() {
            // Schedules of budgets, `consolidateAfter` and ages of conditions go by the wall clock.
            return Ok(Requeue::After(rest));
        }
        let rules = rules_now(ctx);
        let began = ctx.now();
        let tells = self.is_due(steady);
        let (mut methods, recall, rests) = self.agenda(ctx, snapshot.epoch, steady, tells);
        if steady < later(restored, DRIFT_SETTLES) {
            methods.retain(|method| method.reason() != DisruptionReason::Drifted);
        }
        let epoch = snapshot.epoch;
        let solvers = Arc::clone(&ctx.solvers);
        let decide = move || {
            let bench = Bench::ready(&snapshot, &rules.scheduling, solvers.on(&snapshot, &rules.scheduling));
            let (proposal, bench) = propose_after(bench, &rules, now, &methods, recall);
            solvers.keep(bench.into_solver());
            let all = tells.then(|| standings(&snapshot, &rules, now, &methods, &proposal));
            (proposal, all.unwrap_or_default())
        };
        let (proposal, standings) = ctx.offload(decide).await?;
        if !rests {
            self.memory.lock().unwrap_or_else(PoisonError::into_inner).note(epoch, steady, &proposal);
        }
        report::proposal(ctx, &proposal);
        if let Err(error) = brakes::write(ctx, &proposal.brakes).await {
            tracing::warn!(%error, "cannot say on NodePools that their drift cap is reached");
        }
        if let Some(command) = proposal.commands.first() {
            let labels = [report::reason_label(command.reason), command.consolidation_type];
            let took = ctx.now().duration_since(began).as_secs_f64();
            ctx.metrics.observe(&figures::EVALUATION, &labels, took);
        }
        let scope = standing::Scope::of(&proposal);
        let started = self.carry_out(ctx, proposal.commands).await;
        // What people read must not hold up what is to be done.
        if tells && let Err(error) = self.told.write(ctx, &standings, &scope).await {
            tracing::warn!(%error, "cannot say on NodeClaims what blocks their disruption");
        }
        let started = started?;
        Ok(if started { Requeue::Now } else { Requeue::After(ctx.settings.disruption.period) })
    }
}

impl Disruption {
    /// What to ask: the methods, what the last pass left, and whether consolidation rests.
    fn agenda(
        &self,
        ctx: &Ctx,
        epoch: u64,
        now: Timestamp,
        tells: bool,
    ) -> (Vec<&'static dyn Method>, Recall, bool) {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut methods = methods(&ctx.settings);
        // What is told of nodes needs all reasons.
        let rests = !tells && memory.is_quiet(epoch, now);
        if rests {
            methods.retain(|method| method.reason() != DisruptionReason::Underutilized);
        }
        (methods, memory.recall.clone(), rests)
    }

    /// Whether it is time to say on every node what blocks it; takes note. Not at start: what is not known yet would
    /// look like a block, and be written on every node and taken off again.
    fn is_due(&self, now: Timestamp) -> bool {
        let mut told = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = later(*told.get_or_insert(now), standing::INTERVAL) <= now;
        if due {
            *told = Some(now);
        }
        due
    }

    /// Starts the commands of a pass that still hold, in order. Returns whether there was any.
    ///
    /// Each is looked at again right before it starts, on what the earlier ones left behind.
    async fn carry_out(&self, ctx: &Ctx, commands: Vec<Command>) -> Result<bool, ReconcileError> {
        let Some(method) = commands.first().and_then(|first| method(first.method)) else { return Ok(false) };
        if method.is_validated() {
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
            let Some(command) = self.confirm(ctx, command, method.is_validated()).await? else { continue };
            match execute::start(ctx, &self.commands, command.clone()).await {
                Ok(()) => started = true,
                Err(NotStarted::Limit(exceeded)) => self.reject(ctx, &command, &exceeded.to_string()),
                Err(held @ NotStarted::Rate(_)) => tracing::warn!(%command, "{held}"),
                Err(NotStarted::Failed(error)) => return Err(error),
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
            let bench = Bench::ready(&snapshot, &rules.scheduling, solvers.on(&snapshot, &rules.scheduling));
            let verdict = validate_on(&decided, &bench, &rules, now);
            solvers.keep(bench.into_solver());
            verdict
        };
        match ctx.offload(judge).await? {
            Ok(confirmed) => Ok(Some(confirmed)),
            Err(rejected) => {
                self.reject(ctx, &command, rejected.as_str());
                Ok(None)
            }
        }
    }

    /// Says that a command does not hold any more, and why. Rejected is what consolidation decided; drift is held up.
    pub(super) fn reject(&self, ctx: &Ctx, command: &Command, why: &str) {
        let drifted = command.reason == DisruptionReason::Drifted;
        if !drifted {
            ctx.metrics.inc(&figures::FAILED_VALIDATIONS, &[command.consolidation_type]);
        }
        let reason = if drifted { "DisruptionBlocked" } else { "ConsolidationRejected" };
        tracing::debug!(why, command = %command, "abandoning disruption attempt");
        for candidate in &command.candidates {
            let claim = candidate.node.claim_name().and_then(|name| ctx.index().claim(name).cloned());
            if let Some(claim) = claim {
                let text = format!("{command} does not hold any more ({why})");
                ctx.recorder.publish(Event::normal(regarding(&*claim), reason, text));
            }
        }
    }
}
