//! Hears of pods that wait for capacity and of nodes that are about to go, and fills the batch.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::model::{NamespacedName, PodUid, labels};
use fleetwright_state::{Change, Index, Key, Kind};
use jiff::Timestamp;

use super::{batch::Batch, provisioner};
use crate::{
    runtime::{Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// How often a pod that still waits is brought up again.
const AGAIN: Duration = Duration::from_secs(10);

/// What waits for the next scheduling pass. All its moments are of the steady clock.
#[derive(Clone, Debug)]
pub struct Inbox(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    batch: Batch,
    /// When pods that wait were first seen, until the first decision about them.
    undecided: BTreeMap<PodUid, Timestamp>,
}

impl Inbox {
    /// An empty inbox.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let batch = Batch::new(settings.batch_idle, settings.batch_max);
        Self(Arc::new(Mutex::new(State { batch, undecided: BTreeMap::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in something that makes a pass worthwhile.
    pub fn push(&self, uid: &str, now: Timestamp) {
        self.lock().batch.push(uid, now);
    }

    fn see(&self, pod: &PodUid, now: Timestamp) {
        let mut state = self.lock();
        state.batch.push(pod, now);
        state.undecided.entry(pod.clone()).or_insert(now);
    }

    /// When the next pass is due.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.lock().batch.due()
    }

    /// Begins a pass.
    pub(super) fn take(&self) -> usize {
        self.lock().batch.take()
    }

    /// Notes a decision about a pod; for its first one, how long the pod waited for it.
    pub(super) fn decided(&self, pod: &PodUid, now: Timestamp) -> Option<Duration> {
        let seen = self.lock().undecided.remove(pod)?;
        Some(Duration::try_from(now.duration_since(seen)).unwrap_or_default())
    }

    /// Keeps only pods that still wait.
    pub(super) fn retain(&self, waits: impl Fn(&PodUid) -> bool) {
        self.lock().undecided.retain(|pod, _| waits(pod));
    }
}

/// Brings pods that wait into the batch.
pub struct PodTrigger(pub Inbox);

#[async_trait]
impl Controller for PodTrigger {
    fn name(&self) -> &'static str {
        "provisioner.trigger.pod"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, _index: &Index) -> Vec<Key> {
        let waits = change.kind == Kind::Pod
            && !change.is_deleted()
            && change.pod().is_some_and(|pod| pod.is_provisionable());
        if waits { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let pod = ctx.index().pod(&NamespacedName::from(key)).cloned();
        let Some(pod) = pod.filter(|pod| pod.is_provisionable()) else { return Ok(Requeue::No) };
        self.0.see(&pod.uid, ctx.steady());
        ctx.pod_times.seen(&pod.uid, ctx.now());
        ctx.enqueue(provisioner::NAME, Key::singleton());
        Ok(Requeue::After(AGAIN))
    }
}

/// Brings nodes whose pods will need another place into the batch.
pub struct NodeTrigger(pub Inbox);

#[async_trait]
impl Controller for NodeTrigger {
    fn name(&self) -> &'static str {
        "provisioner.trigger.node"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, _index: &Index) -> Vec<Key> {
        let going = change.kind == Kind::Node
            && change.after.is_some()
            && change.node().is_some_and(|node| is_going(node));
        if going { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let uid = {
            let index = ctx.index();
            let node = index.node(&key.name).filter(|node| is_going(node));
            node.and_then(|node| node.metadata.uid.clone())
        };
        let Some(uid) = uid else { return Ok(Requeue::No) };
        self.0.push(&uid, ctx.steady());
        ctx.enqueue(provisioner::NAME, Key::singleton());
        Ok(Requeue::After(AGAIN))
    }
}

fn is_going(node: &k8s_openapi::api::core::v1::Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == labels::DISRUPTED_TAINT)
}
