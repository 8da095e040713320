//! How long each disruption method of a pass takes.

use std::sync::{Mutex, PoisonError};

use fleetwright_core::{
    clock::SharedClock,
    disruption::{
        Budgets, Candidate, Context, Leads, Method, MethodSpec, SimulationSolver, Unconsolidatable, Verdict,
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

    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        self.method.is_case(context, candidate)
    }

    fn arrange(&self, cases: &mut [&Candidate]) {
        self.method.arrange(cases);
    }

    fn still_holds(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        planned: &[NewClaim],
    ) -> bool {
        self.method.still_holds(context, solver, candidates, planned)
    }

    fn propose(
        &self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        leads: Leads,
        budgets: &mut Budgets,
    ) -> Verdict {
        let began = self.clock.steady();
        let verdict = self.method.propose(context, solver, candidates, leads, budgets);
        let took = self.clock.steady().duration_since(began);
        let mut sum = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = sum.saturating_add(took);
        verdict
    }
}
