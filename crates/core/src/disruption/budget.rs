//! Disruption budgets: how many nodes of a NodePool may be disrupted now.

use std::collections::BTreeMap;

use jiff::{Timestamp, tz::TimeZone};

use super::cron::{self, Schedule, ScheduleError, Window};
use crate::model::{
    Budget, DisruptionReason, NodePool, PoolName, Snapshot, StateNode, Str, labels, pool::BudgetNodes,
};

/// Why a budget of a NodePool is invalid. Then the NodePool allows no disruption.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// An invalid schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// An invalid number of nodes.
    #[error("budget nodes {0:?} is neither a number nor a percentage of at most 100%")]
    Nodes(Str),
    /// An unknown time zone.
    #[error("time zone {0:?} is not one of the IANA database, such as Europe/Berlin")]
    TimeZone(Str),
    /// A schedule without a duration, or the reverse.
    #[error("a budget needs both schedule and duration, or neither")]
    IncompleteWindow,
}

/// How many more nodes of each NodePool may be disrupted for one reason.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    left: BTreeMap<PoolName, i64>,
    /// Whether a budget excluded a candidate: then a pass without commands may still have work to do.
    pub constrained: bool,
}

impl Budgets {
    /// Takes one node of `pool` from the budget. Returns whether it allowed that.
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

    /// Whether the budget allows one more node of `pool`; sets `constrained` if not.
    pub fn has(&mut self, pool: &str) -> bool {
        let room = self.left(pool) > 0;
        self.constrained |= !room;
        room
    }

    /// Lowers the remaining budget of `pool` to `most`.
    pub(super) fn cap(&mut self, pool: &str, most: i64) {
        if let Some(left) = self.left.get_mut(pool) {
            *left = (*left).min(most);
        }
    }

    /// The remaining budget of `pool`.
    #[must_use]
    pub fn left(&self, pool: &str) -> i64 {
        self.left.get(pool).copied().unwrap_or(0)
    }
}

/// The budgets of a NodePool for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The pool.
    pub pool: PoolName,
    /// The reason.
    pub reason: DisruptionReason,
    /// Number of nodes that count: managed, initialized, not terminating.
    pub total: i64,
    /// How many may be disrupted at once.
    pub allowed: i64,
    /// How many are disrupted or not ready now.
    pub disrupting: i64,
    /// When the window of the most restrictive budget closes; `None` if it is always open.
    pub until: Option<Timestamp>,
    /// Why nothing is allowed, if a budget is invalid.
    pub error: Option<BudgetError>,
}

impl Allowance {
    /// How many more may be disrupted.
    #[must_use]
    pub fn left(&self) -> i64 {
        (self.allowed - self.disrupting).max(0)
    }
}

/// How many of `total` nodes the budgets of a NodePool allow to be disrupted at once: the minimum of the active budgets.
///
/// # Errors
/// If any budget of the NodePool is invalid: then nothing is allowed.
pub fn allowed(
    pool: &NodePool,
    reason: DisruptionReason,
    total: i64,
    now: Timestamp,
) -> Result<i64, BudgetError> {
    least(pool, reason, total, now).map(|(nodes, _)| nodes)
}

/// [`allowed`], and when the window of that budget closes.
fn least(
    pool: &NodePool,
    reason: DisruptionReason,
    total: i64,
    now: Timestamp,
) -> Result<(i64, Option<Timestamp>), BudgetError> {
    let mut least = (i64::MAX, None);
    for budget in &pool.budgets {
        let nodes = size(budget, total)?;
        let applies = budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason));
        // Evaluated even if the reason does not match, so that no invalid budget is overlooked.
        let window = window(budget, now)?;
        match window {
            // Of equal budgets, the one whose window closes last.
            Window::Always if applies && nodes <= least.0 => least = (nodes, None),
            Window::Until(end)
                if applies
                    && (nodes < least.0
                        || (nodes == least.0 && least.1.is_some_and(|known| known < end))) =>
            {
                least = (nodes, Some(end))
            }
            _ => {}
        }
    }
    Ok(least)
}

fn window(budget: &Budget, now: Timestamp) -> Result<Window, BudgetError> {
    match (&budget.schedule, budget.duration) {
        (None, None) => Ok(Window::Always),
        (Some(schedule), Some(duration)) => {
            let zone = match &budget.zone {
                Some(name) => cron::zone(name).ok_or_else(|| BudgetError::TimeZone(name.clone()))?,
                None => TimeZone::UTC,
            };
            Ok(Schedule::parse(schedule)?.window(&zone, now, duration))
        }
        _ => Err(BudgetError::IncompleteWindow),
    }
}

fn size(budget: &Budget, total: i64) -> Result<i64, BudgetError> {
    match &budget.nodes {
        BudgetNodes::Count(count) => Ok(i64::from(*count)),
        // Rounded up, so that a percentage does not block a small NodePool.
        BudgetNodes::Percent(percent) => Ok((total * i64::from(*percent) + 99) / 100),
        BudgetNodes::Invalid(text) => Err(BudgetError::Nodes(text.clone())),
    }
}

fn of_pool(pool: &NodePool, reason: DisruptionReason, counted: Counted, now: Timestamp) -> Allowance {
    let Counted { total, disrupting } = counted;
    let (allowed, until, error) = match least(pool, reason, total, now) {
        Ok((allowed, until)) => (allowed, until, None),
        Err(error) => (0, None, Some(error)),
    };
    Allowance { pool: pool.name.clone(), reason, total, allowed, disrupting, until, error }
}

/// The nodes of a NodePool that count for its budgets.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    total: i64,
    disrupting: i64,
}

/// Counts the nodes of all NodePools.
fn counts(snapshot: &Snapshot) -> BTreeMap<&str, Counted> {
    let mut pools: BTreeMap<&str, Counted> = BTreeMap::new();
    for node in &snapshot.nodes {
        if let Some(pool) = node.label(labels::NODEPOOL).filter(|_| is_counted(node)) {
            let counted = pools.entry(pool).or_default();
            counted.total += 1;
            counted.disrupting += i64::from(is_disrupting(node));
        }
    }
    pools
}

/// Whether a node counts for the budgets of its pool.
fn is_counted(node: &StateNode) -> bool {
    use crate::model::nodeclaim::ConditionType::InstanceTerminating;
    node.claim.as_ref().is_some_and(|claim| !claim.is(InstanceTerminating)) && node.is_initialized()
}

/// Whether a node counts against the budget of its pool.
pub(super) fn is_disrupting(node: &StateNode) -> bool {
    node.is_deleting() || node.node.as_ref().is_none_or(|node| !node.ready)
}

/// The budgets of all NodePools, in the order of the snapshot, for every reason, in the order of [`DisruptionReason::ALL`], and how
/// many nodes count against them.
#[must_use]
pub fn allowances(snapshot: &Snapshot, now: Timestamp) -> Vec<Allowance> {
    let counts = counts(snapshot);
    let of_pool = |pool: &NodePool| {
        let counted = counts.get(&*pool.name).copied().unwrap_or_default();
        DisruptionReason::ALL.map(|reason| of_pool(pool, reason, counted, now))
    };
    snapshot.pools.iter().flat_map(|pool| of_pool(pool)).collect()
}

/// The remaining budgets of `allowances` for `reason`.
pub(super) fn left_of(allowances: &[Allowance], reason: DisruptionReason) -> Budgets {
    let of_reason = allowances.iter().filter(|allowance| allowance.reason == reason);
    let left = of_reason.map(|allowance| (allowance.pool.clone(), allowance.left()));
    Budgets { left: left.collect(), constrained: false }
}

/// The remaining budgets of all NodePools for `reason`.
pub(super) fn budgets(snapshot: &Snapshot, reason: DisruptionReason, now: Timestamp) -> Budgets {
    left_of(&allowances(snapshot, now), reason)
}
