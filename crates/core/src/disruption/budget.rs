//! How many machines of a pool may be disrupted now.

use jiff::Timestamp;

use super::{Budgets, cron::Schedule, cron::ScheduleError};
use crate::model::{
    Budget, DisruptionReason, NodePool, PoolName, Snapshot, StateNode, Str, labels, pool::BudgetNodes,
};

/// Why a pool's budgets allow nothing at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// A schedule cannot be read.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A number of nodes cannot be read.
    #[error("budget nodes {0:?} is neither a number nor a percentage of at most 100%")]
    Nodes(Str),
    /// A schedule without a duration, or the other way round.
    #[error("a budget needs both schedule and duration, or neither")]
    HalfAWindow,
}

/// What a pool's budgets say for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The pool.
    pub pool: PoolName,
    /// The reason.
    pub reason: DisruptionReason,
    /// Machines that count: managed, initialised, not being ended.
    pub total: i64,
    /// How many may be disrupted at once.
    pub allowed: i64,
    /// How many are: being disrupted, or not ready.
    pub disrupting: i64,
    /// Why nothing is allowed, where a budget cannot be read.
    pub error: Option<BudgetError>,
}

impl Allowance {
    /// How many more may be disrupted.
    #[must_use]
    pub fn left(&self) -> i64 {
        (self.allowed - self.disrupting).max(0)
    }
}

/// How many of `total` machines the pool's budgets allow to be disrupted at once: the least of the active ones.
///
/// # Errors
/// Where any budget of the pool cannot be read: then nothing is allowed, whatever the others say.
pub fn allowed(
    pool: &NodePool,
    reason: DisruptionReason,
    total: i64,
    now: Timestamp,
) -> Result<i64, BudgetError> {
    let mut least = i64::MAX;
    for budget in &pool.budgets {
        let nodes = size(budget, total)?;
        let applies = budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason));
        // Read even where the reason does not match, so that an unreadable budget is never overlooked.
        if is_active(budget, now)? && applies {
            least = least.min(nodes);
        }
    }
    Ok(least)
}

fn size(budget: &Budget, total: i64) -> Result<i64, BudgetError> {
    match &budget.nodes {
        BudgetNodes::Count(count) => Ok(i64::from(*count)),
        // Rounded up, so that a small pool is not frozen by a percentage.
        BudgetNodes::Percent(percent) if *percent <= 100 => Ok((total * i64::from(*percent) + 99) / 100),
        BudgetNodes::Percent(percent) => Err(BudgetError::Nodes(format!("{percent}%").into())),
        BudgetNodes::Invalid(text) => Err(BudgetError::Nodes(text.clone())),
    }
}

fn is_active(budget: &Budget, now: Timestamp) -> Result<bool, BudgetError> {
    match (&budget.schedule, budget.duration) {
        (None, None) => Ok(true),
        (Some(schedule), Some(duration)) => Ok(Schedule::parse(schedule)?.is_active(now, duration)),
        _ => Err(BudgetError::HalfAWindow),
    }
}

/// What the budgets of `pool` say for `reason`, against what of it is being disrupted.
#[must_use]
pub fn allowance(
    snapshot: &Snapshot,
    pool: &NodePool,
    reason: DisruptionReason,
    now: Timestamp,
) -> Allowance {
    let members = snapshot.nodes.iter().filter(|node| counts(node, pool));
    let (mut total, mut disrupting) = (0, 0);
    for node in members {
        total += 1;
        disrupting += i64::from(node.is_deleting() || node.node.as_ref().is_none_or(|node| !node.ready));
    }
    let (allowed, error) = match allowed(pool, reason, total, now) {
        Ok(allowed) => (allowed, None),
        Err(error) => (0, Some(error)),
    };
    Allowance { pool: pool.name.clone(), reason, total, allowed, disrupting, error }
}

/// Whether a machine counts for the budgets of `pool`.
fn counts(node: &StateNode, pool: &NodePool) -> bool {
    use crate::model::nodeclaim::ConditionType::InstanceTerminating;
    node.label(labels::NODEPOOL) == Some(&*pool.name)
        && node.claim.as_ref().is_some_and(|claim| !claim.is(InstanceTerminating))
        && node.is_initialized()
}

/// What the budgets of all pools say, for every reason.
pub(super) fn allowances(snapshot: &Snapshot, now: Timestamp) -> Vec<Allowance> {
    let of_pool = |pool| DisruptionReason::ALL.map(|reason| allowance(snapshot, pool, reason, now));
    snapshot.pools.iter().flat_map(|pool| of_pool(&**pool)).collect()
}

/// What is left of the budgets of all pools for `reason`.
pub(super) fn budgets(snapshot: &Snapshot, reason: DisruptionReason, now: Timestamp) -> Budgets {
    let left =
        snapshot.pools.iter().map(|pool| (pool.name.clone(), allowance(snapshot, pool, reason, now).left()));
    Budgets { left: left.collect(), constrained: false }
}
