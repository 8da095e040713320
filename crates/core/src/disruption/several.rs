//! Machines turned into several cheaper ones: one that is split, or many that become fewer, or others.
//!
//! Karpenter stops where more than one machine would have to be created. Here such sets are noted while single-node and
//! multi-node consolidation look at them, so that this method, which comes last, looks only at what can pay. More pods
//! move than where machines merely go, so it has to save a tenth at least.

use super::{
    Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict,
    consolidation::{self, force_spot, keep_flexible, may_be_spot, narrow, prefer_spot, worst_launch_price},
};
use crate::{
    model::{DisruptionReason, Price},
    scheduling::Opening,
};

/// At most so many machines come in the stead of a set.
const MAX_REPLACEMENTS: usize = 50;
/// One part in so many must be saved.
const LEAST_SAVING: i128 = 10;

/// Takes the set that saves most.
pub(super) struct Several;

impl Method for Several {
    fn name(&self) -> &'static str {
        "n-to-m-consolidation"
    }

    fn consolidation_type(&self) -> &'static str {
        "n-to-m"
    }

    fn reason(&self) -> DisruptionReason {
        DisruptionReason::Underutilized
    }

    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        consolidation::is_case(context, candidate)
    }

    fn propose(&self, context: &Context<'_>, candidates: &[&Candidate], budgets: &mut Budgets) -> Verdict {
        let mut verdict = Verdict::default();
        if context.solver.what_ifs() == 0 {
            // Nobody has looked yet: this method was asked for alone.
            for candidate in candidates {
                let _ = consolidation::compute(context, self, &[candidate]);
            }
        }
        for machines in context.solver.splits() {
            let find = |index: &usize| candidates.iter().find(|candidate| candidate.index == *index).copied();
            let Some(set) = machines.iter().map(find).collect::<Option<Vec<_>>>() else { continue };
            let mut after = budgets.clone();
            if !set.iter().all(|candidate| after.take(&candidate.pool.name)) {
                budgets.constrained = true;
                continue;
            }
            if context.solver.is_spent() {
                verdict.unreached.extend(set.into_iter().cloned());
                continue;
            }
            match self.compute(context, &set) {
                Ok(command) => {
                    *budgets = after;
                    verdict.commands.push(command);
                    return verdict;
                }
                // What a set cannot become says nothing of one of its machines.
                Err(reason) => verdict.unconsolidatable.extend(match set.as_slice() {
                    [one] => Some(((*one).clone(), reason)),
                    _ => None,
                }),
            }
        }
        verdict
    }
}

impl Several {
    fn compute(&self, context: &Context<'_>, candidates: &[&Candidate]) -> Result<Command, Unconsolidatable> {
        let openings = consolidation::openings(context, candidates)?;
        let replacements = cheaper(context, candidates, openings)?;
        consolidation::weigh(context, self, candidates, replacements)
    }
}

/// Notes a set that could become several cheaper machines.
pub(super) fn note(context: &Context<'_>, candidates: &[&Candidate], openings: Vec<Opening>) {
    let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
    let Ok(openings) = cheaper(context, candidates, openings) else { return };
    let then: Price = openings.iter().map(|opening| opening.chosen.price).sum();
    let machines = candidates.iter().map(|candidate| candidate.index).collect();
    context.solver.note_split(now.saturating_sub(then).nanos(), machines);
}

/// The openings, each narrowed to what is cheaper than its share of what the machines cost now.
///
/// # Errors
/// Why they do not pay.
fn cheaper(
    context: &Context<'_>,
    candidates: &[&Candidate],
    openings: Vec<Opening>,
) -> Result<Vec<Opening>, Unconsolidatable> {
    let count = openings.len();
    let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
    let planned: Price = openings.iter().map(|opening| opening.chosen.price).sum();
    let (paid, wanted) = (i128::from(now.nanos()), i128::from(planned.nanos()));
    if count > MAX_REPLACEMENTS || LEAST_SAVING * wanted > (LEAST_SAVING - 1) * paid {
        return Err(Unconsolidatable::NeedsSeveral(count));
    }
    let all_spot = candidates.iter().all(|candidate| candidate.is_spot());
    let mut narrowed = Vec::with_capacity(count);
    for mut opening in openings {
        let to_spot = all_spot && may_be_spot(&opening);
        if to_spot && !context.rules.spot_to_spot {
            return Err(Unconsolidatable::SpotToSpotDisabled);
        }
        if to_spot {
            force_spot(&mut opening);
        }
        let share = share(paid, opening.chosen.price, planned);
        // A machine of a type that goes could simply have stayed.
        let stays = |name: &str| {
            let mut own = candidates.iter().filter_map(|candidate| candidate.instance_type.as_ref());
            own.any(|own| *own.name == *name)
        };
        let narrower = narrow(opening, |offered, requirements| {
            !stays(&offered.name)
                && worst_launch_price(offered, requirements).is_some_and(|price| price < share)
        });
        let mut opening = narrower.map_err(|why| why.unwrap_or(Unconsolidatable::NeedsSeveral(count)))?;
        if to_spot && candidates.len() == 1 {
            keep_flexible(&mut opening)?;
        }
        prefer_spot(&mut opening);
        narrowed.push(opening);
    }
    Ok(narrowed)
}

/// The part of what is paid now that an opening may cost, by what the openings are expected to cost: so that together
/// they are cheaper whatever is launched.
fn share(paid: i128, chosen: Price, planned: Price) -> Price {
    if planned == Price::ZERO {
        return Price::ZERO;
    }
    let share = paid * i128::from(chosen.nanos()) / i128::from(planned.nanos());
    Price::from_nanos(i64::try_from(share).unwrap_or(i64::MAX))
}
