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
#[derive(Debug)]
pub(crate) struct RequestQueue {
    pub(crate) classes: IdVec<PodId, PodClassId>,
    /// The distinct classes, ascending.
    pub(crate) distinct: Vec<PodClassId>,
    pub(crate) queue: Vec<PodId>,
}

impl RequestQueue {
    /// The request for some pods.
    pub(crate) fn new(tables: &mut Tables, placement: &mut Placement, pods: &[Arc<Pod>]) -> Self {
        let (classes, distinct) = compile(tables, placement, pods);
        let queue = order(tables, pods, &classes, classes.ids().collect());
        Self { classes, distinct, queue }
    }
}

/// The classes of some pods, all levels of which are compiled then, and the distinct ones of them, ascending.
pub(crate) fn compile(
    tables: &mut Tables,
    placement: &mut Placement,
    pods: &[Arc<Pod>],
) -> (IdVec<PodId, PodClassId>, Vec<PodClassId>) {
    let classes: IdVec<PodId, PodClassId> =
        pods.iter().map(|pod| pod_classes::class_of(tables, pod)).collect();
    let distinct = pod_classes::all_levels(tables, &classes);
    // All groups are known before anything is counted for a pass alone.
    count_new_groups(tables, placement);
    (classes, distinct)
}

/// Real pods first; CPU descending, memory descending, creation, UID. Pods that a claim answers come before all others:
/// no other pod takes their place; then those that the last pass did not reach, the oldest first.
/// Capacity buffers get what pods of the cluster leave. Of pods that required affinity ties to one domain, those that can be in the
/// fewest domains come first: the others follow them.
pub(crate) fn order(
    tables: &Tables,
    pods: &[Arc<Pod>],
    classes: &IdVec<PodId, PodClassId>,
    waiting: Vec<PodId>,
) -> Vec<PodId> {
    let pod = |index: usize| &pods[waiting[index].position()];
    let size = |class: PodClassId| {
        let requests = tables.classes[class].pod.requests();
        let domains = tables.tied_domains(class).unwrap_or(usize::MAX);
        (domains, Reverse(requests.cpu()), Reverse(requests.memory()))
    };
    let mut sizes: Vec<_> = waiting.iter().map(|pod_id| size(classes[*pod_id])).collect();
    let of_pod = sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let Snapshot { nominated, deferred, .. } = &*tables.snapshot;
    // Most comparisons are of a small number; names are compared only among pods of one size.
    let ranked = of_pod.into_iter().enumerate().map(|(index, size)| {
        let pod = pod(index);
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
            let pod = pod(a.4);
            let (cpu, memory) = (pod.requests().cpu(), pod.requests().memory());
            let waits = (!a.1).then_some((pod.is_virtual, Reverse(cpu), Reverse(memory)));
            (pod.created, waits, &*pod.uid, a.4)
        };
        // Pods of one template mostly come in order.
        if !alike.is_sorted_by(|a, b| key(a) <= key(b)) {
            alike.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        }
    }
    ranked.into_iter().map(|(.., index)| waiting[index]).collect()
}
