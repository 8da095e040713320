//! S16: what an operator keeps in memory is what is there. Nothing of what is gone is held, so that its memory follows from the size of the
//! cluster and not from its history.

use super::{Findings, Look};
use fleetwright_sim::world::World;

/// Judges the end, when all is at rest and nothing is under way.
pub(super) fn judge(world: &World, look: &Look<'_>, found: &mut Findings) {
    let Some(ctx) = world.controllers() else { return };
    let index = ctx.cluster.index();
    let held = [
        ("nodeclaims", index.claims().count(), look.claims.len()),
        ("nodes", index.nodes().count(), look.nodes.len()),
        ("pods", index.pods().count(), look.pods.len()),
        ("nodepools", index.pools().count(), look.pools.len()),
        ("commands", index.intents().commands().len(), 0),
        ("objects that cannot be read", index.invalid().len(), 0),
    ];
    for (what, held, there) in held.into_iter().filter(|(_, held, there)| held > there) {
        found.add("S16", format!("an operator holds {held} {what} where there are {there}"), []);
    }
}
