//! Nodes turned into several cheaper ones: one that is split, or many that become fewer, or others.
//!
//! Karpenter stops where more than one node would have to be created. Here such sets are noted while single-node and
//! multi-node consolidation look at them, so that this method, which comes last, looks only at what can pay. More pods
//! move than where nodes merely go, so it has to save a tenth at least.
//!
//! What-ifs lay pods as Karpenter does, onto as few nodes as there are types for. Sets that what they find does not make
//! cheaper, but that prices promise something for, are packed by price ([`suspects`]).

mod rates;
pub(super) mod suspects;

use std::collections::{BTreeMap, BTreeSet};

use self::suspects::Look;
pub use self::suspects::Refused;
use super::{
    Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict,
    consolidation::{self, force_spot, keep_flexible, may_be_spot, narrow, prefer_spot, worst_launch_price},
    history, simulation, validation,
};
use crate::{
    model::{DisruptionReason, Limits, PoolName, Price, Resources, Str},
    scheduling::{NODE_OVERHEAD, NewClaim, Repack},
};

/// At most so many nodes come in place of a set.
const MAX_REPLACEMENTS: usize = 50;
/// One part in so many must be saved.
const LEAST_SAVING: i128 = 10;
/// Rounds of improvement of a packing by price.
const ROUNDS: u32 = 64;

/// Takes the set that saves most of those that are known to; else the first that promises to and does.
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
        for nodes in context.solver.splits() {
            let find = |index: &usize| candidates.iter().find(|candidate| candidate.index == *index).copied();
            let Some(set) = nodes.iter().map(find).collect::<Option<Vec<_>>>() else { continue };
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
                // What a set cannot become says nothing of one of its nodes.
                Err(reason) => verdict.unconsolidatable.extend(match set.as_slice() {
                    [one] => Some(((*one).clone(), reason)),
                    _ => None,
                }),
            }
        }
        self.try_suspects(context, candidates, budgets, &mut verdict);
        verdict
    }

    fn still_holds(&self, context: &Context<'_>, candidates: &[&Candidate], planned: &[NewClaim]) -> bool {
        validation::covers(context, candidates, planned)
            || by_price(context, candidates)
                .is_ok_and(|new_claims| validation::still_covers(planned, &new_claims))
    }
}

impl Several {
    fn compute(&self, context: &Context<'_>, candidates: &[&Candidate]) -> Result<Command, Unconsolidatable> {
        let new_claims = consolidation::new_claims(context, candidates)?;
        let replacements = cheaper(context, candidates, new_claims)?;
        consolidation::weigh(context, self, candidates, replacements)
    }

    /// Packs sets by price, what promises most first, until one becomes a command or the pass has made all its trials.
    fn try_suspects(
        &self,
        context: &Context<'_>,
        candidates: &[&Candidate],
        budgets: &mut Budgets,
        verdict: &mut Verdict,
    ) {
        let by_index: BTreeMap<usize, &Candidate> =
            candidates.iter().map(|candidate| (candidate.index, *candidate)).collect();
        let next = |budgets: &Budgets| context.solver.suspects().next(context.now, budgets, candidates);
        while let Some(nodes) = next(budgets) {
            let find = |index: &usize| by_index.get(index).copied();
            let Some(set) = nodes.iter().map(find).collect::<Option<Vec<_>>>() else { continue };
            let mut after = budgets.clone();
            if !set.iter().all(|candidate| after.take(&candidate.pool.name)) {
                budgets.constrained = true;
                continue;
            }
            if context.solver.is_spent() || !context.solver.suspects().try_one() {
                let left: BTreeSet<usize> = context.solver.suspects().give_up(nodes);
                let left = left.iter().filter_map(find).cloned();
                verdict.unreached.extend(left);
                return;
            }
            match self.compute_by_price(context, &set) {
                Ok(command) => {
                    *budgets = after;
                    verdict.commands.push(command);
                    return;
                }
                Err(reason) => {
                    context.solver.suspects().refuse(&nodes, context.now);
                    // That nothing is cheaper was told before.
                    let told = !matches!(
                        reason,
                        Unconsolidatable::NeedsSeveral(_) | Unconsolidatable::NotCheaper { .. }
                    );
                    if let ([one], true) = (set.as_slice(), told) {
                        verdict.unconsolidatable.push(((*one).clone(), reason));
                    }
                }
            }
        }
    }

    fn compute_by_price(
        &self,
        context: &Context<'_>,
        candidates: &[&Candidate],
    ) -> Result<Command, Unconsolidatable> {
        let new_claims = by_price(context, candidates)?;
        let replacements = cheaper(context, candidates, new_claims)?;
        within_limits(context, candidates, &replacements)?;
        consolidation::weigh(context, self, candidates, replacements)
    }
}

/// What would have to be created for the pods of `candidates` where they are packed by price. A node of a type that goes
/// could simply have stayed.
fn by_price(context: &Context<'_>, candidates: &[&Candidate]) -> Result<Vec<NewClaim>, Unconsolidatable> {
    let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
    let own = candidates.iter().filter_map(|candidate| candidate.instance_type.as_ref());
    let own: BTreeSet<Str> = own.map(|own| own.name.clone()).collect();
    let shunned: Vec<Str> = own.into_iter().collect();
    let terms = Repack { paid: now, nodes: candidates.len(), shunned: &shunned, rounds: ROUNDS };
    let simulation = simulation::repack(context, candidates, &terms);
    let simulation = simulation.ok_or(Unconsolidatable::NotCheaper { now, cheapest: None })?;
    match simulation.problem {
        Some(problem) => Err(problem),
        None => Ok(simulation.plan.new_claims),
    }
}

/// Whether pools have room for `replacements` once `candidates` are gone, each as large as it may become.
///
/// # Errors
/// The first limit that has none; pools are looked at by name.
fn within_limits(
    context: &Context<'_>,
    candidates: &[&Candidate],
    replacements: &[NewClaim],
) -> Result<(), Unconsolidatable> {
    let mut coming: BTreeMap<&PoolName, (&Limits, Resources, i64)> = BTreeMap::new();
    for new_claim in replacements.iter().filter(|new_claim| !new_claim.pool.limits.is_empty()) {
        let capacities = new_claim.instance_types.iter().map(|known| &known.capacity);
        let most = capacities.fold(Resources::new(), |most, capacity| most.component_max(capacity));
        let fresh = || (&new_claim.pool.limits, Resources::new(), 0);
        let (_, sum, nodes) = coming.entry(&new_claim.pool.name).or_insert_with(fresh);
        sum.add_assign(&most);
        *nodes += 1;
    }
    for (pool, (limits, most, nodes)) in coming {
        let (mut used, mut count) = context.snapshot.usage(pool);
        let leaving = candidates.iter().filter(|candidate| candidate.pool.name == *pool && !limits.hard);
        for candidate in leaving {
            used.sub_assign(&candidate.node.charge());
            count -= 1;
        }
        if let Some((resource, usage, limit)) = limits.first_exceeded(&used.plus(&most), count + nodes) {
            let pool = pool.as_str().into();
            return Err(Unconsolidatable::LimitExceeded { pool, resource, usage, limit });
        }
    }
    Ok(())
}

/// Notes nodes for which nothing cheaper was found although they might become several cheaper ones.
pub(super) fn suspect(context: &Context<'_>, candidates: &[&Candidate], look: &Look) {
    // Spot nodes are not replaced by others where the settings forbid it, and what is not spot costs more.
    if !context.rules.spot_to_spot && candidates.iter().all(|candidate| candidate.is_spot()) {
        return;
    }
    context.solver.suspects().note(context, candidates, look);
}

/// Notes a set that could become several cheaper nodes, as a what-if lays its pods; `false` where it could not.
pub(super) fn note(context: &Context<'_>, candidates: &[&Candidate], new_claims: Vec<NewClaim>) -> bool {
    let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
    let Ok(new_claims) = cheaper(context, candidates, new_claims) else { return false };
    let then: Price = new_claims.iter().map(|new_claim| new_claim.chosen.price).sum();
    let nodes = candidates.iter().map(|candidate| candidate.index).collect();
    context.solver.note_split(now.saturating_sub(then).nanos(), nodes);
    true
}

/// The new NodeClaims, each narrowed to what is cheaper than its share of what the nodes cost now.
///
/// # Errors
/// Why they do not pay.
fn cheaper(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claims: Vec<NewClaim>,
) -> Result<Vec<NewClaim>, Unconsolidatable> {
    let count = new_claims.len();
    let now: Price = candidates.iter().map(|candidate| candidate.price).sum();
    let planned: Price = new_claims.iter().map(|new_claim| new_claim.chosen.price).sum();
    let (paid, wanted) = (i128::from(now.nanos()), i128::from(planned.nanos()));
    // Nodes more than before weigh something beside their price.
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
        // A node of a type that goes could simply have stayed.
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
            history::leave_out(candidates, &mut new_claim, context.now)?;
            keep_flexible(&mut new_claim)?;
        }
        prefer_spot(&mut new_claim);
        narrowed.push(new_claim);
    }
    Ok(narrowed)
}

/// The part of what is paid now that a new NodeClaim may cost, by what the new NodeClaims are expected to cost: so that together
/// they are cheaper whatever is launched.
fn share(paid: i128, chosen: Price, planned: Price) -> Price {
    if planned == Price::ZERO {
        return Price::ZERO;
    }
    let share = paid * i128::from(chosen.nanos()) / i128::from(planned.nanos());
    Price::from_nanos(i64::try_from(share).unwrap_or(i64::MAX))
}
