//! The loop of a shadow: collects batches of pending pods as the provisioner does, plans each when its window closes or Karpenter
//! answers it, and follows Karpenter's NodeClaims and disruption commands.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    model::{ClaimName, PodUid, Snapshot},
    shadow::{BatchTracker, DisruptionTracker, PlannedBatch},
};
use fleetwright_state::Key;
use jiff::Timestamp;

use super::{
    families,
    recorder::{Recorder, figure},
};
use crate::{
    metrics::Metrics,
    provisioning::{batch::Batch, eligible, provisioner::solve},
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue, Shared, Solvers},
    settings::Settings,
};

/// How often the cluster is looked at. Karpenter's NodeClaims must not be part of the snapshot that we decide on, so this is short.
const TICK: Duration = Duration::from_millis(250);

/// Observes, decides and compares.
pub(super) struct Observer {
    cluster: Cluster,
    clocks: Clocks,
    settings: Arc<Settings>,
    solvers: Solvers,
    metrics: Arc<Metrics>,
    state: Shared<Observed>,
    disruptions: Shared<DisruptionTracker>,
    recorder: Recorder,
}

/// What an observer remembers between two looks.
struct Observed {
    window: Batch,
    /// When the open window opened.
    opened: Option<Timestamp>,
    /// The pods of the open window.
    pods: BTreeSet<PodUid>,
    /// Pending pods of the open window and of earlier ones.
    seen: BTreeSet<PodUid>,
    tracker: BatchTracker,
}

/// A batch that is to be decided, and the snapshot to decide on.
struct DueBatch {
    snapshot: Arc<Snapshot>,
    pods: BTreeSet<PodUid>,
    opened: Timestamp,
}

impl Observer {
    pub(super) fn new(ctx: &Ctx, recorder: Recorder, disruptions: Shared<DisruptionTracker>) -> Self {
        ctx.metrics.set(&families::OPEN_BATCHES, &[], 0.0);
        let state = Observed {
            window: Batch::new(ctx.settings.batch_idle, ctx.settings.batch_max),
            opened: None,
            pods: BTreeSet::new(),
            seen: BTreeSet::new(),
            tracker: BatchTracker::default(),
        };
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            settings: ctx.settings.clone(),
            solvers: ctx.solvers.clone(),
            metrics: ctx.metrics.clone(),
            state: Shared::new(state),
            disruptions,
            recorder,
        }
    }
}

#[async_trait]
impl Controller for Observer {
    fn name(&self) -> &'static str {
        "fleetwright.shadow"
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, _: &Key) -> Result<Requeue, ReconcileError> {
        let now = self.clocks.now();
        let snapshot = self.cluster.index().snapshot(now);
        let due = self.state.lock().collect(&snapshot, now, self.clocks.steady());
        if let Some(due) = due {
            self.decide(due).await?;
        }
        let (batches, others) = {
            let disrupting = self.disruptions.lock().is_active(now);
            let mut state = self.state.lock();
            let observed = state.tracker.observe(&snapshot, now, disrupting);
            self.metrics.set(&families::OPEN_BATCHES, &[], figure(state.tracker.open()));
            observed
        };
        let commands = self.disruptions.lock().observe(&snapshot, now, others);
        batches.into_iter().for_each(|batch| self.recorder.batch(batch));
        commands.into_iter().for_each(|command| self.recorder.disruption(command));
        Ok(Requeue::After(TICK))
    }
}

impl Observer {
    /// Plans a batch by the provisioner's own code. The plan is never carried out.
    async fn decide(&self, due: DueBatch) -> Result<(), ReconcileError> {
        let DueBatch { snapshot, pods, opened } = due;
        let eligible = eligible::pods(&snapshot, snapshot.taken_at);
        let plan = solve(&self.clocks, &self.settings, &self.solvers, snapshot, eligible).await?;
        let planned = PlannedBatch::of(&plan, pods, (opened, self.clocks.now()));
        self.state.lock().tracker.decide(planned);
        Ok(())
    }
}

impl Observed {
    /// Adds new pending pods to the window. Returns the batch if the window closes: as the provisioner's does, or because Karpenter
    /// created NodeClaims for it. The batch is decided without these.
    fn collect(&mut self, snapshot: &Arc<Snapshot>, now: Timestamp, steady: Timestamp) -> Option<DueBatch> {
        let eligible = eligible::pods(snapshot, now);
        let pending = eligible.iter().filter(|pod| pod.node.is_none() && !pod.is_virtual);
        let pending: BTreeSet<&PodUid> = pending.map(|pod| &pod.uid).collect();
        self.seen.retain(|pod| pending.contains(pod));
        for pod in pending {
            if self.seen.insert(pod.clone()) {
                self.window.push(pod, steady);
                self.opened.get_or_insert(now);
                self.pods.insert(pod.clone());
            }
        }
        let due = self.window.due()?;
        let appeared =
            if self.tracker.awaits_claims() { BTreeSet::new() } else { self.tracker.appeared(snapshot) };
        if due > steady && appeared.is_empty() {
            return None;
        }
        self.window.take();
        let opened = self.opened.take().unwrap_or(now);
        Some(DueBatch {
            snapshot: without(snapshot, &appeared),
            pods: std::mem::take(&mut self.pods),
            opened,
        })
    }
}

/// The snapshot without these NodeClaims.
fn without(snapshot: &Arc<Snapshot>, claims: &BTreeSet<ClaimName>) -> Arc<Snapshot> {
    if claims.is_empty() {
        return snapshot.clone();
    }
    let mut before = (**snapshot).clone();
    before.nodes.retain(|node| node.claim_name().is_none_or(|name| !claims.contains(name)));
    Arc::new(before)
}
