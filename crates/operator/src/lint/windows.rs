//! L109: reasons that no disruption budget limits at some time of a week, and reasons for which the budgets never allow a disruption.
//!
//! Two fixed weeks stand for all, one in winter and one in summer, so that findings do not depend on the day of the run.

use fleetwright_core::model::{DisruptionReason, Snapshot};
use jiff::{Timestamp, tz::TimeZone};

use super::{
    Item, LintReport,
    calendar::{ASSUMED_NODES, BudgetWindows, NO_BUDGET, Stretch},
    cluster::pool_item,
};

/// The starts of the weeks, Mondays: they differ in month, day of the month and daylight saving time.
const WEEKS: [&str; 2] = ["2026-01-05T00:00:00Z", "2026-07-13T00:00:00Z"];
const HOURS: i64 = 7 * 24;

/// Adds the findings.
pub(super) fn check(items: &[Item], snapshot: &Snapshot, report: &mut LintReport) {
    let starts: Vec<Timestamp> = WEEKS.iter().filter_map(|start| start.parse().ok()).collect();
    for pool in &snapshot.pools {
        let Some(item) = pool_item(items, &pool.name) else { continue };
        let of_week = |start| BudgetWindows::new(pool, ASSUMED_NODES, (start, HOURS));
        let weeks: Vec<BudgetWindows<'_>> = starts.iter().map(|start| of_week(*start)).collect();
        // Reasons with the same finding share it.
        let mut found: Vec<(WindowFinding, Vec<&str>)> = Vec::new();
        for reason in DisruptionReason::ALL {
            let weeks: Vec<_> = weeks.iter().map(|week| week.stretches(reason)).collect();
            let Some(finding) = of_reason(&weeks) else { continue };
            match found.iter_mut().find(|(known, _)| *known == finding) {
                Some((_, reasons)) => reasons.push(reason.as_str()),
                None => found.push((finding, vec![reason.as_str()])),
            }
        }
        for (finding, reasons) in found {
            let noun = if reasons.len() == 1 { "the reason" } else { "the reasons" };
            let reasons = format!("{noun} {}", reasons.join(", "));
            report.add("L109", item, &finding.path(), finding.message(&reasons), finding.fix());
        }
    }
}

/// What is wrong with the budgets for a reason.
#[derive(PartialEq)]
enum WindowFinding {
    /// They allow no disruption at any time; the budget that decides first.
    Never { by: String },
    /// None limits it for some hours of the week; when that begins and ends first.
    Unlimited { hours: i64, from: Timestamp, to: Timestamp },
    /// None limits it ever.
    NoBudget,
}

/// The finding on the weeks of a reason. A budget that cannot be evaluated has another one.
fn of_reason(weeks: &[Vec<Stretch>]) -> Option<WindowFinding> {
    let is_zero = |stretch: &Stretch| stretch.allowed == "0" && stretch.by.starts_with("budgets[");
    if weeks.iter().flatten().all(is_zero) {
        let by = weeks.iter().flatten().next()?.by.clone();
        return Some(WindowFinding::Never { by });
    }
    let is_free = |stretch: &&Stretch| stretch.by == NO_BUDGET;
    if weeks.iter().flatten().all(|stretch| is_free(&stretch)) {
        return Some(WindowFinding::NoBudget);
    }
    weeks.iter().find_map(|week| {
        let first = week.iter().find(is_free)?;
        let minutes = |stretch: &Stretch| stretch.to.duration_since(stretch.from).as_mins();
        let open: i64 = week.iter().filter(is_free).map(minutes).sum();
        // Rounded up: minutes count as an hour.
        let hours = (open + 59) / 60;
        Some(WindowFinding::Unlimited { hours, from: first.from, to: first.to })
    })
}

impl WindowFinding {
    fn path(&self) -> String {
        match self {
            Self::Never { by } => format!("spec.disruption.{by}.nodes"),
            Self::Unlimited { .. } | Self::NoBudget => "spec.disruption.budgets".to_owned(),
        }
    }

    fn message(&self, reasons: &str) -> String {
        match self {
            Self::Never { .. } => {
                format!("no node is ever disrupted for {reasons}: the budgets allow none, at all times")
            }
            Self::NoBudget => {
                format!("no budget is about {reasons}: without one, all nodes may be disrupted at once")
            }
            Self::Unlimited { hours, from, to } => format!(
                "no budget is active for {reasons} in {hours} of {HOURS} hours of a week, such as from {} until {}: all nodes may be disrupted at once then",
                hour_of_week(*from),
                hour_of_week(*to)
            ),
        }
    }

    fn fix(&self) -> &'static str {
        match self {
            Self::Never { .. } => {
                "give the budget a schedule and a duration that leave time, or allow at least one node"
            }
            Self::NoBudget => "add a budget without reasons, which is about all of them",
            Self::Unlimited { .. } => {
                "add a budget without a schedule, such as nodes: 10%, which holds at all times"
            }
        }
    }
}

/// `Monday 09:00 UTC`.
fn hour_of_week(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%A %H:%M UTC").to_string()
}
