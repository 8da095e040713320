//! `lint --calendar 7d`: how many nodes disruption budgets allow, by NodePool, reason and hour, and which budget decides.

use fleetwright_controllers::settings::SolveEffort;
use fleetwright_core::{
    disruption,
    model::{DisruptionReason, NodePool},
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
/// The longest calendar: 5 weeks of hours.
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
    for hour in 0..hours {
        let at = |hour: i64| start.saturating_add(SignedDuration::from_hours(hour)).unwrap_or(Timestamp::MAX);
        let (from, to) = (at(hour), at(hour + 1));
        let (allowed, by) = decides(pool, reason, total, from);
        match found.last_mut().filter(|last| last.allowed == allowed && last.by == by) {
            Some(last) => last.to = to,
            None => found.push(Stretch { from, to, allowed, by }),
        }
    }
    found
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
