//! Several replacements narrowed to the instance types that pay together.

use super::narrow::{force_spot, keep_flexible, may_be_spot, narrow, prefer_spot, worst_launch_price};
use crate::{
    disruption::{
        Candidate, Context, Unconsolidatable, gates,
        leads::{Demand, LEAST_SAVING, Lead},
    },
    model::Price,
    scheduling::{NODE_OVERHEAD, NewClaim},
};

/// The most replacements of a command.
const MAX_REPLACEMENTS: usize = 50;

/// The new NodeClaims, each narrowed to what is cheaper than its share of what the nodes cost now.
///
/// # Errors
/// Why they do not pay.
pub(in crate::disruption) fn cheaper_together(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claims: Vec<NewClaim>,
) -> Result<Vec<NewClaim>, Unconsolidatable> {
    let count = new_claims.len();
    let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
    let planned: Price = new_claims.iter().map(|new_claim| new_claim.chosen.price).sum();
    let (paid, wanted) = (i128::from(now.nanos()), i128::from(planned.nanos()));
    // A larger number of nodes than before has a cost beside their price.
    let more = i128::try_from(count.saturating_sub(candidates.len())).unwrap_or(i128::MAX);
    let wanted = wanted.saturating_add(more.saturating_mul(i128::from(NODE_OVERHEAD)));
    if count > MAX_REPLACEMENTS || LEAST_SAVING * wanted > (LEAST_SAVING - 1) * paid {
        return Err(Unconsolidatable::NeedsSeveral(count));
    }
    let all_spot = candidates.iter().all(|candidate| candidate.is_spot());
    let mut narrowed = Vec::with_capacity(count);
    for mut new_claim in new_claims {
        let to_spot = all_spot && may_be_spot(&new_claim);
        if to_spot && !context.rules.spot_to_spot {
            return Err(Unconsolidatable::SpotToSpotDisabled);
        }
        if to_spot {
            force_spot(&mut new_claim);
        }
        let share = share(paid, new_claim.chosen.price, planned);
        // A candidate of a type that is bought could have stayed.
        let stays = |name: &str| {
            let mut own = candidates.iter().filter_map(|candidate| candidate.instance_type.as_ref());
            own.any(|own| *own.name == *name)
        };
        let narrower = narrow(new_claim, |offered, requirements| {
            !stays(&offered.name)
                && worst_launch_price(offered, requirements).is_some_and(|price| price < share)
        });
        let mut new_claim = narrower.map_err(|why| why.unwrap_or(Unconsolidatable::NeedsSeveral(count)))?;
        if to_spot && candidates.len() == 1 {
            gates::narrow(context, candidates, &mut new_claim)?;
            keep_flexible(&mut new_claim)?;
        }
        prefer_spot(&mut new_claim);
        narrowed.push(new_claim);
    }
    Ok(narrowed)
}

/// The part of what is paid now that a new NodeClaim may cost, in proportion to the expected prices: then all of them
/// are cheaper together, whatever is launched.
fn share(paid: i128, chosen: Price, planned: Price) -> Price {
    if planned == Price::ZERO {
        return Price::ZERO;
    }
    let share = paid * i128::from(chosen.nanos()) / i128::from(planned.nanos());
    Price::from_nanos(i64::try_from(share).unwrap_or(i64::MAX))
}

/// A lead where `new_claims`, those of a simulation, pay together.
pub(super) fn split(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claims: Vec<NewClaim>,
) -> Option<Lead> {
    let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
    let new_claims = cheaper_together(context, candidates, new_claims).ok()?;
    let then: Price = new_claims.iter().map(|new_claim| new_claim.chosen.price).sum();
    Some(Lead::Split(now.saturating_sub(then).nanos()))
}

/// A lead where a packing by price may find what a simulation did not.
pub(super) fn by_price(context: &Context<'_>, candidates: &[&Candidate], demand: Demand) -> Option<Lead> {
    // The settings forbid to replace spot nodes by spot nodes, and on-demand nodes cost more.
    let forbidden = !context.rules.spot_to_spot && candidates.iter().all(|candidate| candidate.is_spot());
    (!forbidden).then_some(Lead::Demand(demand))
}
