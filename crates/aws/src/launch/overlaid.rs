//! The catalogue of a launch with NodeOverlays: prices and capacity as in the decision, and availability as the provider knows it now.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetwright_core::model::{Catalog, InstanceType, Offering, Price, Str};

/// The catalogue for a NodeClaim's launch. Without overlays it is the provider's own.
#[must_use]
pub fn overlaid(own: &Arc<Catalog>, decided_by: Option<&Catalog>) -> Arc<Catalog> {
    let is_corrected = |seen: &&Catalog| {
        let mut offerings = seen.instance_types.iter().flat_map(|instance_type| &instance_type.offerings);
        !seen.overlaid.is_empty() || offerings.any(|offering| offering.overlaid)
    };
    let Some(seen) = decided_by.filter(is_corrected) else { return own.clone() };
    let mut types: BTreeMap<&Str, Arc<InstanceType>> =
        own.instance_types.iter().map(|instance_type| (&instance_type.name, instance_type.clone())).collect();
    for unpriced in &own.unpriced {
        let Some(corrected) = seen.get(&unpriced.name) else { continue };
        let bought = unpriced.offerings.iter().filter(|offering| price_of(offering, corrected).is_some());
        let known = types.get(&unpriced.name).map_or(&[][..], |instance_type| &instance_type.offerings);
        let offerings: Vec<Offering> = known.iter().chain(bought).cloned().collect();
        if offerings.len() > known.len() {
            let mut priced = (**unpriced).clone();
            priced.offerings = offerings;
            types.insert(&unpriced.name, Arc::new(priced));
        }
    }
    let merged = types.into_values().map(|instance_type| match seen.get(&instance_type.name) {
        Some(corrected) => Arc::new(merge(&instance_type, corrected, seen)),
        None => instance_type,
    });
    Arc::new(Catalog::new(merged.collect()).with_overlaid(seen.overlaid.clone()))
}

/// The price that an overlay set for an offering.
fn price_of(offering: &Offering, corrected: &InstanceType) -> Option<Price> {
    let same = |known: &&Offering| known.requirements == offering.requirements;
    corrected.offerings.iter().find(same).filter(|known| known.overlaid).map(|known| known.price)
}

/// The provider's offerings, with the prices and resources that overlays set.
fn merge(own: &InstanceType, corrected: &InstanceType, seen: &Catalog) -> InstanceType {
    let mut merged = own.clone();
    for offering in &mut merged.offerings {
        if let Some(price) = price_of(offering, corrected) {
            (offering.price, offering.overlaid) = (price, true);
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
