//! A snapshot becomes [`Command`]s: which nodes to remove, what to create in their place, and why the others stay.
//!
//! [`propose`] runs the [`METHODS`] in order; the first that has something to do ends the pass. A new method is one file
//! and one line there. Nothing is carried out here: the shell waits out the validation delay, asks [`validate`] on a
//! newer snapshot, and only then acts.

mod balanced;
mod bench;
mod benefit;
mod blocker;
mod brake;
mod budget;
mod candidate;
mod command;
mod consolidation;
mod cost;
mod cron;
mod drift;
mod emptiness;
mod expiry;
mod guards;
mod history;
mod multi_node;
mod overlay;
mod pass;
mod several;
mod simulation;
mod single_node;
mod standing;
mod static_drift;
mod static_pool;
#[cfg(test)]
mod tests;
mod validation;

pub use balanced::Judged;
pub use bench::Bench;
pub use blocker::{Blocked, Blocker, StaticDriftHeld, Unconsolidatable};
pub use brake::{Brake, brake};
pub use budget::{Allowance, BudgetError, allowance, allowed};
pub use candidate::{Candidate, candidate, candidates, known};
pub use command::{Command, Decision};
pub use cost::{DisruptionCost, eviction_cost};
pub use cron::{Schedule, ScheduleError, zone};
pub use guards::outage;
pub use history::{replaced, returned};
pub use pass::{propose, propose_after, propose_with};
pub use several::Refused;
pub use simulation::{Simulation, simulate};
pub use standing::{Standing, Survey, standing, standings, survey};
pub use static_pool::{Census, Scaling, new_claim as static_new_claim, scale};
pub use validation::{Rejected, still_allowed, validate, validate_on};

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::{
    model::{DisruptionReason, PoolName, Snapshot, Str},
    scheduling::{self, NewClaim},
};

/// What of the settings disruption reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How replacements are scheduled.
    pub scheduling: scheduling::Rules,
    /// Whether a spot node may be replaced by a cheaper spot node (feature gate `SpotToSpotConsolidation`).
    pub spot_to_spot: bool,
    /// How many simulations one pass may make. One takes some microseconds on a calm cluster and some milliseconds on a
    /// hard one, so that the default bounds a pass by about a minute. What is not reached comes first in the next pass.
    pub what_ifs: u32,
    /// When prices were told last, where they age ([`CloudProvider::prices_as_of`](crate::cloud::CloudProvider::prices_as_of)).
    pub prices_as_of: Option<Timestamp>,
}

impl Rules {
    /// The default bound on the simulations of one pass.
    pub const WHAT_IFS: u32 = 50_000;
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            scheduling: scheduling::Rules::default(),
            spot_to_spot: false,
            what_ifs: Self::WHAT_IFS,
            prices_as_of: None,
        }
    }
}

/// Everything that a method reads.
pub struct Context<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// The settings.
    pub rules: &'a Rules,
    /// The moment that time windows and budgets are judged at.
    pub now: Timestamp,
    /// Where simulations of the pass are made.
    pub solver: &'a Bench<'a>,
}

/// A way to find nodes that should go. One file each.
pub trait Method: Sync {
    /// Name for metrics and for people: `emptiness`, `multi-node-consolidation`.
    fn name(&self) -> &'static str;

    /// Karpenter's `consolidation_type` label: `empty`, `multi`, `single`, or nothing for drift.
    fn consolidation_type(&self) -> &'static str;

    /// The reason that budgets are asked with and that conditions show.
    fn reason(&self) -> DisruptionReason;

    /// Whether it goes through with pods that object (PDBs, do-not-disrupt), because a terminationGracePeriod ends the
    /// wait: Karpenter's `eventual` class.
    fn is_eventual(&self) -> bool {
        false
    }

    /// Whether the shell waits and validates before it acts.
    fn is_validated(&self) -> bool {
        true
    }

    /// Whether this node is one for the method.
    ///
    /// # Errors
    /// Why not; `Ok(false)` where the node simply is no case for the method and nobody needs to be told.
    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable>;

    /// Puts the cases of a pass into the order in which they are looked at, once for all commands of the pass.
    fn arrange(&self, _cases: &mut [&Candidate]) {}

    /// Whether `planned`, which was to come in place of `candidates`, would still do.
    fn still_holds(&self, context: &Context<'_>, candidates: &[&Candidate], planned: &[NewClaim]) -> bool {
        validation::covers(context, candidates, planned)
    }

    /// The commands to carry out now, for candidates that are cases for the method, as arranged, within `budgets`.
    fn propose(&self, context: &Context<'_>, candidates: &[&Candidate], budgets: &mut Budgets) -> Verdict;
}

/// The method called `name`.
#[must_use]
pub fn method(name: &str) -> Option<&'static dyn Method> {
    METHODS.into_iter().find(|method| method.name() == name)
}

/// All methods, in the order in which they are tried.
pub static METHODS: [&dyn Method; 7] = [
    &emptiness::Emptiness,
    &static_drift::StaticDrift,
    &drift::Drift,
    &expiry::Expiry,
    &multi_node::MultiNode,
    &single_node::SingleNode,
    &several::Several,
];

/// What a method came to.
#[derive(Debug, Default)]
#[must_use]
pub struct Verdict {
    /// What to do; nothing where it is empty.
    pub commands: Vec<Command>,
    /// Why candidates were left alone.
    pub unconsolidatable: Vec<(Candidate, Unconsolidatable)>,
    /// What could not be looked at any more in this pass.
    pub unreached: Vec<Candidate>,
}

/// How many more nodes of each pool may be disrupted for one reason.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    left: BTreeMap<PoolName, i64>,
    /// Whether a candidate was turned away, so that "nothing to do" does not mean that there is nothing.
    pub constrained: bool,
}

impl Budgets {
    /// Takes one node of `pool` out of the budget, where there is room.
    pub fn take(&mut self, pool: &str) -> bool {
        match self.left.get_mut(pool) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => {
                self.constrained = true;
                false
            }
        }
    }

    /// Whether there is room for one more node of `pool`; takes note where there is none.
    pub fn has(&mut self, pool: &str) -> bool {
        let room = self.left(pool) > 0;
        self.constrained |= !room;
        room
    }

    /// Lowers what is left for `pool` to `most`.
    pub(super) fn cap(&mut self, pool: &str, most: i64) {
        if let Some(left) = self.left.get_mut(pool) {
            *left = (*left).min(most);
        }
    }

    /// What is left for `pool`.
    #[must_use]
    pub fn left(&self, pool: &str) -> i64 {
        self.left.get(pool).copied().unwrap_or(0)
    }
}

/// What one pass leaves for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// NodeClaims that it did not reach: they come first.
    pub first: BTreeSet<Str>,
    /// What it packed by price in vain.
    pub refused: Refused,
}

/// What a pass came to.
#[derive(Debug, Default)]
#[must_use = "a proposal that nobody carries out or reports is lost"]
pub struct Proposal {
    /// Commands of the first method that found any, in order.
    pub commands: Vec<Command>,
    /// Name of that method.
    pub method: Option<&'static str>,
    /// Nodes that may not be disrupted at all now, by name.
    pub blocked: Vec<Blocked>,
    /// Nodes that consolidation looked at and left, with the reason.
    pub unconsolidatable: Vec<(Candidate, Unconsolidatable)>,
    /// Nodes that have drifted and have to stay, with the reason.
    pub held: Vec<(Candidate, Unconsolidatable)>,
    /// What the budgets allow, per pool and reason.
    pub allowances: Vec<Allowance>,
    /// How many nodes each tried method had as cases.
    pub eligible: Vec<(&'static str, usize)>,
    /// How many simulations were run.
    pub what_ifs: u32,
    /// Whether a budget turned a candidate away.
    pub constrained: bool,
    /// NodeClaims that the pass did not reach: they come first in the next one.
    pub unreached: Vec<Str>,
    /// What was packed by price in vain: it is left alone while it stays as it is.
    pub refused: Refused,
    /// How moves were weighed by the policy `Balanced`.
    pub judged: Vec<Judged>,
    /// What the brakes on drift say, of pools that have one.
    pub brakes: Vec<Brake>,
}

impl Proposal {
    /// What the next pass should know of this one.
    #[must_use]
    pub fn recall(&self) -> Recall {
        Recall { first: self.unreached.iter().cloned().collect(), refused: self.refused.clone() }
    }
}
