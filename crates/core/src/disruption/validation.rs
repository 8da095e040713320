//! Whether a command still holds on a newer snapshot, after the validation delay.

use jiff::Timestamp;

use super::{
    Bench, Budgets, Candidate, Command, Context, Method, Rules, budget, candidate, method, simulate,
};
use crate::{model::Snapshot, scheduling::NewClaim};

/// Why a command does not hold any more. The words are Karpenter's metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// A budget leaves no room any more.
    Budget,
    /// The pods would need something else now.
    Scheduling,
    /// A node is no candidate any more.
    Churn,
}

impl Rejected {
    /// The word for events and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
            Self::Churn => "churn",
        }
    }
}

/// The command as it may be carried out on `snapshot`: unchanged, or for emptiness the nodes that are still empty.
///
/// # Errors
/// Why it may not be carried out.
pub fn validate(
    command: &Command,
    snapshot: &Snapshot,
    rules: &Rules,
    now: Timestamp,
) -> Result<Command, Rejected> {
    validate_on(command, &Bench::new(snapshot, &rules.scheduling), rules, now)
}

/// [`validate`] on a bench that is there already. Its solver is the same afterwards.
///
/// # Errors
/// Why it may not be carried out.
pub fn validate_on(
    command: &Command,
    bench: &Bench<'_>,
    rules: &Rules,
    now: Timestamp,
) -> Result<Command, Rejected> {
    let Some(method) = method(command.method) else { return Err(Rejected::Churn) };
    let snapshot = bench.snapshot();
    let context = Context { snapshot, rules, now, solver: bench };
    let mut budgets = budget::budgets(snapshot, command.reason, now);
    if command.replacements.is_empty() && command.candidates.iter().all(Candidate::is_empty) {
        return surviving(&context, method, command, &mut budgets);
    }
    let fresh = command.candidates.iter().map(|old| again(&context, method, old).ok_or(Rejected::Churn));
    let fresh = fresh.collect::<Result<Vec<_>, _>>()?;
    if !fresh.iter().all(|candidate| budgets.take(&candidate.pool.name)) {
        return Err(Rejected::Budget);
    }
    let references: Vec<&Candidate> = fresh.iter().collect();
    if !method.still_holds(&context, &references, &command.replacements) {
        return Err(Rejected::Scheduling);
    }
    Ok(Command { candidates: fresh, ..command.clone() })
}

/// Whether the nodes of a command are still candidates of its method, and within the budgets, on `snapshot`: what is
/// looked at again before a command that is not validated starts after another one of its pass.
///
/// # Errors
/// Why it may not be carried out.
pub fn still_allowed(
    command: &Command,
    snapshot: &Snapshot,
    rules: &Rules,
    now: Timestamp,
) -> Result<(), Rejected> {
    let Some(method) = method(command.method) else { return Err(Rejected::Churn) };
    let bench = Bench::new(snapshot, &rules.scheduling);
    let context = Context { snapshot, rules, now, solver: &bench };
    let mut budgets = budget::budgets(snapshot, command.reason, now);
    for old in &command.candidates {
        let fresh = again(&context, method, old).ok_or(Rejected::Churn)?;
        if !budgets.take(&fresh.pool.name) {
            return Err(Rejected::Budget);
        }
    }
    Ok(())
}

/// Emptiness proceeds with the nodes that are still empty and within budget.
fn surviving(
    context: &Context<'_>,
    method: &dyn Method,
    command: &Command,
    budgets: &mut Budgets,
) -> Result<Command, Rejected> {
    let still: Vec<Candidate> =
        command.candidates.iter().filter_map(|old| again(context, method, old)).collect();
    if still.is_empty() {
        return Err(Rejected::Churn);
    }
    let kept: Vec<Candidate> =
        still.into_iter().filter(|candidate| budgets.take(&candidate.pool.name)).collect();
    if kept.is_empty() { Err(Rejected::Budget) } else { Ok(Command { candidates: kept, ..command.clone() }) }
}

/// The same node as a candidate of the newer snapshot, where it still is a case for the method.
fn again(context: &Context<'_>, method: &dyn Method, old: &Candidate) -> Option<Candidate> {
    let claim = old.node.claim_name()?;
    let index = context.snapshot.nodes.iter().position(|node| node.claim_name() == Some(claim))?;
    let fresh = candidate(context.snapshot, index, context.now, method.is_eventual()).ok()?;
    method.is_case(context, &fresh).ok()?.then_some(fresh)
}

/// Whether what is to be created for the pods of `candidates` is what a what-if asks for.
pub(super) fn covers(context: &Context<'_>, candidates: &[&Candidate], planned: &[NewClaim]) -> bool {
    let simulation = simulate(context, candidates);
    simulation.problem.is_none() && still_covers(planned, &simulation.plan.new_claims)
}

/// Whether what is to be created would still do: as many nodes, and every type that may be launched is one that the
/// newer simulation would accept.
pub(super) fn still_covers(planned: &[NewClaim], needed: &[NewClaim]) -> bool {
    planned.len() == needed.len()
        && planned.iter().zip(needed).all(|(planned, needed)| {
            let accepted =
                |name| needed.instance_types.iter().any(|instance_type| instance_type.name == name);
            planned.instance_types.iter().all(|instance_type| accepted(instance_type.name.clone()))
        })
}
