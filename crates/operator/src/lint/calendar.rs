//! `lint --calendar 7d`: how many nodes disruption budgets allow, by NodePool, reason and time, and which budget decides.

use fleetwright_controllers::settings::SolveEffort;
use fleetwright_core::{
    disruption::{self, Schedule},
    model::{Budget, DisruptionReason, NodePool},
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    catalogue::Catalogues,
    cli::PlanOptions,
    input::Item,
    plan,
    settings::Values,
    sheet::{Page, Sheet, figure, text},
};

/// The size of a NodePool for budgets in percent, where it has no nodes.
pub(super) const ASSUMED_NODES: i64 = 100;
/// The longest calendar: 5 weeks of hours; at most 50,400 windows of a budget.
const MAX_HOURS: i64 = 5 * 7 * 24;

/// What decides where no budget is active.
pub(super) const NO_BUDGET: &str = "no budget";

/// A time without a change.
pub(super) struct Stretch {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// A number of nodes, or `all`.
    pub(super) allowed: String,
    /// `budgets[AT]`, [`NO_BUDGET`], or what is wrong with a budget.
    pub(super) by: String,
}

pub(super) fn page(
    items: Vec<Item>,
    (start, span): (Timestamp, std::time::Duration),
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Page> {
    let options = PlanOptions::of_tool(SolveEffort::Iterations(0), Default::default());
    let (mut loaded, _) = plan::prepare(items, &options, catalogues, values)?;
    let snapshot = loaded.index.snapshot(start);
    let hours = i64::try_from(span.as_secs() / 3600).unwrap_or(MAX_HOURS).clamp(1, MAX_HOURS);
    let start = Timestamp::from_second(start.as_second() / 3600 * 3600)?;
    let mut page = Page::default();
    let mut sheet = Sheet::new(&[
        text("NODEPOOL"),
        text("REASON"),
        text("FROM"),
        text("UNTIL"),
        figure("ALLOWED"),
        text("BY"),
    ]);
    for pool in &snapshot.pools {
        let nodes = snapshot.nodes.iter().filter(|node| node.pool().as_ref() == Some(&pool.name)).count();
        let total = i64::try_from(nodes).ok().filter(|nodes| *nodes > 0).unwrap_or(ASSUMED_NODES);
        let windows = BudgetWindows::new(pool, total, (start, hours));
        for reason in DisruptionReason::ALL {
            for stretch in windows.stretches(reason) {
                sheet.row([
                    pool.name.to_string(),
                    reason.to_string(),
                    stretch.from.to_string(),
                    stretch.to.to_string(),
                    stretch.allowed,
                    stretch.by,
                ]);
            }
        }
        page.line(format!(
            "NodePool {}: of {total} nodes{}",
            pool.name,
            if nodes == 0 { " (assumed)" } else { "" }
        ));
    }
    page.sheet(sheet);
    Ok(page)
}

/// The budgets of a NodePool over some time.
pub(super) struct BudgetWindows<'a> {
    pool: &'a NodePool,
    /// The nodes of the NodePool.
    total: i64,
    /// What each budget allows, and when it is active. Or what is wrong with a budget: then nothing is allowed.
    budgets: Result<Vec<(i64, Vec<OpenWindow>)>, String>,
    /// The start, the times at which a budget becomes active or is no longer, and the end.
    edges: Vec<Timestamp>,
}

/// From the first of two times until before the second.
type OpenWindow = (Timestamp, Timestamp);

impl<'a> BudgetWindows<'a> {
    /// The budgets from `start` for some hours.
    pub(super) fn new(pool: &'a NodePool, total: i64, (start, hours): (Timestamp, i64)) -> Self {
        let end = start.saturating_add(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::MAX);
        let of_budget = |budget: &Budget| {
            // All of them are evaluated as if they were about this reason: an invalid one stops all.
            let all_reasons = Budget { reasons: None, schedule: None, duration: None, ..budget.clone() };
            let always = NodePool { budgets: vec![all_reasons], ..pool.clone() };
            let nodes = disruption::allowed(&always, DisruptionReason::Drifted, total, start);
            Ok((nodes.map_err(|error| error.to_string())?, open_windows(budget, (start, end))))
        };
        let is_valid = disruption::allowed(pool, DisruptionReason::Drifted, total, start);
        let budgets = is_valid.map_err(|error| error.to_string());
        let budgets: Result<Vec<(i64, Vec<OpenWindow>)>, String> =
            budgets.and_then(|_| pool.budgets.iter().map(of_budget).collect());
        let mut edges = vec![start, end];
        let windows = budgets.iter().flatten().flat_map(|(_, windows)| windows);
        edges.extend(windows.flat_map(|(from, to)| [*from, *to]).filter(|edge| start < *edge && *edge < end));
        edges.sort_unstable();
        edges.dedup();
        Self { pool, total, budgets, edges }
    }

    /// What is allowed for a reason, and by which budget.
    pub(super) fn stretches(&self, reason: DisruptionReason) -> Vec<Stretch> {
        let mut found: Vec<Stretch> = Vec::new();
        for (from, to) in self.edges.iter().zip(self.edges.iter().skip(1)) {
            let (allowed, by) = match &self.budgets {
                Ok(budgets) => self.decides(reason, budgets, *from),
                Err(error) => ("0".to_owned(), error.clone()),
            };
            match found.last_mut().filter(|last| last.allowed == allowed && last.by == by) {
                Some(last) => last.to = *to,
                None => found.push(Stretch { from: *from, to: *to, allowed, by }),
            }
        }
        found
    }

    /// How many nodes may be disrupted, and by which budget that is so: of equal ones, the first.
    fn decides(
        &self,
        reason: DisruptionReason,
        budgets: &[(i64, Vec<OpenWindow>)],
        now: Timestamp,
    ) -> (String, String) {
        let applies = |budget: &Budget| budget.reasons.as_ref().is_none_or(|known| known.contains(&reason));
        let is_open = |windows: &[OpenWindow]| {
            let after = windows.partition_point(|(from, _)| *from <= now);
            after.checked_sub(1).and_then(|at| windows.get(at)).is_some_and(|(_, to)| now < *to)
        };
        let all = self.pool.budgets.iter().zip(budgets).enumerate();
        let active = all.filter(|(_, (budget, (_, windows)))| applies(budget) && is_open(windows));
        match active.map(|(at, (_, (nodes, _)))| (*nodes, at)).min() {
            None => ("all".to_owned(), NO_BUDGET.to_owned()),
            Some((nodes, at)) => {
                let allowed = if nodes >= self.total { "all".to_owned() } else { nodes.to_string() };
                (allowed, format!("budgets[{at}]"))
            }
        }
    }
}

/// When a valid budget is active, in order and without overlaps: after each time of its schedule, for its duration. At most one window a minute.
fn open_windows(budget: &Budget, (start, end): (Timestamp, Timestamp)) -> Vec<OpenWindow> {
    let (Some(schedule), Some(duration)) = (&budget.schedule, budget.duration) else {
        return vec![(start, end)];
    };
    let zone = budget.zone.as_deref().and_then(disruption::zone).unwrap_or(TimeZone::UTC);
    let (Ok(schedule), Ok(first)) = (Schedule::parse(schedule), start.checked_sub(duration)) else {
        return Vec::new();
    };
    let mut windows: Vec<OpenWindow> = Vec::new();
    let mut opened = schedule.next_after_in(&zone, first);
    while let Some(from) = opened.filter(|from| *from < end) {
        let to = from.checked_add(duration).unwrap_or(Timestamp::MAX);
        match windows.last_mut().filter(|(_, last)| from <= *last) {
            Some((_, last)) => *last = to.max(*last),
            None => windows.push((from, to)),
        }
        // The others are within this one.
        opened = if to < end { schedule.next_after_in(&zone, from) } else { None };
    }
    windows
}
