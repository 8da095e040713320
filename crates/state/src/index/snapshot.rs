//! Snapshots: what changed since the last one is built again, everything else is shared. What disruption reads leaves out the pods that
//! the launch-loop breaker holds.

use std::{collections::BTreeSet, sync::Arc};

use fleetwright_core::{
    model::{Pod, PodUid, Snapshot},
    safety::launch_loop::ByDemand,
};
use jiff::Timestamp;

use super::Index;
use crate::objects::nodes::NodeInputs;

impl Index {
    /// Everything that a decision at `now` reads.
    pub fn snapshot(&mut self, now: Timestamp) -> Arc<Snapshot> {
        self.catalogs.refresh(&mut self.objects);
        for target in self.intents.nominations.expire(now) {
            self.objects.nodes.mark(&target);
        }
        self.take_changed();
        let clean = !self.stale && !self.nominated_stale && self.objects.nodes.is_clean();
        if let Some(latest) = self.latest.as_ref().filter(|_| clean) {
            if latest.taken_at != now {
                self.latest = Some(Arc::new(Snapshot { taken_at: now, ..(**latest).clone() }));
            }
        } else {
            self.refresh(now);
        }
        match &self.latest {
            Some(latest) => latest.clone(),
            None => Arc::new(Snapshot::empty(self.objects.schema.clone(), now)),
        }
    }

    /// What a disruption pass at `now` reads: as [`Self::snapshot`], but pods that the launch-loop breaker holds are not pending. A
    /// simulation would otherwise place them, and a replacement be launched for them during their pause.
    pub fn disruption_snapshot(&mut self, now: Timestamp) -> Arc<Snapshot> {
        let snapshot = self.snapshot(now);
        let held = self.held(&snapshot.pending, now);
        if held.is_empty() {
            return snapshot;
        }
        let mut without = (*snapshot).clone();
        let (held, pending): (Vec<_>, Vec<_>) =
            without.pending.into_iter().partition(|pod| held.contains(&pod.uid));
        without.pending = pending;
        without.unscheduled.extend(held);
        Arc::new(without)
    }

    /// The pods that a replacement is created for at `now`, as they are now, of those that its command was decided for: without those that
    /// have a NodeClaim in flight, and without those that the launch-loop breaker holds by now.
    pub fn replacement_pods(&mut self, decided: &[Arc<Pod>], now: Timestamp) -> Vec<Arc<Pod>> {
        let newest = |pod: &Arc<Pod>| self.objects.pod_by_uid(&pod.uid).unwrap_or(pod).clone();
        let mut pods: Vec<Arc<Pod>> = decided.iter().map(newest).collect();
        let held = self.held(&pods, now);
        pods.retain(|pod| !self.has_claim_in_flight(&pod.uid) && !held.contains(&pod.uid));
        pods
    }

    /// Those of `pods` that have neither a node nor a NodeClaim in flight, and whose demand is paused.
    fn held(&mut self, pods: &[Arc<Pod>], now: Timestamp) -> BTreeSet<PodUid> {
        let mut paused = ByDemand::default();
        let mut held = BTreeSet::new();
        for pod in pods.iter().filter(|pod| !pod.is_virtual && pod.node.is_none()) {
            if self.has_claim_in_flight(&pod.uid) {
                continue;
            }
            let is_paused = *paused.get_or_insert_with(pod, || self.launch_pause(pod, now).is_some());
            if is_paused {
                held.insert(pod.uid.clone());
            }
        }
        held
    }

    fn take_changed(&mut self) {
        let changed =
            [self.objects.take_changed(), self.catalogs.take_changed(), self.buffers.take_changed()];
        self.stale |= changed.contains(&true);
    }

    fn refresh(&mut self, now: Timestamp) {
        let Self { objects, intents, catalogs, buffers, .. } = self;
        let inputs = NodeInputs {
            pods: &objects.pods,
            intents,
            catalogs: catalogs.effective(),
            chunks: buffers.chunks(),
        };
        objects.nodes.rebuild(&inputs);
        self.epoch += 1;
        let nodes = self.objects.nodes.all().to_vec();
        let nominated = match self.latest.as_ref().filter(|_| !self.nominated_stale) {
            Some(latest) => latest.nominated.clone(),
            None => self.intents.all_in_flight(),
        };
        let snapshot = match self.latest.as_ref().filter(|_| !self.stale) {
            Some(latest) => {
                Snapshot { epoch: self.epoch, taken_at: now, nodes, nominated, ..(**latest).clone() }
            }
            None => Snapshot {
                epoch: self.epoch,
                taken_at: now,
                objective: self.objective,
                schema: self.objects.schema.clone(),
                pools: self.objects.pools.in_order(),
                catalogs: self.catalogs.effective().clone(),
                nodes,
                pending: self.objects.pods.pending().chain(self.buffers.pods()).cloned().collect(),
                unscheduled: self.objects.pods.unscheduled().cloned().collect(),
                daemons: self.objects.daemons.all().cloned().collect(),
                namespaces: self.objects.namespaces.clone(),
                pdbs: self.objects.pdbs.values().cloned().collect(),
                volumes: self.objects.volumes.lowered_claims().clone(),
                storage_classes: self.objects.volumes.lowered_classes().clone(),
                workloads: self.objects.workloads.all().clone(),
                devices: self.objects.devices.all().clone(),
                deferred: self.intents.deferred().clone(),
                nominated,
            },
        };
        self.latest = Some(Arc::new(snapshot));
        (self.stale, self.nominated_stale) = (false, false);
    }
}
