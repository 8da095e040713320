//! The common part of the consolidation methods: their candidates, and the replacements of a set of nodes.

mod n_to_m;
mod narrow;

pub(super) use n_to_m::cheaper_together;
pub(super) use narrow::{not_cheaper, others, paid, worst_launch_prices};

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    Candidate, Command, Context, MethodSpec, Refusal, SimulationSolver, Unconsolidatable,
    candidate::is_consolidatable, gates, hints::Demand, simulation::simulate,
};
use crate::{
    model::{
        ConsolidationPolicy, PodUid,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
    },
    scheduling::{NewClaim, Placement, Plan},
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
    let Plan { mut new_claims, existing, .. } = planned(context, solver, spec, candidates)?;
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
    admit(context, spec, candidates, (replacements, &existing))
}

/// Where the pods of `candidates` would be placed.
pub(super) fn planned(
    context: &Context<'_>,
    solver: &mut SimulationSolver<'_>,
    spec: &MethodSpec,
    candidates: &[&Candidate],
) -> Result<Plan, Unconsolidatable> {
    let simulation = simulate(context, solver, spec, candidates);
    match simulation.problem {
        Some(problem) => Err(problem),
        None => Ok(simulation.plan),
    }
}

/// The command that replaces `candidates` by `replacements`, if the gates admit it; `receivers` are existing nodes with the pods that they
/// would take, empty if they are not known.
pub(super) fn admit(
    context: &Context<'_>,
    spec: &'static MethodSpec,
    candidates: &[&Candidate],
    (mut replacements, receivers): (Vec<NewClaim>, &[Placement]),
) -> Result<Command, Refusal> {
    for replacement in &mut replacements {
        gates::narrow(context, candidates, replacement)?;
    }
    let removed = candidates.iter().map(|candidate| (*candidate).clone()).collect();
    let mut command = Command::new(spec, removed, replacements);
    command.oldest_receiver = oldest_receiver(candidates, receivers);
    gates::admit(context, command).map_err(|(reason, scores)| Refusal { reason, hint: None, scores })
}

/// When the oldest of the nodes that take pods of `candidates` was created.
fn oldest_receiver(candidates: &[&Candidate], receivers: &[Placement]) -> Option<Timestamp> {
    let moved: BTreeSet<&PodUid> =
        candidates.iter().flat_map(|candidate| &candidate.moved).map(|pod| &pod.uid).collect();
    let takes = |placement: &&Placement| placement.pods.iter().any(|pod| moved.contains(&pod.uid));
    receivers.iter().filter(takes).filter_map(|placement| placement.node.created()).min()
}
