//! Our disruption passes in shadow mode. Their commands are never carried out: each pass starts from Karpenter's nodes.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::{
    disruption::{CarryOver, SimulationSolver, propose_after, statuses},
    shadow::DisruptionTracker,
};
use fleetwright_state::Key;

use super::{
    families,
    recorder::{Recorder, saving},
};
use crate::{
    disruption::{methods, rules},
    metrics::Metrics,
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue, Shared, Solvers},
    settings::Settings,
};

/// Runs passes, and records what they propose.
pub(super) struct Proposer {
    cluster: Cluster,
    clocks: Clocks,
    settings: Arc<Settings>,
    solvers: Solvers,
    metrics: Arc<Metrics>,
    recorder: Recorder,
    tracker: Shared<DisruptionTracker>,
    carry_over: Shared<CarryOver>,
}

impl Proposer {
    pub(super) fn new(ctx: &Ctx, recorder: Recorder, tracker: Shared<DisruptionTracker>) -> Self {
        ctx.metrics.set(&families::STANDING_SAVINGS, &[], 0.0);
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            settings: ctx.settings.clone(),
            solvers: ctx.solvers.clone(),
            metrics: ctx.metrics.clone(),
            recorder,
            tracker,
            carry_over: Shared::default(),
        }
    }
}

#[async_trait]
impl Controller for Proposer {
    fn name(&self) -> &'static str {
        "fleetwright.shadow.disruption"
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, _: &Key) -> Result<Requeue, ReconcileError> {
        let now = self.clocks.now();
        let snapshot = self.cluster.index().snapshot(now);
        let (rules, methods) = (rules(&self.settings), methods(&self.settings));
        let (solvers, decided_on, carry_over) =
            (self.solvers.clone(), snapshot.clone(), self.carry_over.lock().clone());
        let decide = move || {
            let prepared = solvers.on(&decided_on, &rules.scheduling);
            let mut solver = SimulationSolver::with_prepared(&decided_on, &rules.scheduling, prepared);
            let proposal = propose_after(&mut solver, &rules, now, &methods, carry_over);
            solvers.keep(solver.into_prepared());
            let statuses = statuses(&decided_on, &rules, now, &methods, &proposal);
            (proposal, statuses)
        };
        let (proposal, statuses) = self.solvers.offload(decide).await?;
        *self.carry_over.lock() = proposal.carry_over();
        let mut tracker = self.tracker.lock();
        let ignored = tracker.propose(&snapshot, now, &proposal.commands, &statuses);
        let savings: f64 = tracker.standing().iter().filter_map(|command| saving(command)).sum();
        drop(tracker);
        self.metrics.set(&families::STANDING_SAVINGS, &[], savings);
        for comparison in ignored {
            self.recorder.disruption(comparison);
        }
        Ok(Requeue::After(self.settings.disruption.period))
    }
}
