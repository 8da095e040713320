//! The controller that decides which nodes to disrupt.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::CloudProvider,
    disruption::{
        Agenda, Command, Method, PassMemory, PassStart, SimulationSolver, is_still_allowed, method,
        propose_after, statuses, validate_on,
    },
    model::DisruptionReason,
    safety::{Act, Facts},
};
use fleetwright_state::Key;
use jiff::Timestamp;

use super::{
    commands::Commands,
    drift_caps, durable,
    execute::{Execution, NotStarted},
    figures, live, orphans,
    report::{self, Reporter},
    settings::{methods, rules_now},
    status,
    timed::Timed,
};
use crate::{
    events::{Event, regarding},
    metrics::Metrics,
    patch::Patches,
    pool_status::PoolStatus,
    runtime::decisions::{Decided, Decisions},
    runtime::{
        ApiClient, Clocks, Cluster, Controller, Ctx, Gate, ReconcileError, Recorder, Requeue, Solvers, later,
    },
    safety::Safety,
    settings::Settings,
};

/// Runs passes: decides, waits for the validation delay, validates, and starts the commands that are still valid.
pub(super) struct Disruption {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    gate: Gate,
    patches: Patches,
    pools: PoolStatus,
    execution: Execution,
    reporter: Reporter,
    safety: Safety,
    solvers: Solvers,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    decisions: Decisions,
    commands: Arc<Commands>,
    /// When the first pass ran and took over the commands of an earlier process, in steady time.
    first_pass_at: OnceLock<Timestamp>,
    /// When the conditions were last updated, or the first pass ran, in steady time.
    reported_at: Mutex<Option<Timestamp>>,
    conditions: status::Conditions,
    memory: Mutex<PassMemory>,
}

impl Disruption {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx, commands: Arc<Commands>) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            gate: ctx.gate.clone(),
            patches: Patches::new(ctx),
            pools: PoolStatus::new(ctx),
            execution: Execution::new(ctx, commands.clone()),
            reporter: Reporter::new(ctx),
            safety: Safety::new(ctx),
            solvers: ctx.solvers.clone(),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
            decisions: ctx.decisions.clone(),
            commands,
            first_pass_at: OnceLock::new(),
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

    async fn reconcile(&self, _: &Key) -> Result<Requeue, ReconcileError> {
        let (now, steady) = (self.clocks.now(), self.clocks.steady());
        if self.gate.may_act().is_err() {
            return Ok(Requeue::After(Duration::from_secs(1)));
        }
        let first_pass_at = *self.first_pass_at.get_or_init(|| {
            durable::restore(&self.cluster, &self.clocks, &self.commands, &self.decisions);
            steady
        });
        let snapshot = self.cluster.index().disruption_snapshot(now);
        orphans::unmark(&self.cluster, &self.patches, &self.commands, &snapshot.nodes).await?;
        if let Err(held) = self.safety.admit(Act::Taint, &Facts::default()) {
            tracing::info!(%held, "disruption is held");
            return Ok(held.left().map_or(Requeue::Backoff, Requeue::After));
        }
        let rules = rules_now(&*self.cloud, &self.settings);
        let (clock, epoch, reports) =
            (self.clocks.clock().clone(), snapshot.epoch, self.is_report_due(steady));
        let start = PassStart::new(epoch, steady, first_pass_at, reports);
        let Agenda { methods, carry_over, consolidates } =
            self.memory().agenda(start, methods(&self.settings));
        let (solvers, read) = (self.solvers.clone(), snapshot.clone());
        let decide = move || {
            let prepared = solvers.on(&snapshot, &rules.scheduling);
            let mut solver = SimulationSolver::with_prepared(&snapshot, &rules.scheduling, prepared);
            let timed: Vec<Timed> = methods.iter().map(|method| Timed::new(*method, &clock)).collect();
            let running: Vec<&dyn Method> = timed.iter().map(|method| method as &dyn Method).collect();
            let proposal = propose_after(&mut solver, &rules, now, &running, carry_over);
            let took: Vec<_> = timed.iter().map(|method| (method.spec(), method.took())).collect();
            solvers.keep(solver.into_prepared());
            let all = reports.then(|| statuses(&snapshot, &rules, now, &methods, &proposal));
            (proposal, all.unwrap_or_default(), took)
        };
        let (proposal, statuses, took) = self.solvers.offload(decide).await?;
        if consolidates {
            self.memory().record(epoch, steady, &proposal);
        }
        self.reporter.proposal(&proposal);
        let decided = self.decisions.pass(&proposal, &read);
        if let Err(error) = drift_caps::write(&self.cluster, &self.pools, &proposal.drift_caps).await {
            tracing::warn!(%error, "failed to update DriftWithinCap conditions of NodePools");
        }
        // As in Karpenter, for each method that the pass ran.
        for (spec, took) in took.into_iter().take(proposal.eligible.len()) {
            let labels = [report::reason_label(spec.reason), spec.consolidation_type];
            self.metrics.observe(&figures::EVALUATION, &labels, took.as_secs_f64());
        }
        let scope = status::Scope::of(&proposal);
        let started = self.start_all(proposal.commands, decided).await;
        // A failed write of a condition does not delay commands.
        if reports
            && let Err(error) =
                self.conditions.write(&self.cluster, &self.clocks, &self.patches, &statuses, &scope).await
        {
            tracing::warn!(%error, "failed to update DisruptionBlocked conditions of NodeClaims");
        }
        let started = started?;
        Ok(if started { Requeue::Now } else { Requeue::After(self.settings.disruption.period) })
    }
}

impl Disruption {
    fn memory(&self) -> MutexGuard<'_, PassMemory> {
        // Every change is one statement: a panic cannot leave half of one behind.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the conditions of all NodeClaims are due for an update; records that. Not at the start: missing facts
    /// would look like blockers, which would be written for every node and removed soon after.
    fn is_report_due(&self, now: Timestamp) -> bool {
        let mut reported = self.reported_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = later(*reported.get_or_insert(now), status::INTERVAL) <= now;
        if due {
            *reported = Some(now);
        }
        due
    }

    /// Starts the commands of a pass that are still valid, in order. Returns whether any started.
    ///
    /// Each command is validated right before it starts, on a snapshot that has the effects of the earlier ones.
    async fn start_all(&self, commands: Vec<Command>, decided: Vec<Decided>) -> Result<bool, ReconcileError> {
        let Some(method) = commands.first().and_then(|first| method(first.method.name)) else {
            return Ok(false);
        };
        if method.spec().validated {
            for (command, decision) in commands.iter().zip(&decided) {
                let decision = decision.recorded();
                self.reporter.on_nodes(command, "ConsolidationCandidate", &self.text(command), decision);
                self.reporter.approved(command, decision);
            }
            self.gate.pause(self.settings.disruption.validation_delay).await;
            if self.gate.may_act().is_err() {
                return Ok(false);
            }
            for command in &commands {
                live::refresh(&self.client, &self.cluster, &command.candidates).await?;
            }
        }
        let mut started = false;
        for (command, decision) in commands.into_iter().zip(&decided) {
            let Some(command) = self.confirm(command, method.spec().validated, decision).await? else {
                continue;
            };
            match self.execution.start(command.clone(), decision).await {
                Ok(()) => started = true,
                Err(NotStarted::Limit(exceeded)) => self.reject(&command, &exceeded.to_string(), decision),
                Err(held @ NotStarted::Held(_)) => {
                    tracing::warn!(command = self.text(&command), "{held}");
                    self.decisions.command_rejected(&decision.id, &held.to_string());
                }
                Err(NotStarted::Failed(error)) => return Err(error),
            }
        }
        Ok(started)
    }

    /// Validates a command before it starts; `None` if it is not valid any more.
    async fn confirm(
        &self,
        command: Command,
        simulate: bool,
        decision: &Decided,
    ) -> Result<Option<Command>, ReconcileError> {
        let now = self.clocks.now();
        if self.gate.may_act().is_err() || self.safety.admit(Act::Taint, &Facts::default()).is_err() {
            return Ok(None);
        }
        let snapshot = self.cluster.index().disruption_snapshot(now);
        let rules = rules_now(&*self.cloud, &self.settings);
        let decided = command.clone();
        let solvers = self.solvers.clone();
        let judge = move || {
            if !simulate {
                return is_still_allowed(&decided, &snapshot, &rules, now).map(|()| decided);
            }
            let prepared = solvers.on(&snapshot, &rules.scheduling);
            let mut solver = SimulationSolver::with_prepared(&snapshot, &rules.scheduling, prepared);
            let confirmed = validate_on(&decided, &mut solver, &rules, now);
            solvers.keep(solver.into_prepared());
            confirmed
        };
        match self.solvers.offload(judge).await? {
            Ok(confirmed) => Ok(Some(confirmed)),
            Err(rejected) => {
                self.reject(&command, rejected.as_str(), decision);
                Ok(None)
            }
        }
    }

    /// The command as people read it.
    fn text(&self, command: &Command) -> String {
        command.text(self.settings.currency)
    }

    /// Publishes why a command is no longer valid: `ConsolidationRejected`, or `DisruptionBlocked` for drift.
    pub(super) fn reject(&self, command: &Command, why: &str, decision: &Decided) {
        self.decisions.command_rejected(&decision.id, why);
        let drifted = command.method.reason == DisruptionReason::Drifted;
        if !drifted {
            self.metrics.inc(&figures::FAILED_VALIDATIONS, &[command.method.consolidation_type]);
        }
        let reason = if drifted { "DisruptionBlocked" } else { "ConsolidationRejected" };
        let text = self.text(command);
        tracing::debug!(why, command = text, "abandoning disruption attempt");
        for candidate in &command.candidates {
            let claim =
                candidate.node.claim_name().and_then(|name| self.cluster.index().claim(name).cloned());
            if let Some(claim) = claim {
                let text = format!("{text} no longer holds ({why})");
                let event = Event::normal(regarding(&*claim), reason, text);
                self.recorder.publish(event.about_decision(decision.recorded()));
            }
        }
    }
}
