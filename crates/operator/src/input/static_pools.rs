//! Static NodePools of an input whose number of nodes is not `spec.replicas`: no pod and no disruption method decides about these nodes.

use fleetwright_core::{
    disruption::{NodeCounts, scale},
    model::{ClaimName, Snapshot},
};

use crate::figures::{self, names};

/// A note on each NodePool that is scaled to its replicas at the time of the snapshot.
pub(crate) fn notes(snapshot: &Snapshot) -> Vec<String> {
    let mut notes = Vec::new();
    for pool in snapshot.pools.iter().filter(|pool| pool.ready && !pool.deleting) {
        let (Some(replicas), scaling) = (pool.replicas, scale(snapshot, pool, snapshot.taken_at)) else {
            continue;
        };
        let counts = NodeCounts::of(snapshot, &pool.name);
        let nodes = usize::try_from(counts.active + counts.replaced).unwrap_or(0);
        let replicas = usize::try_from(replicas).unwrap_or(0);
        let has = format!(
            "NodePool {} has {} for {}",
            pool.name,
            figures::count(nodes, "node"),
            figures::count(replicas, "replica")
        );
        let create = usize::try_from(scaling.create).unwrap_or(0);
        if create > 0 {
            let are = if create == 1 { "is" } else { "are" };
            notes.push(format!(
                "{has}: {} {are} created for it, which no figure here contains",
                figures::count(create, "node")
            ));
        }
        let limited = usize::try_from(scaling.limited).unwrap_or(0);
        if limited > 0 {
            notes.push(format!(
                "{has}: {} more would exceed spec.limits.nodes",
                figures::count(limited, "node")
            ));
        }
        if !scaling.remove.is_empty() {
            let removed: Vec<String> =
                scaling.remove.iter().map(|claim| node_name(snapshot, claim)).collect();
            let are = if removed.len() == 1 { "is" } else { "are" };
            notes.push(format!(
                "{has}: {} {are} removed, whatever budgets and pods allow: {}",
                figures::count(removed.len(), "node"),
                names(&removed)
            ));
        }
    }
    notes
}

/// The name of the node of a NodeClaim, or of the claim where there is none yet.
fn node_name(snapshot: &Snapshot, claim: &ClaimName) -> String {
    let node = snapshot.nodes.iter().find(|node| node.claim_name() == Some(claim));
    node.map_or_else(|| claim.to_string(), |node| node.name().to_owned())
}
