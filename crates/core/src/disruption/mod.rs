//! From a snapshot to [`Command`]s: which nodes to delete, what to create first, and why the other nodes are not disrupted.
//!
//! [`propose`] runs the [`METHODS`] in order; the first that finds commands ends the pass. A new method is one file and one
//! line there. Rules against churn are `gates/`, applied in one written order. Nothing is executed here: the controller
//! waits for the validation delay, calls [`validate`] on a newer snapshot, and then starts the command.

mod agenda;
mod blocker;
mod budget;
mod candidate;
mod cluster_blockers;
mod command;
mod consolidation;
mod context;
mod cost;
mod cron;
mod drift_cap;
mod gates;
mod hints;
pub mod lineage;
mod method;
mod methods;
mod overlay;
mod pass;
mod rules;
mod score;
mod simulation;
mod solver;
mod spec;
mod started;
mod static_pool;
mod status;
#[cfg(test)]
mod tests;
mod validation;

pub use agenda::{Agenda, PassMemory};
pub use blocker::{Blocked, Blocker, StaticDriftBlocked, Unconsolidatable};
pub use budget::{Allowance, BudgetError, Budgets, allowances, allowed};
pub use candidate::{Candidate, candidate, candidates, known};
pub use cluster_blockers::outage;
pub use command::{Command, Decision};
pub use context::{Context, PassStart, UnchangedEpoch};
pub use cost::{DisruptionCost, eviction_cost};
pub use cron::{Schedule, ScheduleError, zone};
pub use drift_cap::{DriftCapUsage, drift_cap_usage};
pub use gates::{DisplacedPods, RefusedSets};
pub use hints::{Hint, Hints};
pub use method::{Method, Refusal, Verdict};
pub use methods::{METHODS, method};
pub use pass::{CarryOver, Proposal, propose, propose_after, propose_with};
pub use rules::Rules;
pub use score::BalancedScore;
pub use simulation::{Simulation, simulate};
pub use solver::SimulationSolver;
pub use spec::{DisruptionClass, MethodSpec};
pub use started::{Abandoned, CommandRecord, Next, StartedCommand, is_marked, progress, resume, timeout};
pub use static_pool::{NodeCounts, Scaling, new_claim as static_new_claim, scale};
pub use status::{DisruptionStatus, Survey, status, statuses, survey};
pub use validation::{Rejected, is_still_allowed, validate, validate_on};
