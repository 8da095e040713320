//! The common part of the consolidation methods: their candidates, and the replacements of a set of nodes.

mod n_to_m;
mod narrow;

pub(super) use n_to_m::cheaper_together;
pub(super) use narrow::{not_cheaper, others, paid, worst_launch_prices};

use super::{
    Candidate, Command, Context, MethodSpec, Refusal, SimulationSolver, Unconsolidatable,
    candidate::is_consolidatable, gates, hints::Demand, simulation::simulate,
};
use crate::{
    model::{
        ConsolidationPolicy,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
    },
    scheduling::NewClaim,
};

/// Whether consolidation considers a node.
pub(super) fn should_disrupt(context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
    if candidate.pool.is_static() {
        return Ok(false);
    }
    if candidate.instance_type.is_none() {
        let name = candidate.node.label(INSTANCE_TYPE).unwrap_or_default();
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
    gates::admit_candidate(context, candidate)?;
    Ok(is_consolidatable(context.now, candidate))
}

/// The command that removes `candidates` together, with one cheaper replacement or none.
///
/// # Errors
/// Why there is none. If several replacements may be cheaper, the refusal has a hint.
pub(super) fn compute_consolidation(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    spec: &'static MethodSpec,
    candidates: &[&Candidate],
) -> Result<Command, Refusal> {
    let mut new_claims = new_claims(context, solver, spec, candidates)?;
    let demand = Demand::of(&new_claims);
    let replacements = match (new_claims.pop(), new_claims.len()) {
        (None, _) => Vec::new(),
        (Some(new_claim), 0) => match narrow::cheaper(context, candidates, new_claim) {
            Ok(new_claim) => vec![new_claim],
            Err(reason) => {
                let hint = match reason {
                    Unconsolidatable::NotCheaper { .. } => {
                        n_to_m::repack_hint(context, candidates, demand).map(Box::new)
                    }
                    _ => None,
                };
                return Err(Refusal { hint, ..Refusal::from(reason) });
            }
        },
        (Some(last), others) => {
            new_claims.push(last);
            let hint = n_to_m::split_hint(context, candidates, new_claims)
                .or_else(|| n_to_m::repack_hint(context, candidates, demand))
                .map(Box::new);
            return Err(Refusal { hint, ..Refusal::from(Unconsolidatable::NeedsSeveral(others + 1)) });
        }
    };
    admit(context, spec, candidates, replacements)
}

/// The NodeClaims that would have to be created for the pods of `candidates`.
pub(super) fn new_claims(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    spec: &MethodSpec,
    candidates: &[&Candidate],
) -> Result<Vec<NewClaim>, Unconsolidatable> {
    let simulation = simulate(context, solver, spec, candidates);
    match simulation.problem {
        Some(problem) => Err(problem),
        None => Ok(simulation.plan.new_claims),
    }
}

/// The command that replaces `candidates` by `replacements`, if the gates admit it.
pub(super) fn admit(
    context: &Context<'_>,
    spec: &'static MethodSpec,
    candidates: &[&Candidate],
    mut replacements: Vec<NewClaim>,
) -> Result<Command, Refusal> {
    for replacement in &mut replacements {
        gates::narrow(context, candidates, replacement)?;
    }
    let removed = candidates.iter().map(|candidate| (*candidate).clone()).collect();
    gates::admit(context, Command::new(spec, removed, replacements)).map_err(|(reason, scores)| Refusal {
        reason,
        hint: None,
        scores,
    })
}
