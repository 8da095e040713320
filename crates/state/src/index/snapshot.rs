//! Snapshots: what changed since the last one is built again, everything else is shared.

use std::sync::Arc;

use fleetwright_core::model::Snapshot;
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
