//! What a machine will be that is not launched yet: reckoned from the instance types that its NodeClaim allows.

use std::sync::Arc;

use fleetwright_core::model::{Catalog, InstanceType, NodeClaim, Resources, labels};

/// The instance types that a claim allows and that hold what it asks for.
fn candidates<'a>(
    claim: &'a NodeClaim,
    catalog: &'a Catalog,
) -> impl Iterator<Item = (&'a Arc<InstanceType>, Resources)> {
    catalog.instance_types.iter().filter_map(|instance_type| {
        let allowed = claim.requirements.allows(labels::INSTANCE_TYPE, &instance_type.name)
            && claim.requirements.intersects(&instance_type.requirements).is_ok();
        let allocatable = allowed.then(|| instance_type.allocatable())?;
        claim.requests.fits(&allocatable).then_some((instance_type, allocatable))
    })
}

/// The claim with capacity and allocatable where its status has none: the smallest amount of each resource among its
/// candidates. It is room that may be planned with, whichever type the cloud chooses.
pub(crate) fn filled(claim: Arc<NodeClaim>, catalog: Option<&Catalog>) -> Arc<NodeClaim> {
    if !claim.capacity.is_zero() && !claim.allocatable.is_zero() {
        return claim;
    }
    let Some(catalog) = catalog else { return claim };
    let least = candidates(&claim, catalog)
        .map(|(instance_type, allocatable)| (instance_type.capacity.clone(), allocatable))
        .reduce(|a, b| (a.0.component_min(&b.0), a.1.component_min(&b.1)));
    let Some((capacity, allocatable)) = least else { return claim };
    let mut expected = (*claim).clone();
    if expected.capacity.is_zero() {
        expected.capacity = capacity;
    }
    if expected.allocatable.is_zero() {
        expected.allocatable = allocatable;
    }
    Arc::new(expected)
}

/// The most that the machine of a claim can have: its capacity or, while that is unknown, the largest amount of each
/// resource among its candidates. Limits count it.
pub(crate) fn at_most(claim: &NodeClaim, catalog: Option<&Catalog>) -> Resources {
    if !claim.capacity.is_zero() {
        return claim.capacity.clone();
    }
    let Some(catalog) = catalog else { return claim.requests.clone() };
    candidates(claim, catalog)
        .map(|(instance_type, _)| instance_type.capacity.clone())
        .reduce(|a, b| a.component_max(&b))
        .unwrap_or_else(|| claim.requests.clone())
}
