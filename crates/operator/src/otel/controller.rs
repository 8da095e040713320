//! `otel.pod`: sends the trace of a pod when it is bound. Only of pods that scheduling saw as pending before, in this process: the times of
//! others are not known, and kube-scheduler binds them at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use fleetwright_controllers::{
    metrics::pod_times::PodTimes,
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
};
use fleetwright_core::model::{NamespacedName, PodUid};
use fleetwright_state::{Change, Index, Key, WatchedKind};

use super::{
    exporter::Exporter,
    timeline::{self, Stage},
};

/// Follows pods until they are bound.
pub(super) struct PodTraces {
    cluster: Cluster,
    clocks: Clocks,
    pod_times: Arc<PodTimes>,
    exporter: Exporter,
    unbound: Mutex<BTreeMap<Key, PodUid>>,
}

impl PodTraces {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx, exporter: Exporter) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            pod_times: ctx.pod_times.clone(),
            exporter,
            unbound: Mutex::default(),
        }
    }

    /// The stages of a pod that has been bound since it was last looked at.
    fn finished(&self, key: &Key) -> Option<Stage> {
        let index = self.cluster.index();
        let mut unbound = self.unbound.lock().unwrap_or_else(PoisonError::into_inner);
        let was = unbound.remove(key);
        let pod = index.pod(&NamespacedName::from(key))?;
        let Some(node) = &pod.node else {
            if !pod.is_terminal() {
                unbound.insert(key.clone(), pod.uid.clone());
            }
            return None;
        };
        was.filter(|uid| *uid == pod.uid)?;
        let times = self.pod_times.of(&pod.uid);
        times.seen?;
        let claim = index.claim_of_node(node).and_then(|claim| claim.metadata.name.as_deref());
        let claim = claim.and_then(|name| index.claim_model(name));
        let bound = pod.bound_since.unwrap_or_else(|| self.clocks.now());
        Some(timeline::of_pod(pod, bound, times, claim.map(|claim| &**claim)))
    }
}

#[async_trait]
impl Controller for PodTraces {
    fn name(&self) -> &'static str {
        "otel.pod"
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        if change.kind == WatchedKind::Pod { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        if let Some(stage) = self.finished(key) {
            self.exporter.send(&stage);
        }
        Ok(Requeue::No)
    }
}
