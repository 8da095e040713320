//! Validation: whether a command is still valid on a newer snapshot, after the validation delay.

use jiff::Timestamp;

use super::{
    Budgets, Candidate, Command, Context, Method, Rules, SimulationSolver, budget, candidate, method,
};
use crate::model::Snapshot;

/// Why a command is not valid any more. The names are Karpenter's metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// A budget does not allow it.
    Budget,
    /// The pods need other replacements.
    Scheduling,
    /// A node is no longer a candidate.
    Churn,
}

impl Rejected {
    /// The name for events and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
            Self::Churn => "churn",
        }
    }
}

/// Validates a command on `snapshot`. Returns it unchanged, or for emptiness with the nodes that are still empty.
///
/// # Errors
/// Why it may not start.
pub fn validate(
    command: &Command,
    snapshot: &Snapshot,
    rules: &Rules,
    now: Timestamp,
) -> Result<Command, Rejected> {
    validate_on(command, &mut SimulationSolver::new(snapshot, &rules.scheduling), rules, now)
}

/// [`validate`] by an existing solver, which is restored afterwards.
///
/// # Errors
/// Why it may not start.
pub fn validate_on(
    command: &Command,
    solver: &mut SimulationSolver<'_>,
    rules: &Rules,
    now: Timestamp,
) -> Result<Command, Rejected> {
    let Some(method) = method(command.method.name) else { return Err(Rejected::Churn) };
    let snapshot = solver.snapshot();
    let context = Context::new(snapshot, rules, now);
    let mut budgets = budget::budgets(snapshot, command.method.reason, now);
    if command.replacements.is_empty() && command.candidates.iter().all(Candidate::is_empty) {
        return still_empty(&context, method, command, &mut budgets);
    }
    let current =
        command.candidates.iter().map(|old| current_candidate(&context, method, old).ok_or(Rejected::Churn));
    let current = current.collect::<Result<Vec<_>, _>>()?;
    if !current.iter().all(|candidate| budgets.take(&candidate.pool.name)) {
        return Err(Rejected::Budget);
    }
    let references: Vec<&Candidate> = current.iter().collect();
    if !method.is_still_valid(&context, solver, &references, &command.replacements) {
        return Err(Rejected::Scheduling);
    }
    Ok(Command { candidates: current, ..command.clone() })
}

/// Checks that the nodes of a command are still candidates of its method, and within the budgets, on `snapshot`. Used
/// before a command without validation starts after another one of its pass.
///
/// # Errors
/// Why it may not start.
pub fn is_still_allowed(
    command: &Command,
    snapshot: &Snapshot,
    rules: &Rules,
    now: Timestamp,
) -> Result<(), Rejected> {
    let Some(method) = method(command.method.name) else { return Err(Rejected::Churn) };
    let context = Context::new(snapshot, rules, now);
    let mut budgets = budget::budgets(snapshot, command.method.reason, now);
    for old in &command.candidates {
        let current = current_candidate(&context, method, old).ok_or(Rejected::Churn)?;
        if !budgets.take(&current.pool.name) {
            return Err(Rejected::Budget);
        }
    }
    Ok(())
}

/// Emptiness continues with the nodes that are still empty and within budget.
fn still_empty(
    context: &Context<'_>,
    method: &dyn Method,
    command: &Command,
    budgets: &mut Budgets,
) -> Result<Command, Rejected> {
    let still: Vec<Candidate> =
        command.candidates.iter().filter_map(|old| current_candidate(context, method, old)).collect();
    if still.is_empty() {
        return Err(Rejected::Churn);
    }
    let kept: Vec<Candidate> =
        still.into_iter().filter(|candidate| budgets.take(&candidate.pool.name)).collect();
    if kept.is_empty() { Err(Rejected::Budget) } else { Ok(Command { candidates: kept, ..command.clone() }) }
}

/// The node as a candidate of the newer snapshot, if the method still considers it.
fn current_candidate(context: &Context<'_>, method: &dyn Method, old: &Candidate) -> Option<Candidate> {
    let claim = old.node.claim_name()?;
    let index = context.snapshot.nodes.iter().position(|node| node.claim_name() == Some(claim))?;
    let current = candidate(context.snapshot, index, context.now, method.spec().is_eventual()).ok()?;
    method.should_disrupt(context, &current).ok()?.then_some(current)
}
