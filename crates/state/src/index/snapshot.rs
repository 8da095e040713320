//! Snapshots: what changed since the last one is built again, all else is shared.

use std::{cmp::Reverse, sync::Arc};

use fleetwright_core::model::{NodePool, Snapshot};
use jiff::Timestamp;

use super::Index;
use crate::nodes::Parts;

impl Index {
    /// Everything that a decision at `now` reads.
    pub fn snapshot(&mut self, now: Timestamp) -> Arc<Snapshot> {
        self.settle_overlays();
        for target in self.intents.expire(now) {
            self.nodes.touch(&target);
        }
        if let Some(latest) =
            self.latest.as_ref().filter(|_| !self.stale && !self.answers_stale && self.nodes.is_clean())
        {
            if latest.taken_at != now {
                self.latest = Some(Arc::new(Snapshot { taken_at: now, ..(**latest).clone() }));
            }
        } else {
            self.refresh(now);
        }
        match &self.latest {
            Some(latest) => latest.clone(),
            None => Arc::new(Snapshot::empty(self.schema.clone(), now)),
        }
    }

    fn refresh(&mut self, now: Timestamp) {
        let parts = Parts {
            pods: &self.pods,
            intents: &self.intents,
            catalogs: &self.catalogs,
            held: &self.buffers.held,
        };
        self.nodes.rebuild(&parts);
        self.epoch += 1;
        let nodes = self.nodes.all().to_vec();
        let answered = match self.latest.as_ref().filter(|_| !self.answers_stale) {
            Some(latest) => latest.answered.clone(),
            None => self.answers.all(&self.intents),
        };
        let snapshot = match self.latest.as_ref().filter(|_| !self.stale) {
            Some(latest) => {
                Snapshot { epoch: self.epoch, taken_at: now, nodes, answered, ..(**latest).clone() }
            }
            None => Snapshot {
                epoch: self.epoch,
                taken_at: now,
                schema: self.schema.clone(),
                pools: self.pools_in_order(),
                catalogs: self.catalogs.clone(),
                nodes,
                pending: self.pods.pending().chain(self.buffers.pods()).cloned().collect(),
                waiting: self.pods.waiting().cloned().collect(),
                daemons: self.daemons.values().cloned().collect(),
                namespaces: self.namespaces.clone(),
                pdbs: self.pdbs.values().cloned().collect(),
                volumes: self.volume_claims.clone(),
                storage_classes: self.class_models.clone(),
                workloads: self.workloads.clone(),
                devices: self.devices.clone(),
                deferred: self.deferred.clone(),
                answered,
            },
        };
        self.latest = Some(Arc::new(snapshot));
        (self.stale, self.answers_stale) = (false, false);
    }

    /// Weight descending, then name descending.
    fn pools_in_order(&self) -> Vec<Arc<NodePool>> {
        let mut pools: Vec<_> = self.pools.values().filter_map(|entry| entry.model.clone()).collect();
        pools.sort_by_key(|pool| Reverse((pool.weight, pool.name.clone())));
        pools
    }
}
