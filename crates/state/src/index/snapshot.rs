//! Snapshots: what changed since the last one is built again, everything else is shared. What disruption reads leaves out the pods that
//! the launch-loop breaker holds.

use std::{collections::BTreeSet, sync::Arc};

use fleetwright_core::{
    model::{ClaimName, NodeClaim, Pod, PodUid, Snapshot},
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

    /// Whether a pod waits for capacity. A pod that is nominated to a node does so only if the node was launched for it, or is gone: for
    /// any other kube-scheduler makes room there.
    #[must_use]
    pub fn is_pending(&self, pod: &Pod) -> bool {
        pod.is_provisionable()
            && pod
                .nominated_node
                .as_ref()
                .is_none_or(|node| self.objects.node_model(node).is_none() || self.is_expected_on(pod, node))
    }

    /// Whether a pod is to run on the node called `node`: a NodeClaim was created for it, or the node is leased to it.
    fn is_expected_on(&self, pod: &Pod, node: &str) -> bool {
        let claim = self.objects.claim_of_node(node).and_then(|claim| claim.metadata.name.as_deref());
        claim.is_some_and(|claim| {
            self.claims_expecting(&pod.uid).iter().any(|expecting| &**expecting == claim)
        })
    }

    /// The NodeClaims that a pod without a node is to run on: those that were created for it, and the one that is leased to it.
    #[must_use]
    pub fn claims_expecting(&self, pod: &PodUid) -> Vec<ClaimName> {
        let mut claims = self.claims_created_for(pod);
        if let Some((target, _)) = self.intents.nominations.lease(pod) {
            let of_node = self.objects.claim_of_node(target).and_then(|claim| claim.metadata.name.clone());
            claims.push(of_node.map_or_else(|| ClaimName::from(&**target), ClaimName::from));
        }
        claims
    }

    /// The pods without a node that are to run on the node of a NodeClaim.
    #[must_use]
    pub fn pods_expected_by(&self, claim: &NodeClaim) -> Vec<Arc<Pod>> {
        let names: Vec<&str> =
            [Some(&*claim.name), claim.node_name.as_deref()].into_iter().flatten().collect();
        let leased = self.intents.nominations.leases_on(&names);
        let uids: BTreeSet<&PodUid> =
            claim.intended_pods.iter().chain(leased.iter().map(|lease| &lease.pod)).collect();
        let pods = uids.into_iter().filter_map(|uid| self.objects.pod_by_uid(uid));
        pods.filter(|pod| pod.node.is_none()).cloned().collect()
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
        // Whether a nominated pod is pending follows from nodes and NodeClaims too.
        let unchanged = !self.stale && !self.objects.pods.has_nominated();
        let snapshot = match self.latest.as_ref().filter(|_| unchanged) {
            Some(latest) => {
                Snapshot { epoch: self.epoch, taken_at: now, nodes, nominated, ..(**latest).clone() }
            }
            None => {
                let (pending, preempting): (Vec<_>, Vec<_>) =
                    self.objects.pods.pending().cloned().partition(|pod| self.is_pending(pod));
                Snapshot {
                    epoch: self.epoch,
                    taken_at: now,
                    objective: self.objective,
                    currency: self.currency,
                    schema: self.objects.schema.clone(),
                    pools: self.objects.pools.in_order(),
                    catalogs: self.catalogs.effective().clone(),
                    nodes,
                    pending: pending.into_iter().chain(self.buffers.pods().cloned()).collect(),
                    unscheduled: self.objects.pods.unscheduled().cloned().chain(preempting).collect(),
                    daemons: self.objects.daemons.all().cloned().collect(),
                    namespaces: self.objects.namespaces.clone(),
                    pdbs: self.objects.pdbs.values().cloned().collect(),
                    volumes: self.objects.volumes.lowered_claims().clone(),
                    storage_classes: self.objects.volumes.lowered_classes().clone(),
                    workloads: self.objects.workloads.all().clone(),
                    devices: self.objects.devices.all().clone(),
                    deferred: self.intents.deferred().clone(),
                    nominated,
                }
            }
        };
        self.latest = Some(Arc::new(snapshot));
        (self.stale, self.nominated_stale) = (false, false);
    }
}
