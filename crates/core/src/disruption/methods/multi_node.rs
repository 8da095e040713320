//! Multi-node consolidation: several nodes removed together, with one cheaper replacement or none.

use std::collections::BTreeSet;

use crate::{
    disruption::{
        Budgets, Candidate, Command, Context, DisruptionClass, Method, MethodSpec, Refusal, SimulationSolver,
        Unconsolidatable, Verdict, consolidation, gates, hints::Hints,
    },
    model::{DisruptionReason, InstanceType, Price, Prices},
};

/// Maximum number of nodes of a command.
const MAX_CANDIDATES: usize = 100;

const SPEC: MethodSpec = MethodSpec {
    name: "multi-node-consolidation",
    consolidation_type: "multi",
    reason: DisruptionReason::Underutilized,
    class: DisruptionClass::Graceful,
    validated: true,
};

/// Finds the longest prefix, by saving per disruption, that can be removed together.
pub(super) struct MultiNode;

impl Method for MultiNode {
    fn spec(&self) -> &'static MethodSpec {
        &SPEC
    }

    fn should_disrupt(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        consolidation::should_disrupt(context, candidate)
    }

    fn sort_candidates(&self, considered: &mut [&Candidate]) {
        considered.sort_by(|a, b| Candidate::by_savings_ratio(a, b));
    }

    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        hints: Hints,
        budgets: &mut Budgets,
    ) -> Verdict {
        // A node that needs its own replacement would block every prefix with it.
        let may_merge =
            candidates.iter().copied().filter(|candidate| gates::admits_merge(context, candidate));
        let affordable = may_merge.filter(|candidate| budgets.take(&candidate.pool.name));
        let ordered: Vec<&Candidate> = affordable.take(MAX_CANDIDATES).collect();
        let mut verdict = Verdict::new(hints);
        if ordered.len() > 1 && solver.is_exhausted() {
            verdict.unreached.extend(ordered.iter().map(|candidate| (*candidate).clone()));
        }
        // Feasibility is nearly monotone in the prefix: a few probes find nearly the longest one. Often
        // all nodes can be removed, so the complete prefix is the first probe.
        let (mut low, mut high) = (2, ordered.len());
        let mut next = high;
        let mut best = None;
        while low <= high && !solver.is_exhausted() {
            match prefix(context, solver, &ordered[..next]) {
                Ok(command) => {
                    verdict.scores.extend(command.scores.iter().cloned());
                    best = Some(command);
                    low = next + 1;
                }
                Err(refusal) => {
                    verdict.absorb(context, &ordered[..next], refusal);
                    high = next - 1;
                }
            }
            next = usize::midpoint(low, high);
        }
        verdict.commands.extend(best);
        verdict
    }
}

fn prefix(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    candidates: &[&Candidate],
) -> Result<Command, Refusal> {
    let mut command = consolidation::compute_consolidation(context, solver, &SPEC, candidates)?;
    let Some(new_claim) = command.replacements.first_mut() else { return Ok(command) };
    let before = new_claim.clone();
    let others = consolidation::others(candidates, &before);
    let worst =
        |offered: &InstanceType| consolidation::worst_launch_prices(&before, offered, &before.requirements);
    let cheapest = new_claim.instance_types.iter().filter_map(|offered| worst(offered));
    let cheapest = cheapest.min_by_key(|prices| (prices.effective, prices.list));
    let dearest = new_claim.instance_types.iter().filter_map(|offered| worst(offered));
    let price_limit = dearest.map(|prices| prices.effective).max().unwrap_or_default();
    // Launching the type of a candidate saves only below the price of the cheapest candidate of that type: a new node may
    // be no larger than that one, even if it has more free capacity in the simulation.
    let own = candidates.iter().filter(|candidate| {
        let own = candidate.instance_type.as_ref();
        own.is_some_and(|own| new_claim.instance_types.iter().any(|offered| offered.name == own.name))
    });
    let own = own.map(|candidate| candidate.prices());
    let deletion = best_deletion(context, solver, candidates, price_limit);
    let limits = own.chain(deletion.as_ref().map(|deletion| deletion.kept));
    let Some(limit) = limits.min_by_key(|prices| prices.effective) else { return Ok(command) };
    new_claim.retain(|offered| worst(offered).is_some_and(|prices| prices.are_below(limit)));
    if !new_claim.instance_types.is_empty() && new_claim.unmet_min_values(&new_claim.instance_types).is_none()
    {
        return Ok(command);
    }
    match deletion {
        Some(Deletion { command: several, .. }) if several.candidates.len() > 1 => Ok(several),
        // Single-node consolidation comes next.
        _ => {
            let reason = consolidation::not_cheaper(context, limit, cheapest, others);
            Err(Refusal { reason, hint: None, scores: command.scores })
        }
    }
}

/// A deletion of some nodes of a set, without a replacement.
struct Deletion {
    /// The prices of the other nodes of the set.
    kept: Prices,
    /// The deletion.
    command: Command,
}

/// Maximum number of simulated deletions that keep one node.
const DELETIONS_MAX: usize = 7;

/// The deletion within `candidates` with the lowest price of kept nodes, at most `price_limit`, the maximum price of a
/// replacement. A merge that does not save more would move more pods and launch a node for nothing.
///
/// Tries to keep the cheapest node of each instance type, cheapest first, and once several. Of equal nodes, those are kept that save
/// the least per disruption, which are the last of `candidates`.
fn best_deletion(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    candidates: &[&Candidate],
    price_limit: Price,
) -> Option<Deletion> {
    let mut by_price: Vec<&Candidate> = candidates.iter().rev().copied().collect();
    by_price.sort_by_key(|candidate| candidate.effective);
    let mut seen = BTreeSet::new();
    by_price.retain(|candidate| {
        let name = candidate.instance_type.as_ref().map(|own| own.name.clone());
        candidate.effective <= price_limit && seen.insert(name)
    });
    let ones = by_price.iter().take(DELETIONS_MAX).map(|kept| vec![*kept]);
    let one = ones.into_iter().find_map(|kept| delete_all_but(context, solver, candidates, &kept));
    let pays = |kept: Price| kept <= price_limit && one.as_ref().is_none_or(|one| kept < one.kept.effective);
    let (mut several, mut sum) = (Vec::new(), Price::ZERO);
    for candidate in candidates.iter().rev().copied() {
        let with = sum + candidate.effective;
        if pays(with) {
            several.push(candidate);
            sum = with;
        }
    }
    if several.len() < 2 || several.len() == candidates.len() {
        return one;
    }
    delete_all_but(context, solver, candidates, &several).or(one)
}

/// Deletes `candidates` except `kept` without a replacement, if possible and if the gates admit it.
fn delete_all_but(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    candidates: &[&Candidate],
    kept: &[&Candidate],
) -> Option<Deletion> {
    let is_kept = |candidate: &&Candidate| kept.iter().any(|one| one.index == candidate.index);
    let removed: Vec<&Candidate> = candidates.iter().copied().filter(|one| !is_kept(one)).collect();
    let plan = consolidation::planned(context, solver, &SPEC, &removed).ok()?;
    if !plan.new_claims.is_empty() {
        return None;
    }
    let command = consolidation::admit(context, &SPEC, &removed, (Vec::new(), &plan.existing)).ok()?;
    Some(Deletion { kept: consolidation::paid(kept), command })
}
