//! The catalogue that a launch chooses from, where NodeOverlays correct it: prices and capacity as the decision saw them, and what is
//! available as the provider knows it by now.

use std::sync::Arc;

use fleetwright_core::model::{Catalog, InstanceType};

/// What a claim's launch chooses from. Without any correction that is the provider's own catalogue.
#[must_use]
pub fn overlaid(own: &Arc<Catalog>, decided_by: Option<&Catalog>) -> Arc<Catalog> {
    let is_corrected = |seen: &&Catalog| {
        let mut offerings = seen.instance_types.iter().flat_map(|machine| &machine.offerings);
        !seen.overlaid.is_empty() || offerings.any(|offering| offering.overlaid)
    };
    let Some(seen) = decided_by.filter(is_corrected) else { return own.clone() };
    let merged = own.instance_types.iter().map(|machine| match seen.get(&machine.name) {
        Some(corrected) => Arc::new(merge(machine, corrected, seen)),
        None => machine.clone(),
    });
    Arc::new(Catalog { instance_types: merged.collect(), overlaid: seen.overlaid.clone() })
}

/// The provider's offerings, with the prices and the resources that overlays gave them.
fn merge(own: &InstanceType, corrected: &InstanceType, seen: &Catalog) -> InstanceType {
    let mut merged = own.clone();
    for offering in &mut merged.offerings {
        let same = |known: &&fleetwright_core::model::Offering| known.requirements == offering.requirements;
        if let Some(known) = corrected.offerings.iter().find(same).filter(|known| known.overlaid) {
            (offering.price, offering.overlaid) = (known.price, true);
        }
    }
    if seen.overlaid.contains(&own.name) {
        for (name, amount) in corrected.capacity.extended() {
            let name = (&**name).into();
            merged.capacity.set(&name, *amount);
            for allocatable in merged.offerings.iter_mut().filter_map(|o| o.allocatable.as_mut()) {
                allocatable.set(&name, *amount);
            }
        }
    }
    merged
}
