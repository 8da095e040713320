//! What the methods of consolidation share: who is a case, and what a set of nodes can be turned into.

use std::{sync::Arc, time::Duration};

use super::{
    Candidate, Command, Context, Method, Unconsolidatable, balanced, benefit, history,
    several::{self, suspects::Look},
    simulation::simulate,
};
use crate::{
    model::{
        ConsolidationPolicy, InstanceType, Price, Requirement, Requirements,
        labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE},
        nodeclaim::ConditionType,
    },
    scheduling::NewClaim,
};

/// From how many cheaper types a spot node must be able to choose before it is replaced by another spot node, so that it
/// does not race to the one type that is reclaimed next.
const SPOT_TO_SPOT_TYPES: usize = 15;

/// For so long prices are good enough to move pods for them.
const PRICES_LAST: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether consolidateAfter is over.
pub(super) fn is_consolidatable(context: &Context<'_>, candidate: &Candidate) -> bool {
    let (Some(claim), Some(after)) = (&candidate.node.claim, candidate.pool.consolidate_after) else {
        return false;
    };
    // The condition is written with a delay; the figures behind it count at once.
    let settled = claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized));
    let over = settled.is_none_or(|since| since.checked_add(after).is_ok_and(|end| end <= context.now));
    claim.is(ConditionType::Consolidatable) && over
}

/// Whether a node is a case for consolidation.
pub(super) fn is_case(context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
    if candidate.pool.is_static() {
        return Ok(false);
    }
    if candidate.instance_type.is_none() {
        let name = candidate.node.label(crate::model::labels::INSTANCE_TYPE).unwrap_or_default();
        return Err(Unconsolidatable::InstanceTypeNotFound(name.into()));
    }
    for key in [CAPACITY_TYPE, ZONE] {
        if candidate.node.label(key).is_none() {
            return Err(Unconsolidatable::MissingLabel(key));
        }
    }
    let pool = || candidate.pool.name.as_str().into();
    if candidate.pool.consolidate_after.is_none() {
        return Err(Unconsolidatable::Disabled(pool()));
    }
    if candidate.is_empty() {
        return Ok(false);
    }
    if candidate.pool.consolidation_policy == ConsolidationPolicy::WhenEmpty {
        return Err(Unconsolidatable::PolicyWhenEmpty(pool()));
    }
    if let Some(as_of) = context.rules.prices_as_of
        && as_of.checked_add(PRICES_LAST).is_ok_and(|end| end < context.now)
    {
        return Err(Unconsolidatable::PricesTooOld { as_of });
    }
    if !is_consolidatable(context, candidate) {
        return Ok(false);
    }
    match history::settles(candidate, context.now) {
        Some(since) => Err(Unconsolidatable::Settles { since }),
        None => Ok(true),
    }
}

/// What `candidates` can be turned into together: nothing, or one cheaper node. Where it would be several cheaper
/// ones, that is noted for the method that does so.
///
/// # Errors
/// Why that cannot be done, or does not pay.
pub(super) fn compute(
    context: &Context<'_>,
    method: &dyn Method,
    candidates: &[&Candidate],
) -> Result<Command, Unconsolidatable> {
    let mut new_claims = new_claims(context, candidates)?;
    let look = Look::at(&new_claims);
    let replacements = match (new_claims.pop(), new_claims.len()) {
        (None, _) => Vec::new(),
        (Some(new_claim), 0) => match cheaper(context, candidates, new_claim) {
            Ok(new_claim) => vec![new_claim],
            Err(why) => {
                if matches!(why, Unconsolidatable::NotCheaper { .. }) {
                    several::suspect(context, candidates, &look);
                }
                return Err(why);
            }
        },
        (Some(last), others) => {
            new_claims.push(last);
            if !several::note(context, candidates, new_claims) {
                several::suspect(context, candidates, &look);
            }
            return Err(Unconsolidatable::NeedsSeveral(others + 1));
        }
    };
    weigh(context, method, candidates, replacements)
}

/// What would have to be created for the pods of `candidates`.
pub(super) fn new_claims(
    context: &Context<'_>,
    candidates: &[&Candidate],
) -> Result<Vec<NewClaim>, Unconsolidatable> {
    let simulation = simulate(context, candidates);
    match simulation.problem {
        Some(problem) => Err(problem),
        None => Ok(simulation.plan.new_claims),
    }
}

/// The command, where it neither undoes an own move nor costs more than it is worth.
pub(super) fn weigh(
    context: &Context<'_>,
    method: &dyn Method,
    candidates: &[&Candidate],
    mut replacements: Vec<NewClaim>,
) -> Result<Command, Unconsolidatable> {
    for replacement in &mut replacements {
        history::leave_out(candidates, replacement, context.now)?;
    }
    let taken = candidates.iter().map(|candidate| (*candidate).clone()).collect();
    let mut command = Command::of(method, taken, replacements);
    history::check(candidates, &command.replacements, context.now)?;
    benefit::check(&command, context.now)?;
    command.judged = balanced::judge(context, &command);
    context.solver.judge(&command.judged);
    match command.judged.iter().find(|judged| !judged.approved) {
        Some(rejected) => Err(Unconsolidatable::Unbalanced(rejected.clone())),
        None => Ok(command),
    }
}

/// The new NodeClaim narrowed to what is strictly cheaper than the nodes that it replaces.
fn cheaper(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claim: NewClaim,
) -> Result<NewClaim, Unconsolidatable> {
    let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
    if may_be_spot(&new_claim) && candidates.iter().all(|candidate| candidate.is_spot()) {
        return spot_to_spot(context, candidates, new_claim, now);
    }
    // What launching may end at counts, which can be more than what it is expected to.
    let worst = |t: &Arc<InstanceType>| worst_launch_price(t, &new_claim.requirements);
    let cheapest = new_claim.instance_types.iter().filter_map(worst).min();
    let not_cheaper = Unconsolidatable::NotCheaper { now, cheapest };
    let mut new_claim =
        narrow(new_claim, |t, requirements| worst_launch_price(t, requirements).is_some_and(|p| p < now))
            .map_err(|error| error.unwrap_or(not_cheaper))?;
    prefer_spot(&mut new_claim);
    Ok(new_claim)
}

/// Where spot and on-demand are both left the launch decides; the price was judged by spot, so spot it must be.
pub(super) fn prefer_spot(new_claim: &mut NewClaim) {
    if new_claim.requirements.allows(CAPACITY_TYPE, ON_DEMAND) && may_be_spot(new_claim) {
        force_spot(new_claim);
    }
}

/// Whether one of its instance types can be had as spot.
pub(super) fn may_be_spot(new_claim: &NewClaim) -> bool {
    new_claim.requirements.allows(CAPACITY_TYPE, SPOT)
        && new_claim.instance_types.iter().any(|known| offers(known, &new_claim.requirements, SPOT))
}

fn spot_to_spot(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claim: NewClaim,
    now: Price,
) -> Result<NewClaim, Unconsolidatable> {
    if !context.rules.spot_to_spot {
        return Err(Unconsolidatable::SpotToSpotDisabled);
    }
    let mut new_claim = new_claim;
    force_spot(&mut new_claim);
    let not_cheaper = Unconsolidatable::NotCheaper { now, cheapest: Some(new_claim.chosen.price) };
    let mut new_claim =
        narrow(new_claim, |t, requirements| worst_launch_price(t, requirements).is_some_and(|p| p < now))
            .map_err(|error| error.unwrap_or(not_cheaper))?;
    if candidates.len() == 1 {
        history::leave_out(candidates, &mut new_claim, context.now)?;
        keep_flexible(&mut new_claim)?;
    }
    Ok(new_claim)
}

/// Keeps the cheapest types of a spot node that comes in place of one, as many as it must be able to choose from.
///
/// # Errors
/// Where there are too few.
pub(super) fn keep_flexible(new_claim: &mut NewClaim) -> Result<(), Unconsolidatable> {
    let found = new_claim.instance_types.len();
    if found < SPOT_TO_SPOT_TYPES {
        return Err(Unconsolidatable::SpotToSpotFlexibility(found));
    }
    let needed = (SPOT_TO_SPOT_TYPES..=found).find(|count| {
        let kept = &new_claim.instance_types[..*count];
        new_claim.unmet_min_values(kept).is_none()
    });
    new_claim.retain_first(needed.unwrap_or(found));
    Ok(())
}

pub(super) fn force_spot(new_claim: &mut NewClaim) {
    new_claim.requirements.add(Requirement::is_in(CAPACITY_TYPE, [SPOT]));
    new_claim.refresh();
}

/// Keeps the instance types that `keep` names; `Err(None)` where none is left, `Err(Some)` where minValues is unmet.
pub(super) fn narrow(
    mut new_claim: NewClaim,
    keep: impl Fn(&InstanceType, &Requirements) -> bool,
) -> Result<NewClaim, Option<Unconsolidatable>> {
    let requirements = new_claim.requirements.clone();
    new_claim.retain(|instance_type| keep(instance_type, &requirements));
    if new_claim.instance_types.is_empty() {
        return Err(None);
    }
    match new_claim.unmet_min_values(&new_claim.instance_types) {
        Some(key) => Err(Some(Unconsolidatable::MinValues(key))),
        None => Ok(new_claim),
    }
}

fn offers(instance_type: &InstanceType, requirements: &Requirements, capacity_type: &str) -> bool {
    let fits = |requirements: &Requirements, offering: &crate::model::Offering| {
        requirements.intersects(&offering.requirements).is_ok()
    };
    let of_kind =
        |o: &&crate::model::Offering| o.capacity_type().is_some_and(|kind| &**kind == capacity_type);
    instance_type.offerings.iter().filter(of_kind).any(|o| o.available && fits(requirements, o))
}

/// The dearest available offering of the first kind that is compatible: reserved, spot, on-demand. Launching may end at
/// that price, so that is what must be cheaper.
pub(super) fn worst_launch_price(instance_type: &InstanceType, requirements: &Requirements) -> Option<Price> {
    [RESERVED, SPOT, ON_DEMAND].iter().filter(|kind| requirements.allows(CAPACITY_TYPE, kind)).find_map(
        |kind| {
            let fitting = instance_type.offerings.iter().filter(|offering| {
                offering.available
                    && offering.capacity_type().is_some_and(|found| &**found == *kind)
                    && requirements.intersects(&offering.requirements).is_ok()
            });
            fitting.map(|offering| offering.price).max()
        },
    )
}
