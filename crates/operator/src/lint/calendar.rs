//! `lint --calendar 7d`: how many nodes disruption budgets allow, by NodePool, reason and time, and which budget decides.

use fleetwright_controllers::settings::SolveEffort;
use fleetwright_core::{
    disruption,
    model::{Budget, DisruptionReason, NodePool},
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    catalogue::Catalogues,
    cli::PlanOptions,
    input::Item,
    plan,
    settings::Values,
    sheet::{Page, Sheet, figure, text},
};

/// The size of a NodePool for budgets in percent, where it has no nodes.
const ASSUMED_NODES: i64 = 100;
/// The longest calendar: 5 weeks of hours; at most 50,400 steps of a minute.
const MAX_HOURS: i64 = 5 * 7 * 24;

/// A time without a change.
struct Stretch {
    from: Timestamp,
    to: Timestamp,
    allowed: String,
    by: String,
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
        for reason in DisruptionReason::ALL {
            for stretch in stretches(pool, reason, total, (start, hours)) {
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

fn stretches(
    pool: &NodePool,
    reason: DisruptionReason,
    total: i64,
    (start, hours): (Timestamp, i64),
) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let step = pool.budgets.iter().map(step_minutes).fold(60, gcd);
    for step_at in 0..hours * 60 / step {
        let at = |minutes| start.saturating_add(SignedDuration::from_mins(minutes)).unwrap_or(Timestamp::MAX);
        let (from, to) = (at(step_at * step), at((step_at + 1) * step));
        let (allowed, by) = decides(pool, reason, total, from);
        match found.last_mut().filter(|last| last.allowed == allowed && last.by == by) {
            Some(last) => last.to = to,
            None => found.push(Stretch { from, to, allowed, by }),
        }
    }
    found
}

/// A number of minutes, a divisor of 60, between whose multiples a budget neither begins nor ends.
fn step_minutes(budget: &Budget) -> i64 {
    let Some(schedule) = budget.schedule.as_deref().map(str::trim) else { return 60 };
    // `@daily` and its like start on the hour; lists and steps of plain numbers at multiples of them.
    let field = schedule.split_whitespace().next().unwrap_or_default();
    let of_field =
        |part: &str| part.strip_prefix("*/").unwrap_or(part).parse().map_or(1, |minute| gcd(60, minute));
    let start = if field.starts_with('@') { 60 } else { field.split(',').map(of_field).fold(60, gcd) };
    let minutes = budget.duration.map_or(60, |duration| i64::try_from(duration.as_secs() / 60).unwrap_or(1));
    // Time zones differ by quarters of an hour.
    let zone = if budget.zone.is_some() { 15 } else { 60 };
    gcd(gcd(start, minutes), zone)
}

/// The greatest common divisor, of 60 and others: 0 divides nothing, and leaves the other.
fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How many nodes may be disrupted, and by which budget that is so.
fn decides(pool: &NodePool, reason: DisruptionReason, total: i64, now: Timestamp) -> (String, String) {
    let allowed = match disruption::allowed(pool, reason, total, now) {
        Ok(allowed) => allowed,
        Err(error) => return ("0".to_owned(), error.to_string()),
    };
    if allowed >= total && pool.budgets.is_empty() {
        return ("all".to_owned(), "no budget".to_owned());
    }
    let alone = |at: usize| {
        let only = NodePool { budgets: vec![pool.budgets[at].clone()], ..pool.clone() };
        disruption::allowed(&only, reason, total, now).ok()
    };
    let by = (0..pool.budgets.len()).find(|at| alone(*at) == Some(allowed) && allowed < i64::MAX);
    let by = by.map_or_else(|| "no budget".to_owned(), |at| format!("budgets[{at}]"));
    (if allowed >= total { "all".to_owned() } else { allowed.to_string() }, by)
}
