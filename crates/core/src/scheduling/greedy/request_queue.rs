//! The classes of the pods of a request, and the order in which they are placed.

use std::{cmp::Reverse, sync::Arc};

use crate::{
    model::{Pod, Snapshot},
    scheduling::{
        ids::{Id, IdVec, PodClassId, PodId},
        placement::{Placement, domains::count_new_groups},
        tables::{Tables, pod_classes},
    },
};

/// The classes and the order of the pods of a request. Passes over one request share it.
#[derive(Debug, Default)]
pub(crate) struct RequestQueue {
    /// Empty for small requests, which are not kept.
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) classes: IdVec<PodId, PodClassId>,
    pub(crate) queue: Vec<PodId>,
}

/// Requests of fewer pods are not kept.
const MIN_KEPT_PODS: usize = 64;

impl RequestQueue {
    /// The classes of some pods and their order; from this one where it is of the same pods.
    pub(crate) fn next(&mut self, tables: &mut Tables, placement: &mut Placement, pods: &[Arc<Pod>]) -> Self {
        let known = std::mem::take(self);
        let same = |(a, b): (&Arc<Pod>, &Arc<Pod>)| Arc::ptr_eq(a, b);
        if pods.len() >= MIN_KEPT_PODS
            && known.pods.len() == pods.len()
            && known.pods.iter().zip(pods).all(same)
        {
            return known;
        }
        let classes: IdVec<PodId, PodClassId> =
            pods.iter().map(|pod| pod_classes::class_of(tables, pod)).collect();
        count_new_groups(tables, placement);
        let queue = queue(pods, &classes, tables);
        Self { pods: if pods.len() < MIN_KEPT_PODS { Vec::new() } else { pods.to_vec() }, classes, queue }
    }

    /// Keeps a request for the next one, unless it is small.
    pub(crate) fn keep(&mut self, queue: Self) {
        *self = if queue.pods.is_empty() { Self::default() } else { queue };
    }
}

/// Real pods first; CPU descending, memory descending, creation, UID. Pods that a claim answers come before all others:
/// no other pod takes their place; then those that the last pass did not reach, the oldest first.
/// Capacity buffers get what pods of the cluster leave. Of pods that required affinity ties to one domain, those that can be in the
/// fewest domains come first: the others follow them.
pub(crate) fn queue(pods: &[Arc<Pod>], classes: &[PodClassId], tables: &Tables) -> Vec<PodId> {
    let size = |class: PodClassId| {
        let requests = tables.classes[class].pod.requests();
        let domains = tables.tied_domains(class).unwrap_or(usize::MAX);
        (domains, Reverse(requests.cpu()), Reverse(requests.memory()))
    };
    let mut sizes: Vec<_> = classes.iter().map(|class| size(*class)).collect();
    let of_pod = sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let Snapshot { nominated, deferred, .. } = &*tables.snapshot;
    // Most comparisons are of a small number; names are compared only among pods of one size.
    let ranked = pods.iter().zip(of_pod).enumerate().map(|(index, (pod, size))| {
        let free = nominated.is_empty() || !nominated.contains_key(&pod.uid);
        let new = deferred.is_empty() || !deferred.contains(&pod.uid);
        let rank = sizes.binary_search(&size).unwrap_or(0);
        (free, new, new && pod.is_virtual, if new { rank } else { 0 }, index)
    });
    let mut ranked: Vec<(bool, bool, bool, usize, usize)> = ranked.collect();
    ranked.sort_unstable();
    let rank = |a: &(bool, bool, bool, usize, usize)| (a.0, a.1, a.2, a.3);
    for alike in ranked.chunk_by_mut(|a, b| rank(a) == rank(b)) {
        let key = |a: &(bool, bool, bool, usize, usize)| {
            let pod = &pods[a.4];
            let (cpu, memory) = (pod.requests().cpu(), pod.requests().memory());
            let waits = (!a.1).then_some((pod.is_virtual, Reverse(cpu), Reverse(memory)));
            (pod.created, waits, &*pod.uid, a.4)
        };
        // Pods of one template mostly come in order.
        if !alike.is_sorted_by(|a, b| key(a) <= key(b)) {
            alike.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        }
    }
    ranked.into_iter().map(|(.., index)| PodId::new(index)).collect()
}
