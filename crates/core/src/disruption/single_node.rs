//! One node: turned into nothing, or into a cheaper node. What a pass does not reach comes first in the next one.

use std::collections::BTreeMap;

use super::{Budgets, Candidate, Context, Method, Unconsolidatable, Verdict, consolidation};
use crate::model::{DisruptionReason, PoolName};

/// Goes through the nodes, best saving per disruption first within each pool and the pools in turn, and takes the
/// first that can go.
pub(super) struct SingleNode;

impl Method for SingleNode {
    fn name(&self) -> &'static str {
        "single-node-consolidation"
    }

    fn consolidation_type(&self) -> &'static str {
        "single"
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
        let mut verdict = Verdict::default();
        let (first, others): (Vec<&Candidate>, Vec<&Candidate>) = candidates.iter().partition(|candidate| {
            candidate.node.claim_name().is_some_and(|name| context.solver.is_first(name))
        });
        for candidate in interleaved(&first).into_iter().chain(interleaved(&others)) {
            if !budgets.has(&candidate.pool.name) {
                continue;
            }
            if context.solver.is_spent() {
                verdict.unreached.push(candidate.clone());
                continue;
            }
            match consolidation::compute(context, self, &[candidate]) {
                Ok(command) => {
                    budgets.take(&candidate.pool.name);
                    verdict.commands.push(command);
                    return verdict;
                }
                Err(reason) => verdict.unconsolidatable.push((candidate.clone(), reason)),
            }
        }
        verdict
    }
}

/// Candidates in their order, the pools taking turns, so that a large pool does not starve the others.
fn interleaved<'a>(candidates: &[&'a Candidate]) -> Vec<&'a Candidate> {
    let mut pools: BTreeMap<&PoolName, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        pools.entry(&candidate.pool.name).or_default().push(candidate);
    }
    let longest = pools.values().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|turn| pools.values().filter_map(move |members| members.get(turn).copied()))
        .collect()
}
