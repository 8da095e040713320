//! Multi-node consolidation: several nodes removed together, with one cheaper replacement or none.

use crate::{
    disruption::{
        Budgets, Candidate, Command, Context, DisruptionClass, Method, MethodSpec, Refusal, SimulationSolver,
        Unconsolidatable, Verdict, consolidation, gates, leads::Leads,
    },
    model::{DisruptionReason, Price},
};

/// The most nodes of a command.
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

    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        consolidation::is_case(context, candidate)
    }

    fn arrange(&self, cases: &mut [&Candidate]) {
        cases.sort_by(|a, b| Candidate::by_savings_ratio(a, b));
    }

    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        leads: Leads,
        budgets: &mut Budgets,
    ) -> Verdict {
        // A node that needs a replacement of its own would block every prefix that contains it.
        let may_merge =
            candidates.iter().copied().filter(|candidate| gates::admits_merge(context, candidate));
        let within = may_merge.filter(|candidate| budgets.take(&candidate.pool.name));
        let ordered: Vec<&Candidate> = within.take(MAX_CANDIDATES).collect();
        let mut verdict = Verdict::new(leads);
        if ordered.len() > 1 && solver.is_spent() {
            verdict.unreached.extend(ordered.iter().map(|candidate| (*candidate).clone()));
        }
        // Feasibility is nearly monotone in the prefix: a few probes find nearly the longest one. Where much can be removed,
        // all of it often can, so the whole prefix is the first probe.
        let (mut low, mut high) = (2, ordered.len());
        let mut next = high;
        let mut best = None;
        while low <= high && !solver.is_spent() {
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
    let mut command = consolidation::compute(context, solver, &SPEC, candidates)?;
    let Some(new_claim) = command.replacements.first_mut() else { return Ok(command) };
    // Buying a type that is removed pays only below the price of the cheapest candidate of that type: otherwise that
    // one could have stayed.
    let kept_by_staying = candidates.iter().filter(|candidate| {
        let own = candidate.instance_type.as_ref();
        own.is_some_and(|own| new_claim.instance_types.iter().any(|offered| offered.name == own.name))
    });
    let cheapest_stay: Option<Price> = kept_by_staying.map(|candidate| candidate.price).min();
    if let Some(limit) = cheapest_stay {
        let requirements = new_claim.requirements.clone();
        new_claim.retain(|offered| {
            consolidation::worst_launch_price(offered, &requirements).is_some_and(|price| price < limit)
        });
        if new_claim.instance_types.is_empty()
            || new_claim.unmet_min_values(&new_claim.instance_types).is_some()
        {
            let reason = Unconsolidatable::NotCheaper { now: limit, cheapest: None };
            return Err(Refusal { reason, lead: None, scores: command.scores });
        }
    }
    Ok(command)
}
