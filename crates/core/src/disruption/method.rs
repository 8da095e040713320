//! What a disruption method is: the nodes that it considers, and the [`Verdict`] that it returns.

use super::{
    BalancedScore, Budgets, Candidate, Command, Context, MethodSpec, SimulationSolver, Unconsolidatable,
    leads::{Lead, Leads},
    simulation,
};
use crate::scheduling::NewClaim;

/// A way to find nodes to disrupt. One file each, listed in [`METHODS`](super::METHODS).
pub trait Method: Sync {
    /// Names and class.
    fn spec(&self) -> &'static MethodSpec;

    /// Whether the method considers this node.
    ///
    /// # Errors
    /// Why it does not, where that is reported on the node. `Ok(false)` where it is not.
    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable>;

    /// Sorts the cases of a pass, once for all of its commands.
    fn arrange(&self, _cases: &mut [&Candidate]) {}

    /// Whether `planned`, decided earlier for `candidates`, still covers their pods.
    fn still_holds(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        planned: &[NewClaim],
    ) -> bool {
        simulation::covers(context, solver, self.spec(), (candidates, planned))
    }

    /// The commands to start now, for `candidates`, which are cases of the method as arranged, within `budgets`.
    /// `leads` are those of the pass so far; the verdict returns them with what this method adds or takes.
    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        leads: Leads,
        budgets: &mut Budgets,
    ) -> Verdict;
}

/// Everything that one call of a method found.
#[derive(Debug)]
#[must_use]
pub struct Verdict {
    /// Commands to start.
    pub commands: Vec<Command>,
    /// Candidates that stay, each with the reason.
    pub refusals: Vec<(Candidate, Unconsolidatable)>,
    /// Leads of the pass for the next call, of this method or a later one.
    pub leads: Leads,
    /// Candidates that were not simulated because the pass had reached its limit.
    pub unreached: Vec<Candidate>,
    /// Scores of moves under the policy `Balanced`, also of those that were rejected.
    pub scores: Vec<BalancedScore>,
}

impl Verdict {
    /// A verdict without findings. It passes `leads` on.
    pub fn new(leads: Leads) -> Self {
        let (commands, refusals, unreached, scores) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { commands, refusals, leads, unreached, scores }
    }

    /// Adds the findings of a refusal other than its reason, which is returned.
    pub(super) fn absorb(
        &mut self,
        context: &Context<'_>,
        candidates: &[&Candidate],
        refusal: Refusal,
    ) -> Unconsolidatable {
        let Refusal { reason, lead, scores } = refusal;
        if let Some(lead) = lead {
            self.leads.add(context, candidates, *lead);
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

/// Why a set of candidates does not become a command, with what was found on the way.
#[derive(Debug)]
pub struct Refusal {
    /// The reason.
    pub reason: Unconsolidatable,
    /// A hint for a later method.
    pub lead: Option<Box<Lead>>,
    /// Scores under the policy `Balanced`, where the move was scored.
    pub scores: Vec<BalancedScore>,
}

impl From<Unconsolidatable> for Refusal {
    fn from(reason: Unconsolidatable) -> Self {
        Self { reason, lead: None, scores: Vec::new() }
    }
}
