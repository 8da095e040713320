//! What a pass makes of capacity buffers: whether their chunks fit, and where there is room for them.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::{
    model::{ClaimName, NamespacedName, Pod, Snapshot, Str},
    scheduling::Plan,
};
use fleetwright_state::{BufferOutcome, Key};

use crate::{capacitybuffer, runtime::Ctx};

/// The buffer that a virtual pod stands for.
fn buffer_of(pod: &Pod) -> Option<NamespacedName> {
    let owner = pod.owner.as_ref().filter(|_| pod.is_virtual)?;
    Some(NamespacedName::new(pod.id.namespace.clone(), owner.name.clone()))
}

/// Whether each buffer of a plan fits on what there is.
pub(super) fn outcomes(plan: &Plan) -> BTreeMap<NamespacedName, BufferOutcome> {
    let fits = plan.existing.iter().flat_map(|placement| &placement.pods);
    let opened = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
    let unfit = opened.chain(plan.unplaced.iter().map(|(pod, _)| pod));
    let mut outcomes: BTreeMap<NamespacedName, BufferOutcome> =
        fits.filter_map(|pod| Some((buffer_of(pod)?, BufferOutcome::Fits))).collect();
    outcomes.extend(unfit.filter_map(|pod| Some((buffer_of(pod)?, BufferOutcome::NeedsCapacity))));
    outcomes
}

/// How many chunks a plan puts on each node that there is, by name of its NodeClaim or Node.
pub(super) fn held(snapshot: &Snapshot, plan: &Plan) -> BTreeMap<Str, u32> {
    let mut held = BTreeMap::new();
    for placement in &plan.existing {
        if let Some(node) = snapshot.nodes.get(placement.node) {
            let name = node.claim_name().map_or_else(|| node.name(), ClaimName::as_str);
            hold(&mut held, name, &placement.pods);
        }
    }
    held
}

/// Adds the chunks among `pods` to what is held on `target`.
pub(super) fn hold(held: &mut BTreeMap<Str, u32>, target: &str, pods: &[Arc<Pod>]) {
    let chunks = pods.iter().filter(|pod| pod.is_virtual).count();
    if chunks > 0 {
        let count = held.entry(target.into()).or_default();
        *count = count.saturating_add(u32::try_from(chunks).unwrap_or(u32::MAX));
    }
}

/// Notes the outcome of a pass; what changes is told to people.
pub(super) fn note(ctx: &Ctx, outcomes: BTreeMap<NamespacedName, BufferOutcome>, held: BTreeMap<Str, u32>) {
    let changed = ctx.index().set_buffer_outcomes(&outcomes, held);
    if changed {
        ctx.enqueue(capacitybuffer::NAME, Key::singleton());
    }
}
