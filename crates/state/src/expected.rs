//! The expected capacity of a node that is not launched yet, from the instance types that its NodeClaim allows.

use std::sync::Arc;

use fleetwright_core::model::{Catalog, InstanceType, NodeClaim, ResourceName, Resources, labels};

/// The instance types that a NodeClaim allows and that fit its requests.
fn candidates<'a>(
    claim: &'a NodeClaim,
    catalog: &'a Catalog,
) -> impl Iterator<Item = (&'a Arc<InstanceType>, Resources)> {
    catalog.instance_types.iter().filter_map(|instance_type| {
        let allowed = claim.requirements.allows(labels::INSTANCE_TYPE, &instance_type.name)
            && claim.requirements.overlaps(&instance_type.requirements);
        let allocatable = allowed.then(|| instance_type.allocatable())?;
        claim.requests.fits(&allocatable).then_some((instance_type, allocatable))
    })
}

/// The claim with capacity and allocatable where its status has none: the smallest amount of each resource among its
/// candidates, so that pods fit whichever type the cloud chooses. The cloud does not know the resources of NodeOverlays: they are added to
/// its answer.
pub(crate) fn filled(claim: Arc<NodeClaim>, catalog: Option<&Catalog>) -> Arc<NodeClaim> {
    if !claim.capacity.is_zero() && !claim.allocatable.is_zero() {
        return catalog.and_then(|catalog| overlaid(&claim, catalog)).map_or(claim, Arc::new);
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

/// The claim of a type whose capacity a NodeOverlay extends, with the resources that the cloud did not name.
fn overlaid(claim: &NodeClaim, catalog: &Catalog) -> Option<NodeClaim> {
    let name = claim.labels.get(labels::INSTANCE_TYPE).filter(|name| catalog.overlaid.contains(*name))?;
    let promised = &catalog.get(name)?.capacity;
    let missing = |of: &Resources| {
        let extended =
            promised.extended().iter().filter(|(name, _)| of.get(&ResourceName::Other(name.clone())) == 0);
        extended.fold(of.clone(), |all, (name, amount)| all.with(ResourceName::Other(name.clone()), *amount))
    };
    let (capacity, allocatable) = (missing(&claim.capacity), missing(&claim.allocatable));
    Some(NodeClaim { capacity, allocatable, ..claim.clone() })
}

/// The most that the node of a claim can have: its capacity or, while that is unknown, the largest amount of each
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

#[cfg(test)]
mod tests {
    //! What a NodeClaim may become, at least and at most.
    use fleetwright_core::{
        model::{Requirement, StateNode},
        testing::{instance_type, node},
    };

    use super::*;

    fn catalog() -> Catalog {
        let of = |name, cpus| instance_type(name, cpus, 8).offer("a", "spot", 1).build();
        Catalog::new(vec![of("tiny", 1), of("small", 4), of("large", 16), of("other", 64)])
    }

    /// A NodeClaim that is not launched, for 3 CPUs, of any type but `other`.
    fn claim(change: impl FnOnce(&mut NodeClaim)) -> Arc<NodeClaim> {
        let types: &[&str] = &["tiny", "small", "large"];
        let built = node("c").unlaunched(&[(labels::INSTANCE_TYPE, types)]).with_claim(|claim| {
            claim.requests = Resources::of(3000, 0);
            (claim.capacity, claim.allocatable) = (Resources::new(), Resources::new());
            change(claim);
        });
        let StateNode { claim, .. } = Arc::unwrap_or_clone(built.build());
        claim.expect("a claim")
    }

    #[test]
    fn a_nodeclaim_that_is_not_launched_has_the_least_and_counts_as_the_most() {
        let figures = |claim: Arc<NodeClaim>| {
            let most = at_most(&claim, Some(&catalog())).cpu();
            let least = filled(claim, Some(&catalog()));
            (least.capacity.cpu(), least.allocatable.cpu(), most)
        };
        assert_eq!(figures(claim(|_| {})), (4000, 4000, 16_000));
        let arm = claim(|claim| claim.requirements.add(Requirement::is_in(labels::ARCH, ["arm64"])));
        assert_eq!(figures(arm), (0, 0, 3000), "no type is left: what pods asked for counts");
        let launched = claim(|claim| {
            (claim.capacity, claim.allocatable) = (Resources::of(5000, 1), Resources::of(4500, 1));
        });
        assert_eq!(figures(launched), (5000, 4500, 5000), "the cloud's figures");
        let halfway = claim(|claim| claim.capacity = Resources::of(5000, 1));
        assert_eq!(figures(halfway), (5000, 4000, 5000), "the cloud did not give what is allocatable");
        let other = claim(|claim| claim.allocatable = Resources::of(2000, 1));
        assert_eq!(figures(other), (4000, 2000, 16_000));
        assert_eq!(at_most(&claim(|_| {}), None).cpu(), 3000, "the catalogue is unknown");
    }
}
