//! The outcome of a pass for CapacityBuffers: whether their chunks fit, and on which nodes.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::{
    model::{ClaimName, NamespacedName, Pod, Str},
    scheduling::Plan,
};
use fleetwright_state::{BufferOutcome, Key};

use super::names::CAPACITY_BUFFER;
use crate::runtime::Cluster;

/// The buffer of a virtual pod.
fn buffer_of(pod: &Pod) -> Option<NamespacedName> {
    let owner = pod.owner.as_ref().filter(|_| pod.is_virtual)?;
    Some(NamespacedName::new(pod.id.namespace.clone(), owner.name.clone()))
}

/// Whether each buffer of a plan fits on existing and in-flight nodes.
pub(super) fn outcomes(plan: &Plan) -> BTreeMap<NamespacedName, BufferOutcome> {
    let fits = plan.existing.iter().flat_map(|placement| &placement.pods);
    let new = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
    let unfit = new.chain(plan.unplaced.iter().map(|(pod, _)| pod));
    let mut outcomes: BTreeMap<NamespacedName, BufferOutcome> =
        fits.filter_map(|pod| Some((buffer_of(pod)?, BufferOutcome::Fits))).collect();
    outcomes.extend(unfit.filter_map(|pod| Some((buffer_of(pod)?, BufferOutcome::NeedsCapacity))));
    outcomes
}

/// The number of chunks that a plan places on each existing node, by name of its NodeClaim or Node.
pub(super) fn chunks(plan: &Plan) -> BTreeMap<Str, u32> {
    let mut chunks = BTreeMap::new();
    for placement in &plan.existing {
        let node = &placement.node;
        let name = node.claim_name().map_or_else(|| node.name(), ClaimName::as_str);
        add_chunks(&mut chunks, name, &placement.pods);
    }
    chunks
}

/// Adds the chunks among `pods` to those on `target`.
pub(super) fn add_chunks(chunks: &mut BTreeMap<Str, u32>, target: &str, pods: &[Arc<Pod>]) {
    let count = pods.iter().filter(|pod| pod.is_virtual).count();
    if count > 0 {
        let sum = chunks.entry(target.into()).or_default();
        *sum = sum.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }
}

/// Records the outcome of a pass; a change is written to the status of the buffers.
pub(super) fn record(
    cluster: &Cluster,
    outcomes: BTreeMap<NamespacedName, BufferOutcome>,
    chunks: BTreeMap<Str, u32>,
) {
    let changed = cluster.index().set_buffer_outcomes(&outcomes, chunks);
    if changed {
        cluster.enqueue(CAPACITY_BUFFER, Key::singleton());
    }
}
