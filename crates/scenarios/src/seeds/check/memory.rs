//! S16: an operator keeps nothing in memory for deleted objects, so that its memory depends on the size of the cluster and not on its
//! history.

use super::{Findings, Observation};
use fleetwright_sim::simulator::Simulator;

/// Checks the final state, when the cluster is stable.
pub(super) fn judge(simulator: &Simulator, observation: &Observation<'_>, found: &mut Findings) {
    let Some(ctx) = simulator.controllers() else { return };
    let index = ctx.cluster.index();
    let held = [
        ("nodeclaims", index.claims().count(), observation.claims.len()),
        ("nodes", index.nodes().count(), observation.nodes.len()),
        ("pods", index.pods().count(), observation.pods.len()),
        ("nodepools", index.pools().count(), observation.pools.len()),
        ("commands", index.intents().commands().len(), 0),
        ("objects that cannot be read", index.invalid().len(), 0),
    ];
    for (what, held, there) in held.into_iter().filter(|(_, held, there)| held > there) {
        found.add("S16", format!("an operator holds {held} {what}; the cluster has {there}"), []);
    }
}
