//! NodeOverlays: the user's corrections of prices and capacities, applied to the instance types of NodePools.
//!
//! Pure: catalogues and overlays in, catalogues and a verdict for each overlay out. Overlays are taken by weight
//! descending, then by name descending; what a heavier one has set, a lighter one leaves alone. Two of one weight that
//! name the same price or the same resource of the same instance type are in conflict, also where a heavier one has
//! set it: the later one has no effect at all. What the provider knows no price of is for sale where an overlay names one.

mod price;
mod unpriced;

pub use price::{PriceChange, PriceChangeError};

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::model::{
    Catalog, InstanceType, NodePool, Offering, PoolName, Requirement, Requirements, ResourceName, Resources,
    Str, instance_type::HUGEPAGES, labels,
};

/// A NodeOverlay.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOverlay {
    /// The name.
    pub name: Str,
    /// `spec.weight`; unset is zero.
    pub weight: i32,
    /// Which instance types and offerings are meant.
    pub requirements: Requirements,
    /// What becomes of the price.
    pub price: Option<PriceChange>,
    /// Extended resources that the instance types have in addition.
    pub capacity: Resources,
}

/// What became of an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in effect, on so many instance types over all pools: none, where it selects none.
    Applied(usize),
    /// Another overlay of the same weight, named here, names a price or a resource that this one names.
    Conflict(Str),
}

/// The catalogues with all overlays applied, and what became of each overlay, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// The instance types of each pool; those that no overlay touches are shared.
    pub catalogs: BTreeMap<PoolName, Arc<Catalog>>,
    /// By name of the overlay.
    pub verdicts: BTreeMap<Str, Verdict>,
}

/// What has been set on one instance type of one pool: by the heaviest overlay that names it. Each entry has the
/// lightest one that names it, as those of one weight must not name the same.
#[derive(Debug, Default)]
struct Corrections<'a> {
    /// By index of the offering.
    prices: BTreeMap<usize, (PriceChange, &'a NodeOverlay)>,
    /// By resource.
    capacity: BTreeMap<Str, (i64, &'a NodeOverlay)>,
}

/// Applies `overlays`, in any order, to the instance types of `pools`.
#[must_use]
pub fn evaluate(
    pools: &[Arc<NodePool>],
    catalogs: &BTreeMap<PoolName, Arc<Catalog>>,
    overlays: &[NodeOverlay],
) -> Evaluation {
    let mut ordered: Vec<&NodeOverlay> = overlays.iter().collect();
    ordered.sort_by_key(|overlay| (Reverse(overlay.weight), Reverse(overlay.name.clone())));
    let supplied = unpriced::supply(pools, catalogs, &ordered);
    let catalogs = &supplied.catalogs;
    let mut all: BTreeMap<(&PoolName, usize), Corrections<'_>> = BTreeMap::new();
    let mut verdicts = BTreeMap::new();
    for overlay in ordered {
        let selected = selected(pools, catalogs, overlay);
        let conflict = selected
            .iter()
            .find_map(|((pool, at), offerings)| conflict(all.get(&(*pool, *at))?, overlay, offerings));
        let verdict = conflict.map_or(Verdict::Applied(selected.len()), Verdict::Conflict);
        if verdict == Verdict::Applied(selected.len()) {
            for (place, offerings) in selected {
                correct(all.entry(place).or_default(), overlay, &offerings);
            }
        }
        verdicts.insert(overlay.name.clone(), verdict);
    }
    let mut catalogs = catalogs.clone();
    for pool in pools {
        let Some(catalog) = catalogs.get_mut(&pool.name) else { continue };
        if let Some(corrected) = corrected(&pool.name, catalog, &all) {
            *catalog = Arc::new(corrected);
        }
        supplied.withdraw(&pool.name, catalog, &verdicts);
    }
    Evaluation { catalogs, verdicts }
}

/// A pool with the index of one of its instance types.
type Place<'a> = (&'a PoolName, usize);

/// The instance types that an overlay means, each with the offerings that it means.
fn selected<'a>(
    pools: &'a [Arc<NodePool>],
    catalogs: &BTreeMap<PoolName, Arc<Catalog>>,
    overlay: &NodeOverlay,
) -> Vec<(Place<'a>, Vec<usize>)> {
    let mut selected = Vec::new();
    for pool in pools {
        let Some(catalog) = catalogs.get(&pool.name) else { continue };
        let of_pool = of_pool(pool);
        for (at, instance_type) in catalog.instance_types.iter().enumerate() {
            if !means(overlay, &described(&of_pool, instance_type)) {
                continue;
            }
            let offerings = instance_type.offerings.iter().enumerate();
            let offerings = offerings.filter(|(_, offering)| means_offering(overlay, offering));
            let offerings: Vec<usize> = offerings.map(|(index, _)| index).collect();
            if !offerings.is_empty() {
                selected.push(((&pool.name, at), offerings));
            }
        }
    }
    selected
}

/// What nodes of a pool carry whatever they are.
fn of_pool(pool: &NodePool) -> Requirements {
    let mut all = Requirements::from_labels(&pool.template.labels);
    all.replace(Requirement::is_in(labels::NODEPOOL, [pool.name.as_str()]));
    all
}

/// What nodes of a type carry in a pool.
fn described(of_pool: &Requirements, instance_type: &InstanceType) -> Requirements {
    let mut all = of_pool.clone();
    all.add_all(&instance_type.requirements);
    all
}

/// Whether an overlay means what is `described`.
fn means(overlay: &NodeOverlay, described: &Requirements) -> bool {
    described.compatible(&overlay.requirements, |_| false).is_ok()
}

fn means_offering(overlay: &NodeOverlay, offering: &Offering) -> bool {
    overlay.requirements.overlaps(&offering.requirements)
}

/// The overlay of the same weight that names what `overlay` names.
fn conflict(made: &Corrections<'_>, overlay: &NodeOverlay, offerings: &[usize]) -> Option<Str> {
    let rival = |other: &&NodeOverlay| other.weight == overlay.weight;
    let prices = offerings.iter().filter(|_| overlay.price.is_some());
    let by_price = prices.filter_map(|at| made.prices.get(at).map(|(_, lightest)| *lightest));
    let resources = overlay.capacity.iter();
    let by_capacity =
        resources.filter_map(|(name, _)| made.capacity.get(name.as_str()).map(|(_, lightest)| *lightest));
    by_price.chain(by_capacity).find(rival).map(|other| other.name.clone())
}

/// Notes what `overlay` sets, where nothing heavier has set it.
fn correct<'a>(made: &mut Corrections<'a>, overlay: &'a NodeOverlay, offerings: &[usize]) {
    if let Some(change) = overlay.price {
        for at in offerings {
            made.prices.entry(*at).or_insert((change, overlay)).1 = overlay;
        }
    }
    for (name, amount) in overlay.capacity.iter() {
        made.capacity.entry(name.as_str().into()).or_insert((amount, overlay)).1 = overlay;
    }
}

/// The corrected catalogue; `None` where nothing changes.
fn corrected(
    pool: &PoolName,
    catalog: &Catalog,
    all: &BTreeMap<Place<'_>, Corrections<'_>>,
) -> Option<Catalog> {
    let mut overlaid = BTreeSet::new();
    let mut changed = false;
    let instance_types = catalog.instance_types.iter().enumerate().map(|(at, instance_type)| {
        let Some(made) = all.get(&(pool, at)) else { return Arc::clone(instance_type) };
        changed = true;
        if !made.capacity.is_empty() {
            overlaid.insert(instance_type.name.clone());
        }
        Arc::new(apply(instance_type, made))
    });
    let instance_types = instance_types.collect();
    changed.then_some(Catalog { instance_types, overlaid, ..Catalog::default() })
}

fn apply(instance_type: &InstanceType, made: &Corrections<'_>) -> InstanceType {
    let mut changed = instance_type.clone();
    for (at, (change, _)) in &made.prices {
        if let Some(offering) = changed.offerings.get_mut(*at) {
            offering.price = change.apply(offering.price);
            offering.overlaid = true;
        }
    }
    for (name, (amount, _)) in &made.capacity {
        let name = ResourceName::from(&**name);
        changed.capacity.set(&name, *amount);
        // An offering whose allocatable differs from the type's has the resource too. Hugepages come out of its memory.
        for allocatable in changed.offerings.iter_mut().filter_map(|offering| offering.allocatable.as_mut()) {
            if name.as_str().starts_with(HUGEPAGES) {
                let added = amount.saturating_sub(allocatable.get(&name));
                let memory = allocatable.memory().saturating_sub(added).max(0);
                allocatable.set(&ResourceName::Memory, memory);
            }
            allocatable.set(&name, *amount);
        }
    }
    changed
}

#[cfg(test)]
mod tests;
