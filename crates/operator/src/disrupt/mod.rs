//! `fleetwright disrupt` and `fleetwright explain node`, a dry run: what disruption would do now, and what blocks each node.

mod expected;
mod report;
mod table;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use anyhow::{Context as _, bail};
use fleetwright_controllers::disruption as controller;
use fleetwright_core::{
    clock::Clock as _,
    disruption::{self, Method},
};
use jiff::Timestamp;

use self::report::{Context, Report, Timing};
use crate::{
    cli::{DisruptOptions, ExplainOptions, TableOrJson},
    clock::SystemClock,
    input::{Item, evaluate, load, read},
    plan,
    settings::{self, Values},
};

/// Decides and prints.
///
/// # Errors
/// Where the input or a method's name cannot be used.
pub(crate) fn run(options: &DisruptOptions, values: &Values) -> anyhow::Result<()> {
    let started = SystemClock.now();
    let at = options.at.unwrap_or(started);
    let report = survey(read(&options.files)?, &options.method, values, at, started)?;
    show_notes(&report.notes)?;
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TableOrJson::Table => write!(out, "{}", table::Table(&report))?,
    }
    Ok(())
}

/// Explains one node.
///
/// # Errors
/// Where the input cannot be used, or there is no such node.
pub(crate) fn explain(options: &ExplainOptions, values: &Values) -> anyhow::Result<()> {
    let at = options.at.unwrap_or_else(|| SystemClock.now());
    let (offer, notes) = plan::offer(values)?;
    let mut loaded = load::load(read(&options.files)?, &offer)?;
    evaluate::conditions(&mut loaded.index, at);
    let settings = settings::controllers(values);
    expected::note(&mut loaded.index, &settings, at);
    let snapshot = loaded.index.snapshot(at);
    let rules = controller::rules(&settings);
    let status = disruption::status(&snapshot, &rules, at, &options.name)
        .with_context(|| format!("there is no Node or NodeClaim called {:?}", options.name))?;
    show_notes(&notes)?;
    let node = report::node(&status);
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&node)?)?,
        TableOrJson::Table => write!(out, "{}", table::One(&node))?,
    }
    Ok(())
}

fn show_notes(notes: &[String]) -> anyhow::Result<()> {
    for note in notes {
        writeln!(anstream::stderr(), "note: {note}")?;
    }
    Ok(())
}

fn survey(
    items: Vec<Item>,
    names: &[String],
    values: &Values,
    at: Timestamp,
    started: Timestamp,
) -> anyhow::Result<Report> {
    let settings = settings::controllers(values);
    let methods = methods(names, &controller::methods(&settings))?;
    let (offer, mut notes) = plan::offer(values)?;
    let mut loaded = load::load(items, &offer)?;
    notes.append(&mut loaded.notes);
    loaded.notes = notes;
    let read = SystemClock.now();
    evaluate::conditions(&mut loaded.index, at);
    expected::note(&mut loaded.index, &settings, at);
    let snapshot = loaded.index.snapshot(at);
    let ready = SystemClock.now();
    let survey = disruption::survey(&snapshot, &controller::rules(&settings), at, &methods);
    let done = SystemClock.now();
    let spent = plan::Timing::new(started, read, ready, done);
    let timing = Timing { spent, simulations: survey.simulations };
    Ok(Report::new(&survey, &Context { loaded: &loaded, timing }))
}

/// The methods that were asked for, in their order; by default those of the settings.
fn methods(names: &[String], usual: &[&'static dyn Method]) -> anyhow::Result<Vec<&'static dyn Method>> {
    if names.is_empty() {
        return Ok(usual.to_vec());
    }
    let known: Vec<&str> = disruption::METHODS.iter().map(|method| method.spec().name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("--method {unknown}: there are {}", known.join(", "));
    }
    let wanted = |method: &&'static dyn Method| names.iter().any(|name| name == method.spec().name);
    Ok(disruption::METHODS.iter().copied().filter(wanted).collect())
}
