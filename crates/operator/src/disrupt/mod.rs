//! `fleetwright disrupt` and `fleetwright explain node`, a dry run: what disruption would do now, and what blocks each node.

mod expected;
mod forecast;
mod report;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::{Context as _, bail};
use fleetwright_controllers::disruption as controller;
use fleetwright_core::{
    clock::Clock as _,
    disruption::{self, DisruptionStatus, Method, Survey},
    model::{Currency, Snapshot, StateNode},
    suggest::did_you_mean,
};
use jiff::Timestamp;

use self::report::{Context, DisruptReport, NodeRow, Timing};
pub(crate) use self::{
    forecast::{Forecast, STEP},
    report::{BlockerRow, blockers, savings},
};
use crate::{
    catalogue::{CatalogueOptions, Catalogues, SourceRow},
    cli::{DisruptOptions, ExplainOptions},
    clock::SystemClock,
    figures,
    input::{
        Item, evaluate, lacking,
        load::{self, Loaded},
        read_noted, static_pools,
    },
    outcome::Outcome,
    plan::{self, show_notes},
    settings::{self, Values},
    sheet::{self, Answer},
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
    let (items, lacking) = read_noted(&options.input)?;
    let mut report = survey(items, options, catalogues, values, (at, started))?;
    report.notes.splice(0..0, lacking);
    show_notes(&report.notes, &report.incomplete)?;
    sheet::print(options.output, &report, |wide| table::page(&report, wide))?;
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
    let (items, lacking) = read_noted(&options.input)?;
    let mut explained = explained(items, &options.name, &options.catalogue, (catalogues, values), at)?;
    explained.notes.splice(0..0, lacking);
    show_notes(&explained.notes, &explained.gaps)?;
    let node = &explained.node;
    sheet::print(options.output, node, |_| table::one(node, &explained.sources, explained.currency))?;
    Ok(Outcome::of(&explained.gaps))
}

/// The explanation of a node of an input.
///
/// # Errors
/// If the input is invalid, or the node does not exist.
pub(crate) fn answer(
    items: Vec<Item>,
    name: &str,
    catalogue: &CatalogueOptions,
    tools: (&Catalogues, &Values),
    at: Timestamp,
) -> anyhow::Result<Answer> {
    let Explained { node, sources, currency, notes, gaps } = explained(items, name, catalogue, tools, at)?;
    let page = table::one(&node, &sources, currency);
    Ok(Answer { document: serde_json::to_value(&node)?, page, notes, gaps })
}

/// The explanation of a node.
struct Explained {
    node: NodeRow,
    sources: Vec<SourceRow>,
    currency: Currency,
    notes: Vec<String>,
    gaps: Vec<String>,
}

fn explained(
    items: Vec<Item>,
    name: &str,
    catalogue: &CatalogueOptions,
    (catalogues, values): (&Catalogues, &Values),
    at: Timestamp,
) -> anyhow::Result<Explained> {
    let offer = catalogues.offer(&items, catalogue, values)?;
    let (sources, notes) = (offer.sources.clone(), offer.notes.clone());
    let mut loaded = load::load(items, offer, values)?;
    evaluate::conditions(&mut loaded.index, at);
    let settings = settings::controllers(values);
    expected::note(&mut loaded.index, &settings, at);
    let snapshot = loaded.index.snapshot(at);
    let rules = controller::rules(&settings);
    let status = disruption::status(&snapshot, &rules, at, name).with_context(|| {
        let of_node = |node: &Arc<StateNode>| {
            [node.node_name().map(|name| name.to_string()), node.claim_name().map(|name| name.to_string())]
        };
        let known: Vec<String> = snapshot.nodes.iter().flat_map(of_node).flatten().collect();
        let meant = did_you_mean(name, known.iter().map(String::as_str));
        format!("there is no Node or NodeClaim {name:?} in the input{meant}")
    })?;
    let (node, currency) = (report::node(&status), snapshot.currency);
    Ok(Explained { node, sources, currency, notes, gaps: loaded.gaps })
}

/// The result of disruption for an input.
pub(crate) struct Surveyed {
    pub(crate) loaded: Loaded,
    pub(crate) survey: Survey,
    /// What prices are in.
    pub(crate) currency: Currency,
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
    Ok(Surveyed { loaded, survey, currency: snapshot.currency, timing })
}

impl Surveyed {
    /// The passes after this one, which was at `at`, up to `until`.
    pub(crate) fn later_passes(&mut self, values: &Values, (at, until): (Timestamp, Timestamp)) -> Forecast {
        let settings = settings::controllers(values);
        let (rules, methods) = (controller::rules(&settings), controller::methods(&settings));
        let snapshot = self.loaded.index.snapshot(at);
        forecast::later_passes(self.survey.clone(), &snapshot, (&rules, &methods), until)
    }
}

fn survey(
    items: Vec<Item>,
    options: &DisruptOptions,
    catalogues: &Catalogues,
    values: &Values,
    times: (Timestamp, Timestamp),
) -> anyhow::Result<DisruptReport> {
    options.select.check(&items)?;
    let asked = (options.method.as_slice(), &options.catalogue);
    let mut notes = lacking::lacking(&items);
    let has = |kind: &str| items.iter().any(|item| item.value["kind"] == kind);
    if !notes.is_empty() && !has("PodDisruptionBudget") {
        notes.push(
            "no PodDisruptionBudgets in the input: pods look freer to move than they may be".to_owned(),
        );
    }
    let Surveyed { mut loaded, mut survey, currency, timing } =
        decide(items, asked, catalogues, values, times)?;
    loaded.notes.splice(0..0, notes);
    let snapshot = loaded.index.snapshot(times.0);
    loaded.notes.extend(expired(&survey, &snapshot, times.0));
    if values.gate("StaticCapacity") {
        loaded.notes.extend(static_pools::notes(&snapshot));
    }
    survey.nodes.retain(|status| {
        let node = &status.node;
        let in_namespace = |name: &String| node.pods.iter().any(|pod| *pod.id.namespace == **name);
        options.select.namespace.as_ref().is_none_or(in_namespace)
            && options.select.selector.as_ref().is_none_or(|selector| selector.selects(|key| node.label(key)))
    });
    let methods = match options.method.as_slice() {
        [] => "the methods".to_owned(),
        named => named.join(", "),
    };
    Ok(DisruptReport::new(&survey, &Context { loaded: &loaded, timing, currency, methods }))
}

/// A note on the expired nodes, which are deleted beside all methods and budgets. Those of NodePools that replace expired nodes within
/// budgets are candidates of drift.
fn expired(survey: &Survey, snapshot: &Snapshot, at: Timestamp) -> Option<String> {
    let is_expired = |status: &&DisruptionStatus| {
        let claim = status.node.claim.as_ref().filter(|claim| claim.deleting.is_none());
        let pool = status.node.pool().and_then(|pool| snapshot.pool(&pool));
        pool.is_some_and(|pool| pool.expiry_grace.is_none())
            && claim.is_some_and(|claim| {
                let end = claim.expire_after.and_then(|after| claim.created.checked_add(after).ok());
                end.is_some_and(|end| end <= at)
            })
    };
    let names: Vec<String> =
        survey.nodes.iter().filter(is_expired).map(|status| status.node.name().to_owned()).collect();
    let (count, listed) = (figures::count(names.len(), "expired node"), figures::names(&names));
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty())
        .then(|| format!("{count} {verb} deleted by expireAfter, whatever budgets and pods allow: {listed}"))
}

/// The requested methods, in order; by default those of the settings.
fn methods(names: &[String], usual: &[&'static dyn Method]) -> anyhow::Result<Vec<&'static dyn Method>> {
    if names.is_empty() {
        return Ok(usual.to_vec());
    }
    let known: Vec<&str> = disruption::METHODS.iter().map(|method| method.spec().name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let meant = did_you_mean(unknown, known.iter().copied());
        bail!("unknown method {unknown:?}{meant}; valid: {}", known.join(", "));
    }
    let wanted = |method: &&'static dyn Method| names.iter().any(|name| name == method.spec().name);
    Ok(disruption::METHODS.iter().copied().filter(wanted).collect())
}
