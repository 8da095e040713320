//! Several replacements, restricted to instance types that are cheaper in total.

use super::narrow::{
    force_spot, keep_spot_flexibility, may_be_spot, narrow, paid, prefer_spot, worst_launch_prices,
};
use crate::{
    disruption::{
        Candidate, Context, Unconsolidatable, gates,
        hints::{Demand, Hint, MIN_SAVING_PERCENT},
    },
    model::{Price, Prices},
    scheduling::{NODE_OVERHEAD, NewClaim},
};

/// Maximum number of replacements of a command.
const MAX_REPLACEMENTS: usize = 50;

/// The new NodeClaims, each restricted to instance types below its share of the current price of the nodes.
///
/// # Errors
/// Why they are not cheaper.
pub(in crate::disruption) fn cheaper_together(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claims: Vec<NewClaim>,
) -> Result<Vec<NewClaim>, Unconsolidatable> {
    let count = new_claims.len();
    let now = paid(candidates);
    let planned: Prices = new_claims.iter().map(|new_claim| new_claim.chosen.prices()).sum();
    let (before, after) = (i128::from(now.effective.nanos()), i128::from(planned.effective.nanos()));
    // Additional nodes have a cost beside their price.
    let more = i128::try_from(count.saturating_sub(candidates.len())).unwrap_or(i128::MAX);
    let after = after.saturating_add(more.saturating_mul(i128::from(NODE_OVERHEAD)));
    if count > MAX_REPLACEMENTS || 100 * after > (100 - MIN_SAVING_PERCENT) * before {
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
        let chosen = new_claim.chosen.prices();
        let share = Prices {
            list: share(now.list, chosen.list, planned.list),
            effective: share(now.effective, chosen.effective, planned.effective),
        };
        // A replacement of a candidate's own type saves nothing.
        let is_own_type = |name: &str| {
            let mut own = candidates.iter().filter_map(|candidate| candidate.instance_type.as_ref());
            own.any(|own| *own.name == *name)
        };
        let narrower = narrow(new_claim, |new_claim, offered, requirements| {
            !is_own_type(&offered.name)
                && worst_launch_prices(new_claim, offered, requirements)
                    .is_some_and(|prices| prices.are_below(share))
        });
        let mut new_claim = narrower.map_err(|why| why.unwrap_or(Unconsolidatable::NeedsSeveral(count)))?;
        if to_spot && candidates.len() == 1 {
            gates::narrow(context, candidates, &mut new_claim)?;
            keep_spot_flexibility(&mut new_claim)?;
        }
        prefer_spot(&mut new_claim);
        narrowed.push(new_claim);
    }
    Ok(narrowed)
}

/// The maximum price of a new NodeClaim: its share of the current price, in proportion to the expected prices. Then all
/// of them are cheaper in total, whichever instance types are launched.
fn share(paid: Price, chosen: Price, planned: Price) -> Price {
    if planned == Price::ZERO {
        return Price::ZERO;
    }
    let share = i128::from(paid.nanos()) * i128::from(chosen.nanos()) / i128::from(planned.nanos());
    Price::from_nanos(i64::try_from(share).unwrap_or(i64::MAX))
}

/// A hint if `new_claims`, those of a simulation, are cheaper in total.
pub(super) fn split_hint(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claims: Vec<NewClaim>,
) -> Option<Hint> {
    let now: Price = candidates.iter().map(|candidate| candidate.effective).sum();
    let new_claims = cheaper_together(context, candidates, new_claims).ok()?;
    let then: Price = new_claims.iter().map(|new_claim| new_claim.chosen.effective).sum();
    Some(Hint::Split(now.saturating_sub(then).nanos()))
}

/// A hint if packing by price may find a cheaper set than the simulation did.
pub(super) fn repack_hint(context: &Context<'_>, candidates: &[&Candidate], demand: Demand) -> Option<Hint> {
    // The settings forbid spot-to-spot consolidation, and on-demand nodes cost more.
    let forbidden = !context.rules.spot_to_spot && candidates.iter().all(|candidate| candidate.is_spot());
    (!forbidden).then_some(Hint::Demand(demand))
}
