//! Machines that are not what their pool or class asks for any more.

use super::{Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict, simulate};
use crate::model::{DisruptionReason, nodeclaim::ConditionType};

/// Replaces drifted machines, the longest drifted first, machines without pods before others; one a pass.
pub(super) struct Drift;

impl Method for Drift {
    fn name(&self) -> &'static str {
        "drift"
    }

    fn consolidation_type(&self) -> &'static str {
        ""
    }

    fn reason(&self) -> DisruptionReason {
        DisruptionReason::Drifted
    }

    fn is_eventual(&self) -> bool {
        true
    }

    fn is_validated(&self) -> bool {
        false
    }

    fn is_case(&self, _: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        let drifted = candidate.node.claim.as_ref().is_some_and(|claim| claim.is(ConditionType::Drifted));
        Ok(drifted && !candidate.pool.is_static())
    }

    fn propose(&self, context: &Context<'_>, candidates: &[Candidate], budgets: &mut Budgets) -> Verdict {
        let since = |candidate: &Candidate| candidate.node.claim.as_ref()?.true_since(ConditionType::Drifted);
        let mut ordered: Vec<&Candidate> = candidates.iter().collect();
        ordered
            .sort_by_key(|candidate| (!candidate.is_empty(), since(candidate), candidate.name().to_owned()));
        let mut verdict = Verdict::default();
        for candidate in ordered {
            if !budgets.take(&candidate.pool.name) {
                continue;
            }
            let mut replacements = Vec::new();
            if !candidate.is_empty() {
                verdict.what_ifs += 1;
                let simulation = simulate(context, &[candidate]);
                if let Some(problem) = simulation.problem {
                    verdict.unconsolidatable.push((candidate.clone(), problem));
                    continue;
                }
                replacements = simulation.plan.openings;
            }
            verdict.commands.push(Command {
                method: self.name(),
                consolidation_type: self.consolidation_type(),
                reason: self.reason(),
                candidates: vec![candidate.clone()],
                replacements,
                eventual: self.is_eventual(),
            });
            return verdict;
        }
        verdict
    }
}
