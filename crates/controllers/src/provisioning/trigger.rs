//! Adds pending pods and the pods of nodes that are being disrupted to the batch.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::model::NamespacedName;
use fleetwright_state::{Change, Index, Key, WatchedKind};

use super::{inbox::Inbox, names::PROVISIONER};
use crate::{
    metrics::pod_times::PodTimes,
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// How often a pod that is still pending is added to the batch again.
const REQUEUE_AFTER: Duration = Duration::from_secs(10);

/// Adds pending pods to the batch.
pub struct PodTrigger {
    cluster: Cluster,
    clocks: Clocks,
    pod_times: Arc<PodTimes>,
    inbox: Inbox,
}

impl PodTrigger {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, inbox: Inbox) -> Self {
        let (cluster, clocks) = (ctx.cluster.clone(), ctx.clocks.clone());
        Self { cluster, clocks, pod_times: ctx.pod_times.clone(), inbox }
    }
}

#[async_trait]
impl Controller for PodTrigger {
    fn name(&self) -> &'static str {
        "provisioner.trigger.pod"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let pending = change.kind == WatchedKind::Pod
            && !change.is_deleted()
            && change.pod().is_some_and(|pod| index.is_pending(pod));
        if pending { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let pod = {
            let index = self.cluster.index();
            index.pod(&NamespacedName::from(key)).filter(|pod| index.is_pending(pod)).cloned()
        };
        let Some(pod) = pod else { return Ok(Requeue::No) };
        self.inbox.push_pod(&pod.uid, self.clocks.steady());
        self.pod_times.seen(&pod.uid, self.clocks.now());
        self.cluster.enqueue(PROVISIONER, Key::singleton());
        Ok(Requeue::After(REQUEUE_AFTER))
    }
}

/// Adds nodes whose pods need another node to the batch.
pub struct NodeTrigger {
    cluster: Cluster,
    clocks: Clocks,
    inbox: Inbox,
}

impl NodeTrigger {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, inbox: Inbox) -> Self {
        Self { cluster: ctx.cluster.clone(), clocks: ctx.clocks.clone(), inbox }
    }
}

#[async_trait]
impl Controller for NodeTrigger {
    fn name(&self) -> &'static str {
        "provisioner.trigger.node"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let disrupted = change.kind == WatchedKind::Node
            && index.node_model(&change.key.name).is_some_and(|node| node.is_disrupted());
        if disrupted { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let uid = {
            let index = self.cluster.index();
            let node = index.node_model(&key.name).filter(|node| node.is_disrupted());
            node.map(|node| node.uid.clone())
        };
        let Some(uid) = uid else { return Ok(Requeue::No) };
        self.inbox.push(&uid, self.clocks.steady());
        self.cluster.enqueue(PROVISIONER, Key::singleton());
        Ok(Requeue::After(REQUEUE_AFTER))
    }
}
