//! Pods that leave their nodes, taken off the counters of topology.

use std::{collections::BTreeSet, sync::Arc};

use super::{Solver, bits::Bits, topology::GroupKind};
use crate::scheduling::ids::{LabelSetId, NodeId, PodClassId};
use crate::{model::Pod, scheduling::Request};

impl Solver {
    /// Takes the pods of nodes that are thought away, and those of the request that run somewhere, off the counters.
    pub(super) fn forget(&mut self, gone: &Bits<NodeId>, request: &Request<'_>) {
        for at in gone.iter() {
            self.discount_all(at);
        }
        let mut leaving: Vec<(NodeId, Arc<Pod>)> = Vec::new();
        if self.deleting.first_without(gone, gone, 0).is_some()
            && request.pods.iter().any(|pod| pod.node.is_some())
        {
            let moving: BTreeSet<_> = request.pods.iter().map(|pod| &pod.uid).collect();
            for at in self.deleting.iter().filter(|at| !gone.has(*at)) {
                let pods = self.nodes[at].state.pods.iter().filter(|pod| moving.contains(&pod.uid));
                leaving.extend(pods.map(|pod| (at, Arc::clone(pod))));
            }
        }
        for (at, pod) in leaving.into_iter().filter(|(_, pod)| pod.is_active()) {
            let kind = self.topology.label_set(&pod.id.namespace, &pod.labels);
            self.discount(at, kind, 1);
            for term in &pod.spec.pod_anti_affinity {
                let group = self.term_group(&pod, term, GroupKind::Anti);
                for domain in self.node_domains(group, at) {
                    self.placement.count(group, domain, true, -1);
                }
            }
        }
    }

    /// Takes all pods of a node off the counters.
    pub(super) fn discount_all(&mut self, at: NodeId) {
        for position in 0..self.nodes[at].label_sets.len() {
            let (kind, count) = self.nodes[at].label_sets[position];
            self.discount(at, kind, count);
        }
        for position in 0..self.nodes[at].keeps_away.len() {
            let group = self.nodes[at].keeps_away[position];
            for domain in self.node_domains(group, at) {
                self.placement.count(group, domain, true, -1);
            }
        }
    }

    /// Takes pods of one kind on a node off the counters.
    fn discount(&mut self, at: NodeId, kind: LabelSetId, count: u32) {
        for position in 0..self.topology.label_sets[kind].groups.len() {
            let group = self.topology.label_sets[kind].groups[position];
            if self.counts_on(group, at) {
                for domain in self.node_domains(group, at) {
                    self.placement.count(group, domain, false, -i64::from(count));
                }
            }
        }
    }

    /// Takes a pod of a class that a pass has put on a node off the counters.
    pub(super) fn discount_placed(&mut self, at: NodeId, class: PodClassId) {
        self.discount(at, self.classes[class].label_set, 1);
        for position in 0..self.classes[class].keeps_away.len() {
            let group = self.classes[class].keeps_away[position];
            for domain in self.node_domains(group, at) {
                self.placement.count(group, domain, true, -1);
            }
        }
    }
}
