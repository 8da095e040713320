//! The instance types and offerings that a launch may choose from: Karpenter's filters in Karpenter's order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleetwright_aws_api::labels;
use fleetwright_core::model::{
    Catalog, InstanceType, NodeClaim, Offering, Price,
    labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT},
};
use fleetwright_core::scheduling::MinValuesPolicy;

/// Most instance types of one launch, the cheapest.
const TYPES_MAX: usize = 60;

/// An instance type with the offerings that remain.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The type.
    pub instance_type: Arc<InstanceType>,
    /// Its offerings.
    pub offerings: Vec<Offering>,
}

impl Candidate {
    fn cheapest(&self) -> Price {
        self.offerings.iter().map(|offering| offering.price).min().unwrap_or(Price::MAX)
    }

    fn keep(&mut self, wanted: impl Fn(&Offering) -> bool) {
        self.offerings.retain(wanted);
    }
}

/// The choices of a launch, all of one capacity type.
#[derive(Clone, Debug, PartialEq)]
pub struct Filtered {
    /// The types, cheapest first.
    pub candidates: Vec<Candidate>,
    /// `reserved`, `spot` or `on-demand`.
    pub capacity_type: &'static str,
}

/// Filters the catalogue for a NodeClaim; `None` if nothing remains, or less variety than minValues requires.
#[must_use]
pub fn candidates(claim: &NodeClaim, catalog: &Catalog, policy: MinValuesPolicy) -> Option<Filtered> {
    let picky = claim.requirements.has_min_values();
    let mut all = compatible(claim, catalog);
    if claim.requirements.allows(CAPACITY_TYPE, RESERVED) {
        one_kind_of_reservation(&mut all);
        one_block(&mut all);
        reserved_first(&mut all);
    }
    if !picky {
        without_exotic(&mut all);
        without_dear_spot(&mut all);
    }
    all.sort_by(|a, b| {
        a.cheapest().cmp(&b.cheapest()).then_with(|| a.instance_type.name.cmp(&b.instance_type.name))
    });
    all.truncate(TYPES_MAX);
    // Checked before the capacity type is chosen: the planner counts types of all capacity types, and would create the same NodeClaim
    // again.
    let varied = policy == MinValuesPolicy::BestEffort || enough_values(claim, &all);
    let has = |wanted: &str| all.iter().flat_map(|c| &c.offerings).any(|o| is(o, wanted));
    let capacity_type = [RESERVED, SPOT].into_iter().find(|wanted| has(wanted)).unwrap_or(ON_DEMAND);
    for candidate in &mut all {
        candidate.keep(|offering| is(offering, capacity_type));
    }
    all.retain(|candidate| !candidate.offerings.is_empty());
    (!all.is_empty() && varied).then_some(Filtered { candidates: all, capacity_type })
}

fn is(offering: &Offering, capacity_type: &str) -> bool {
    offering.capacity_type().is_some_and(|own| &**own == capacity_type)
}

/// Types that meet the NodeClaim's requirements and fit its requests, with their available offerings.
fn compatible(claim: &NodeClaim, catalog: &Catalog) -> Vec<Candidate> {
    let allowed = catalog
        .instance_types
        .iter()
        .filter(|instance_type| claim.requirements.overlaps(&instance_type.requirements));
    let candidate = |instance_type: &Arc<InstanceType>| {
        let fits = |offering: &&Offering| {
            offering.available
                && claim.requirements.overlaps(&offering.requirements)
                && claim.requests.fits(&instance_type.allocatable_of(offering))
        };
        let offerings: Vec<Offering> = instance_type.offerings.iter().filter(fits).cloned().collect();
        (!offerings.is_empty()).then(|| Candidate { instance_type: instance_type.clone(), offerings })
    };
    allowed.filter_map(candidate).collect()
}

/// Distinguishes kinds of reservations: ordinary ones, capacity blocks and interruptible ones are launched differently.
fn kind(offering: &Offering) -> Option<(u8, u8)> {
    if !offering.is_reserved() {
        return None;
    }
    let value = |key: &str| offering.requirements.get(key).and_then(|r| r.single());
    let block = value(labels::CAPACITY_RESERVATION_TYPE).is_some_and(|kind| &**kind == "capacity-block");
    let interruptible = value(labels::CAPACITY_RESERVATION_INTERRUPTIBLE).is_some_and(|v| &**v == "true");
    // In order of preference among equals: ordinary, capacity block, interruptible.
    Some((u8::from(interruptible), u8::from(block)))
}

/// Keeps the kind of reservation with the cheapest offering.
fn one_kind_of_reservation(all: &mut [Candidate]) {
    let mut best: BTreeMap<(u8, u8), Price> = BTreeMap::new();
    for offering in all.iter().flat_map(|candidate| &candidate.offerings) {
        if let Some(kind) = kind(offering) {
            let price = best.entry(kind).or_insert(offering.price);
            *price = offering.price.min(*price);
        }
    }
    let Some((&chosen, _)) = best.iter().min_by_key(|(kind, price)| (**price, **kind)) else { return };
    for candidate in all {
        candidate.keep(|offering| kind(offering).is_none_or(|own| own == chosen));
    }
}

/// A capacity block is launched alone: if blocks remain, only the cheapest one on the cheapest type is kept.
fn one_block(all: &mut Vec<Candidate>) {
    let is_block = |offering: &Offering| kind(offering).is_some_and(|(_, block)| block == 1);
    let blocks = all.iter().flat_map(|candidate| {
        candidate.offerings.iter().filter(|offering| is_block(offering)).map(|offering| {
            (offering.price, candidate.instance_type.name.clone(), offering.requirements.clone())
        })
    });
    let Some((_, name, requirements)) = blocks.min() else { return };
    all.retain(|candidate| candidate.instance_type.name == name);
    for candidate in all {
        candidate.keep(|offering| offering.requirements == requirements);
    }
}

/// If any offering is reserved, only reserved ones are kept: in each zone the reservation with the most free capacity.
fn reserved_first(all: &mut Vec<Candidate>) {
    if !all.iter().flat_map(|candidate| &candidate.offerings).any(Offering::is_reserved) {
        return;
    }
    for candidate in all.iter_mut() {
        let mut roomiest: BTreeMap<String, Offering> = BTreeMap::new();
        for offering in candidate.offerings.drain(..).filter(Offering::is_reserved) {
            let zone = offering.zone().map(ToString::to_string).unwrap_or_default();
            let more = |known: &Offering| offering.reservation_capacity > known.reservation_capacity;
            if roomiest.get(&zone).is_none_or(more) {
                roomiest.insert(zone, offering);
            }
        }
        candidate.offerings = roomiest.into_values().collect();
    }
    all.retain(|candidate| !candidate.offerings.is_empty());
}

/// Instances with devices and bare metal are for pods that request them; for others they are the last resort.
fn without_exotic(all: &mut Vec<Candidate>) {
    let exotic = |candidate: &Candidate| {
        let metal = candidate.instance_type.requirements.get(labels::INSTANCE_SIZE).and_then(|r| r.single());
        let has = |name: &str| candidate.instance_type.capacity.get(&name.into()) > 0;
        metal.is_some_and(|size| size.contains("metal"))
            || labels::EXOTIC_RESOURCES.iter().any(|name| has(name))
    };
    if all.iter().any(|candidate| !exotic(candidate)) {
        all.retain(|candidate| !exotic(candidate));
    }
}

/// Removes spot offerings above the cheapest on-demand price, which are not worth their interruptions.
fn without_dear_spot(all: &mut Vec<Candidate>) {
    let offerings = || all.iter().flat_map(|candidate| &candidate.offerings);
    let on_demand =
        offerings().filter(|offering| is(offering, ON_DEMAND)).map(|offering| offering.price).min();
    let Some(limit) = on_demand.filter(|_| offerings().any(|offering| is(offering, SPOT))) else { return };
    for candidate in all.iter_mut() {
        candidate.keep(|offering| !is(offering, SPOT) || offering.price <= limit);
    }
    all.retain(|candidate| !candidate.offerings.is_empty());
}

/// Whether enough distinct values remain for every requirement with minValues.
fn enough_values(claim: &NodeClaim, all: &[Candidate]) -> bool {
    claim.requirements.iter().all(|requirement| {
        let Some(least) = requirement.min_values() else { return true };
        let of_types = all.iter().filter_map(|c| c.instance_type.requirements.get(requirement.key()));
        let values: BTreeSet<&str> = of_types
            .flat_map(|own| own.values().iter())
            .map(|value| &**value)
            .filter(|value| requirement.has(value))
            .collect();
        usize::try_from(least).is_ok_and(|least| values.len() >= least)
    })
}
