//! `fleetwright plan`, a dry run: the NodeClaims that the controller would create for pending pods.

mod report;
mod table;
#[cfg(test)]
mod tests;

use std::{io::Write as _, sync::Arc};

use fleetwright_controllers::{
    provisioning::eligible,
    runtime::later,
    settings::{Packing, SolveEffort},
};
use fleetwright_core::{
    clock::Clock as _,
    model::{Pod, PodUid, Snapshot},
    scheduling::{Effort, Plan, PreparedSnapshot, Purpose, Request, Rules},
};
use jiff::Timestamp;

use self::report::{Context, Report};
pub(crate) use self::{
    report::{Timing, raised},
    table::{grid, names},
};
use crate::{
    catalogue::Catalogues,
    cli::{PlanOptions, TableOrJson},
    clock::SystemClock,
    input::{
        self, Item,
        load::{self, Loaded},
    },
    outcome::Outcome,
    settings::{self, Values},
};

/// Plans and prints.
///
/// # Errors
/// If the input is invalid. Unschedulable pods are a result, not an error.
pub(crate) fn run(
    options: &PlanOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let started = SystemClock.now();
    let items = input::read(&options.files)?;
    let report = plan(items, options, catalogues, values, started)?;
    show_notes(&report.notes, &report.incomplete)?;
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TableOrJson::Table => write!(out, "{}", table::Table(&report))?,
    }
    Ok(Outcome::of(&report.incomplete))
}

/// Prints the assumptions of a tool, and the gaps of its catalogues.
pub(crate) fn show_notes(notes: &[String], gaps: &[String]) -> anyhow::Result<()> {
    for note in notes {
        writeln!(anstream::stderr(), "note: {note}")?;
    }
    for gap in gaps {
        writeln!(anstream::stderr(), "incomplete: {gap}")?;
    }
    Ok(())
}

/// Loads the input with its instance types, and chooses the packer: one that reads no prices if some are unknown.
pub(crate) fn prepare(
    items: Vec<Item>,
    options: &PlanOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<(Loaded, Packing)> {
    let mut offer = catalogues.offer(&items, &options.catalogue, values)?;
    let packer = if offer.priced { values.packing() } else { Packing::Compatible };
    if !offer.priced {
        offer.pools = offer.for_packing_without_prices();
    }
    Ok((load::load(items, offer, values)?, packer))
}

fn plan(
    items: Vec<Item>,
    options: &PlanOptions,
    catalogues: &Catalogues,
    values: &Values,
    started: Timestamp,
) -> anyhow::Result<Report> {
    let live = options.files.is_empty();
    let (mut loaded, packing) = prepare(items, options, catalogues, values)?;
    let read = SystemClock.now();
    let snapshot = loaded.index.snapshot(read);
    let mut prepared = PreparedSnapshot::new(&snapshot, &rules(values));
    let pods = pods(&snapshot, live);
    let ready = SystemClock.now();
    let plan = solve(&mut prepared, &pods, packing, options.budget);
    let done = SystemClock.now();
    let timing = Timing::new(started, read, ready, done);
    Ok(Report::new(&plan, &Context { loaded: &loaded, seed: options.seed, timing }))
}

/// The settings of scheduling.
pub(crate) fn rules(values: &Values) -> Rules {
    settings::controllers(values).rules()
}

/// The pods to place: those that the controller would schedule; from files, all pending pods, so that each gets a result.
pub(crate) fn pods(snapshot: &Snapshot, live: bool) -> Vec<Arc<Pod>> {
    let mut pods = eligible::pods(snapshot, snapshot.taken_at);
    if !live {
        let known: std::collections::BTreeSet<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
        pods.extend(snapshot.pending.iter().filter(|pod| !known.contains(&pod.uid)).cloned());
    }
    pods
}

pub(crate) fn solve(
    prepared: &mut PreparedSnapshot,
    pods: &[Arc<Pod>],
    packing: Packing,
    budget: SolveEffort,
) -> Plan {
    let deadline = match budget {
        SolveEffort::Time(time) if !time.is_zero() => Some(later(SystemClock.now(), time)),
        _ => None,
    };
    let go_on = || deadline.is_some_and(|deadline| SystemClock.now() < deadline);
    let effort = match (budget, deadline) {
        (SolveEffort::Iterations(rounds), _) => Effort::Iterations(rounds),
        (SolveEffort::Time(_), Some(_)) => Effort::While(&go_on),
        (SolveEffort::Time(_), None) => Effort::First,
    };
    let request = Request { pods, without: &[], purpose: Purpose::Provisioning, effort };
    packing.packer().pack(prepared, &request)
}

/// Pods of the input that are not scheduled, with the reason.
fn set_aside(loaded: &Loaded) -> impl Iterator<Item = (String, &'static str, String)> {
    let broken = loaded.broken_pods.iter().map(|(id, why)| (id.to_string(), "Invalid", why.clone()));
    let held = loaded.held_pods.iter().map(|(id, (word, why))| (id.to_string(), *word, why.clone()));
    broken.chain(held)
}
