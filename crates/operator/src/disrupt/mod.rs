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
    disruption::{self, Method, Survey},
};
use jiff::Timestamp;

pub(crate) use self::report::savings;
use self::report::{Context, Report, Timing};
use crate::{
    catalogue::{CatalogueOptions, Catalogues, Footer},
    cli::{DisruptOptions, ExplainOptions, TableOrJson},
    clock::SystemClock,
    input::{
        Item, evaluate,
        load::{self, Loaded},
        read,
    },
    outcome::Outcome,
    plan::{self, show_notes},
    settings::{self, Values},
};

/// Decides and prints the report.
///
/// # Errors
/// If the input or the name of a method is invalid.
pub(crate) fn run(
    options: &DisruptOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let started = SystemClock.now();
    let at = options.at.unwrap_or(started);
    let report = survey(read(&options.files)?, options, catalogues, values, (at, started))?;
    show_notes(&report.notes, &report.incomplete)?;
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TableOrJson::Table => write!(out, "{}", table::Table(&report))?,
    }
    Ok(Outcome::of(&report.incomplete))
}

/// Explains one node.
///
/// # Errors
/// If the input is invalid, or the node does not exist.
pub(crate) fn explain(
    options: &ExplainOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let at = options.at.unwrap_or_else(|| SystemClock.now());
    let items = read(&options.files)?;
    let offer = catalogues.offer(&items, &options.catalogue, values)?;
    let (sources, notes) = (offer.sources.clone(), offer.notes.clone());
    let mut loaded = load::load(items, offer, values)?;
    evaluate::conditions(&mut loaded.index, at);
    let settings = settings::controllers(values);
    expected::note(&mut loaded.index, &settings, at);
    let snapshot = loaded.index.snapshot(at);
    let rules = controller::rules(&settings);
    let status = disruption::status(&snapshot, &rules, at, &options.name)
        .with_context(|| format!("there is no Node or NodeClaim called {:?}", options.name))?;
    show_notes(&notes, &loaded.gaps)?;
    let node = report::node(&status);
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&node)?)?,
        TableOrJson::Table => write!(out, "{}{}", table::One(&node), Footer(&sources))?,
    }
    Ok(Outcome::of(&loaded.gaps))
}

/// The result of disruption for an input.
pub(crate) struct Surveyed {
    pub(crate) loaded: Loaded,
    pub(crate) survey: Survey,
    timing: Timing,
}

/// Decides as the controller would at `at`, with `methods` only, if any are named. The load of the input started at `started`.
///
/// # Errors
/// If the input or the name of a method is invalid.
pub(crate) fn decide(
    items: Vec<Item>,
    (method, catalogue): (&[String], &CatalogueOptions),
    catalogues: &Catalogues,
    values: &Values,
    (at, started): (Timestamp, Timestamp),
) -> anyhow::Result<Surveyed> {
    let settings = settings::controllers(values);
    let methods = methods(method, &controller::methods(&settings))?;
    let offer = catalogues.offer(&items, catalogue, values)?;
    let mut loaded = load::load(items, offer, values)?;
    let read = SystemClock.now();
    evaluate::conditions(&mut loaded.index, at);
    expected::note(&mut loaded.index, &settings, at);
    let snapshot = loaded.index.snapshot(at);
    let ready = SystemClock.now();
    let survey = disruption::survey(&snapshot, &controller::rules(&settings), at, &methods);
    let done = SystemClock.now();
    let spent = plan::Timing::new(started, read, ready, done);
    let timing = Timing { spent, simulations: survey.simulations };
    Ok(Surveyed { loaded, survey, timing })
}

fn survey(
    items: Vec<Item>,
    options: &DisruptOptions,
    catalogues: &Catalogues,
    values: &Values,
    times: (Timestamp, Timestamp),
) -> anyhow::Result<Report> {
    let asked = (options.method.as_slice(), &options.catalogue);
    let Surveyed { loaded, survey, timing } = decide(items, asked, catalogues, values, times)?;
    Ok(Report::new(&survey, &Context { loaded: &loaded, timing }))
}

/// The requested methods, in order; by default those of the settings.
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
