//! The interface of disruption methods: the nodes that a method considers, and the [`Verdict`] that it returns.

use super::{
    BalancedScore, Budgets, Candidate, Command, Context, MethodSpec, SimulationSolver, Unconsolidatable,
    hints::{Hint, Hints},
    simulation,
};
use crate::scheduling::NewClaim;

/// A disruption method. One file each, listed in [`METHODS`](super::METHODS).
pub trait Method: Sync {
    /// Names and class.
    fn spec(&self) -> &'static MethodSpec;

    /// Whether the method considers this node.
    ///
    /// # Errors
    /// Why it does not, if that is reported on the node; otherwise `Ok(false)`.
    fn should_disrupt(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable>;

    /// Sorts the candidates of a pass, once for all of its commands.
    fn sort_candidates(&self, _candidates: &mut [&Candidate]) {}

    /// Whether `planned`, decided earlier for `candidates`, still covers their pods.
    fn is_still_valid(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        planned: &[NewClaim],
    ) -> bool {
        simulation::covers(context, solver, self.spec(), (candidates, planned))
    }

    /// The commands to start now for `candidates` (of this method, sorted) within `budgets`.
    /// `hints` are those of the pass so far; the verdict returns them with the changes of this method.
    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        hints: Hints,
        budgets: &mut Budgets,
    ) -> Verdict;
}

/// All findings of one call of a method.
#[derive(Debug)]
#[must_use]
pub struct Verdict {
    /// Commands to start.
    pub commands: Vec<Command>,
    /// Candidates that are not disrupted, with the reason.
    pub refusals: Vec<(Candidate, Unconsolidatable)>,
    /// Hints of the pass for the next call, of this method or a later one.
    pub hints: Hints,
    /// Candidates that were not simulated because the pass had reached its limit.
    pub unreached: Vec<Candidate>,
    /// Scores of moves under the policy `Balanced`, also of those that were rejected.
    pub scores: Vec<BalancedScore>,
}

impl Verdict {
    /// A verdict without findings, with the hints so far.
    pub fn new(hints: Hints) -> Self {
        let (commands, refusals, unreached, scores) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { commands, refusals, hints, unreached, scores }
    }

    /// Adds the findings of a refusal other than its reason, which is returned.
    pub(super) fn absorb(
        &mut self,
        context: &Context<'_>,
        candidates: &[&Candidate],
        refusal: Refusal,
    ) -> Unconsolidatable {
        let Refusal { reason, hint, scores } = refusal;
        if let Some(hint) = hint {
            self.hints.add(context, candidates, *hint);
        }
        self.scores.extend(scores);
        reason
    }

    /// Adds a command.
    pub(super) fn accept(&mut self, command: Command) {
        self.scores.extend(command.scores.iter().cloned());
        self.commands.push(command);
    }
}

/// Why a set of candidates does not become a command, with a hint and scores.
#[derive(Debug)]
pub struct Refusal {
    /// The reason.
    pub reason: Unconsolidatable,
    /// A hint for a later method.
    pub hint: Option<Box<Hint>>,
    /// Scores under the policy `Balanced`, if the move was scored.
    pub scores: Vec<BalancedScore>,
}

impl From<Unconsolidatable> for Refusal {
    fn from(reason: Unconsolidatable) -> Self {
        Self { reason, hint: None, scores: Vec::new() }
    }
}
