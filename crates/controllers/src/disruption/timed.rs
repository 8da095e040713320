//! How long each disruption method of a pass takes.

use std::sync::{Mutex, PoisonError};

use fleetwright_core::{
    clock::SharedClock,
    disruption::{
        Budgets, Candidate, Context, Hints, Method, MethodSpec, SimulationSolver, Unconsolidatable, Verdict,
    },
    scheduling::NewClaim,
};
use jiff::SignedDuration;

/// Measures the proposals of a method: `core` reads no clock.
pub(super) struct Timed {
    method: &'static dyn Method,
    clock: SharedClock,
    took: Mutex<SignedDuration>,
}

impl Timed {
    pub(super) fn new(method: &'static dyn Method, clock: &SharedClock) -> Self {
        Self { method, clock: clock.clone(), took: Mutex::default() }
    }

    /// The time of all calls so far.
    pub(super) fn took(&self) -> SignedDuration {
        *self.took.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Method for Timed {
    fn spec(&self) -> &'static MethodSpec {
        self.method.spec()
    }

    fn should_disrupt(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        self.method.should_disrupt(context, candidate)
    }

    fn sort_candidates(&self, considered: &mut [&Candidate]) {
        self.method.sort_candidates(considered);
    }

    fn is_still_valid(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        planned: &[NewClaim],
    ) -> bool {
        self.method.is_still_valid(context, solver, candidates, planned)
    }

    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        hints: Hints,
        budgets: &mut Budgets,
    ) -> Verdict {
        let began = self.clock.steady();
        let verdict = self.method.propose(context, solver, candidates, hints, budgets);
        let took = self.clock.steady().duration_since(began);
        let mut sum = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = sum.saturating_add(took);
        verdict
    }
}
