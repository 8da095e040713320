//! A replacement, restricted to cheaper instance types.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    disruption::{Candidate, Context, Unconsolidatable, gates},
    model::{
        InstanceType, Offering, Prices, Requirement, Requirements,
        labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT},
    },
    scheduling::NewClaim,
};

/// Minimum number of cheaper types for the replacement of a spot node by another spot node, so that
/// the replacement is not always of the type that is reclaimed next.
const SPOT_TO_SPOT_TYPES: usize = 15;

/// The new NodeClaim, restricted to instance types that are strictly cheaper than the nodes that it replaces.
///
/// # Errors
/// Why no instance type is left.
pub(super) fn cheaper(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claim: NewClaim,
) -> Result<NewClaim, Unconsolidatable> {
    let now = paid(candidates);
    if may_be_spot(&new_claim) && candidates.iter().all(|candidate| candidate.is_spot()) {
        return spot_to_spot(context, candidates, new_claim, now);
    }
    // The highest possible launch price counts; it may be above the expected one.
    let worst = |t: &Arc<InstanceType>| worst_launch_prices(&new_claim, t, &new_claim.requirements);
    let cheapest = new_claim
        .instance_types
        .iter()
        .filter_map(worst)
        .min_by_key(|prices| (prices.effective, prices.list));
    let others = others(candidates, &new_claim);
    let not_cheaper = not_cheaper(context, now, cheapest, others);
    let mut new_claim = narrow(new_claim, |new_claim, t, requirements| {
        worst_launch_prices(new_claim, t, requirements).is_some_and(|prices| prices.are_below(now))
    })
    .map_err(|error| error.unwrap_or(not_cheaper))?;
    prefer_spot(&mut new_claim);
    Ok(new_claim)
}

/// The refusal of a replacement that costs as much as the nodes.
pub(in crate::disruption) fn not_cheaper(
    context: &Context<'_>,
    now: Prices,
    cheapest: Option<Prices>,
    others: usize,
) -> Unconsolidatable {
    Unconsolidatable::NotCheaper { now, cheapest, others, currency: context.snapshot.currency }
}

fn spot_to_spot(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claim: NewClaim,
    now: Prices,
) -> Result<NewClaim, Unconsolidatable> {
    if !context.rules.spot_to_spot {
        return Err(Unconsolidatable::SpotToSpotDisabled);
    }
    let mut new_claim = new_claim;
    force_spot(&mut new_claim);
    let (cheapest, others) = (Some(new_claim.chosen.prices()), others(candidates, &new_claim));
    let not_cheaper = not_cheaper(context, now, cheapest, others);
    let mut new_claim = narrow(new_claim, |new_claim, t, requirements| {
        worst_launch_prices(new_claim, t, requirements).is_some_and(|prices| prices.are_below(now))
    })
    .map_err(|error| error.unwrap_or(not_cheaper))?;
    if candidates.len() == 1 {
        gates::narrow(context, candidates, &mut new_claim)?;
        keep_spot_flexibility(&mut new_claim)?;
    }
    Ok(new_claim)
}

/// The pods of a new NodeClaim that are not of the nodes that it replaces: the simulation places pending pods too, and those of nodes
/// that are being removed.
pub(in crate::disruption) fn others(candidates: &[&Candidate], new_claim: &NewClaim) -> usize {
    let moved: BTreeSet<_> =
        candidates.iter().flat_map(|candidate| &candidate.moved).map(|pod| &pod.uid).collect();
    new_claim.pods.iter().filter(|pod| !moved.contains(&pod.uid)).count()
}

/// Fixes the capacity type to spot if both spot and on-demand are left: the spot price was compared, and the
/// launch could choose either.
pub(super) fn prefer_spot(new_claim: &mut NewClaim) {
    if new_claim.requirements.allows(CAPACITY_TYPE, ON_DEMAND) && may_be_spot(new_claim) {
        force_spot(new_claim);
    }
}

/// Whether one of its instance types has a spot offering.
pub(super) fn may_be_spot(new_claim: &NewClaim) -> bool {
    new_claim.requirements.allows(CAPACITY_TYPE, SPOT)
        && new_claim.instance_types.iter().any(|known| offers(known, &new_claim.requirements, SPOT))
}

/// Keeps as many of the cheapest types of a spot-to-spot replacement as it needs to choose from.
///
/// # Errors
/// If there are too few.
pub(super) fn keep_spot_flexibility(new_claim: &mut NewClaim) -> Result<(), Unconsolidatable> {
    let found = new_claim.instance_types.len();
    if found < SPOT_TO_SPOT_TYPES {
        return Err(Unconsolidatable::SpotToSpotFlexibility(found));
    }
    let needed = (SPOT_TO_SPOT_TYPES..=found).find(|count| {
        let chosen_types = &new_claim.instance_types[..*count];
        new_claim.unmet_min_values(chosen_types).is_none()
    });
    new_claim.retain_first(needed.unwrap_or(found));
    Ok(())
}

/// Fixes the capacity type to spot.
pub(super) fn force_spot(new_claim: &mut NewClaim) {
    new_claim.requirements.add(Requirement::is_in(CAPACITY_TYPE, [SPOT]));
    new_claim.refresh();
}

/// Keeps the instance types that `keep` accepts; `Err(None)` if none is left, `Err(Some)` if minValues is not met.
pub(super) fn narrow(
    mut new_claim: NewClaim,
    keep: impl Fn(&NewClaim, &InstanceType, &Requirements) -> bool,
) -> Result<NewClaim, Option<Unconsolidatable>> {
    let before = new_claim.clone();
    new_claim.retain(|instance_type| keep(&before, instance_type, &before.requirements));
    if new_claim.instance_types.is_empty() {
        return Err(None);
    }
    match new_claim.unmet_min_values(&new_claim.instance_types) {
        Some(key) => Err(Some(Unconsolidatable::MinValues(key))),
        None => Ok(new_claim),
    }
}

fn offers(instance_type: &InstanceType, requirements: &Requirements, capacity_type: &str) -> bool {
    let has_type =
        |offering: &Offering| offering.capacity_type().is_some_and(|found| &**found == capacity_type);
    let fits = |offering: &Offering| requirements.overlaps(&offering.requirements);
    let mut offerings = instance_type.offerings.iter();
    offerings.any(|offering| has_type(offering) && offering.available && fits(offering))
}

/// What the nodes cost together now.
pub(in crate::disruption) fn paid(candidates: &[&Candidate]) -> Prices {
    candidates.iter().map(|candidate| candidate.prices()).sum()
}

/// The highest prices of the available offerings of the first capacity type that is compatible: reserved, spot, on-demand. The launch may
/// choose them, so they must be lower.
pub(in crate::disruption) fn worst_launch_prices(
    new_claim: &NewClaim,
    instance_type: &InstanceType,
    requirements: &Requirements,
) -> Option<Prices> {
    let allowed = |capacity_type: &&&str| requirements.allows(CAPACITY_TYPE, capacity_type);
    [RESERVED, SPOT, ON_DEMAND].iter().filter(allowed).find_map(|capacity_type| {
        let fitting = instance_type.offerings.iter().filter(|offering| {
            offering.available
                && offering.capacity_type().is_some_and(|found| &**found == *capacity_type)
                && requirements.overlaps(&offering.requirements)
        });
        let list = fitting.map(|offering| offering.price).max()?;
        Some(Prices { list, effective: new_claim.objective.effective(&new_claim.pool, instance_type, list) })
    })
}
