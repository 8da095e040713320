//! Several nodes at once: turned into nothing, or into one cheaper node.

use super::{
    Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict, consolidation, history,
};
use crate::model::{DisruptionReason, Price};

/// At most so many nodes in one command.
const MAX_CANDIDATES: usize = 100;

/// Finds the longest prefix, by saving per disruption, that can go together.
pub(super) struct MultiNode;

impl Method for MultiNode {
    fn name(&self) -> &'static str {
        "multi-node-consolidation"
    }

    fn consolidation_type(&self) -> &'static str {
        "multi"
    }

    fn reason(&self) -> DisruptionReason {
        DisruptionReason::Underutilized
    }

    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        consolidation::is_case(context, candidate)
    }

    fn arrange(&self, cases: &mut [&Candidate]) {
        cases.sort_by(|a, b| Candidate::by_savings_ratio(a, b));
    }

    fn propose(&self, context: &Context<'_>, candidates: &[&Candidate], budgets: &mut Budgets) -> Verdict {
        // One that came back goes for no less than a node in its place: it would hold up all that are ordered after it.
        let may_merge = |candidate: &&Candidate| history::came_back(candidate, context.now).is_none();
        let may_merge = candidates.iter().copied().filter(may_merge);
        let within = may_merge.filter(|candidate| budgets.take(&candidate.pool.name));
        let ordered: Vec<&Candidate> = within.take(MAX_CANDIDATES).collect();
        let mut verdict = Verdict::default();
        if ordered.len() > 1 && context.solver.is_spent() {
            verdict.unreached.extend(ordered.iter().map(|candidate| (*candidate).clone()));
        }
        // Feasibility is nearly monotone in the prefix: a few probes find nearly the longest one. Where much can go, all of
        // them can, so that this is what is asked first.
        let (mut low, mut high) = (2, ordered.len());
        let mut next = high;
        let mut best = None;
        while low <= high && !context.solver.is_spent() {
            match self.prefix(context, &ordered[..next]) {
                Ok(command) => {
                    best = Some(command);
                    low = next + 1;
                }
                Err(_) => high = next - 1,
            }
            next = usize::midpoint(low, high);
        }
        verdict.commands.extend(best);
        verdict
    }
}

impl MultiNode {
    fn prefix(&self, context: &Context<'_>, candidates: &[&Candidate]) -> Result<Command, Unconsolidatable> {
        let mut command = consolidation::compute(context, self, candidates)?;
        let Some(new_claim) = command.replacements.first_mut() else { return Ok(command) };
        // Buying a type that is being removed only pays where it is cheaper than the cheapest of that type: else one of
        // them could simply have stayed.
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
                return Err(Unconsolidatable::NotCheaper { now: limit, cheapest: None });
            }
        }
        Ok(command)
    }
}
