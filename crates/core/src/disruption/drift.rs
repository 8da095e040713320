//! Nodes that are not what their pool or class asks for any more.

use super::{Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict, simulate};
use crate::model::DisruptionReason;

/// Replaces drifted nodes, the longest drifted first, nodes without pods before others; one a pass.
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
        Ok(candidate.is_drifted() && !candidate.pool.is_static())
    }

    fn arrange(&self, cases: &mut [&Candidate]) {
        cases.sort_by_key(|candidate| (!candidate.is_empty(), candidate.drifted_since(), candidate.name()));
    }

    fn propose(&self, context: &Context<'_>, candidates: &[&Candidate], budgets: &mut Budgets) -> Verdict {
        first_that_can_go(self, context, candidates, budgets)
    }
}

/// A command for the first node, in this order, whose budget has room and whose pods have another place. What the last
/// pass did not reach comes before the others.
pub(super) fn first_that_can_go(
    method: &dyn Method,
    context: &Context<'_>,
    ordered: &[&Candidate],
    budgets: &mut Budgets,
) -> Verdict {
    let mut verdict = Verdict::default();
    let (first, others): (Vec<&Candidate>, Vec<&Candidate>) = ordered
        .iter()
        .partition(|candidate| candidate.node.claim_name().is_some_and(|name| context.solver.is_first(name)));
    for candidate in first.into_iter().chain(others) {
        if !budgets.has(&candidate.pool.name) {
            continue;
        }
        let mut replacements = Vec::new();
        if !candidate.is_empty() {
            if context.solver.is_spent() {
                verdict.unreached.push(candidate.clone());
                continue;
            }
            let simulation = simulate(context, &[candidate]);
            if let Some(problem) = simulation.problem {
                verdict.unconsolidatable.push((candidate.clone(), problem));
                continue;
            }
            replacements = simulation.plan.new_claims;
        }
        // Only what goes takes up the budget: a node that must stay does not keep the next one.
        budgets.take(&candidate.pool.name);
        verdict.commands.push(Command::of(method, vec![candidate.clone()], replacements));
        return verdict;
    }
    verdict
}
