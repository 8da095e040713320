//! `fleetwright lint`: mistakes in NodePools, NodeClasses, workloads and budgets that an API server or a cluster shows later, or never.
//!
//! - [`rules`]: the rules; [`objects`]: those about one object; [`cluster`]: those about several; [`budgets`]: PodDisruptionBudgets;
//!   [`startup_taints`]: taints of nodes that start; [`arrivals`]: pods over time;
//!   [`labels`]: labels of nodes; [`images`]: images of NodeClasses; [`placement`]: those that ask the solver; [`left_out`]: what `plan` leaves out.
//! - [`builtin`]: Kubernetes' own kinds; [`schema`]: the custom resource definitions, with their CEL rules, offline.
//! - [`place`]: line and column of a field.
//! - [`calendar`]: what disruption budgets allow, by reason and hour; [`windows`]: where that is all or nothing.
//! - [`output`]: text, JSON, SARIF, GitHub annotations.

mod arrivals;
mod budgets;
mod builtin;
mod calendar;
mod cluster;
mod images;
mod labels;
mod left_out;
mod objects;
mod output;
mod place;
mod placement;
mod rules;
mod schema;
mod startup_taints;
#[cfg(test)]
mod tests;
mod windows;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
};

use fleetwright_controllers::settings::SolveEffort;
use fleetwright_core::clock::Clock as _;

use self::{
    place::Places,
    rules::{Finding, Severity},
};
use crate::{
    catalogue::{CatalogueOptions, Catalogues},
    cli::{FailOn, LintOptions, PlanOptions},
    clock::SystemClock,
    input::{self, Item, invalid::Invalid, workloads},
    outcome::Outcome,
    plan,
    settings::Values,
    sheet::plain,
};

/// Lints and prints.
///
/// # Errors
/// If the input cannot be read. A finding is a result, not an error.
pub(crate) fn run(
    options: &LintOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let items = input::read_from(&options.input)?;
    if let Some(span) = options.calendar {
        let start = options.at.unwrap_or_else(|| SystemClock.now());
        let page = calendar::page(items, (start, span), catalogues, values)?;
        let text = page.render(crate::sheet::Format::Table, crate::sheet::terminal_width());
        anstream::stdout().lock().write_all(text.as_bytes())?;
        return Ok(Outcome::Complete);
    }
    let Linted { findings, unchecked } = lint(&items, &options.catalogue, catalogues, values)?;
    for note in unchecked {
        writeln!(anstream::stderr(), "note: {}", plain(&note))?;
    }
    anstream::stdout().lock().write_all(output::render(options.output, &findings)?.as_bytes())?;
    Ok(outcome(&findings, options.fail_on))
}

fn outcome(findings: &[Finding], fail_on: FailOn) -> Outcome {
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Error) if fail_on != FailOn::Never => Outcome::Blocked,
        Some(Severity::Warning) if fail_on == FailOn::Warning => Outcome::Warnings,
        _ => Outcome::Complete,
    }
}

/// The findings of an input.
struct Linted {
    /// By position.
    findings: Vec<Finding>,
    /// Notes on rules that were not checked.
    unchecked: Vec<String>,
}

fn lint(
    items: &[Item],
    options: &CatalogueOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Linted> {
    let mut report = LintReport {
        places: Places::default(),
        findings: Vec::new(),
        unchecked: Vec::new(),
        defaults: cluster::container_defaults(items),
    };
    let schemas = schema::OfClouds(catalogues.schemas()?);
    if items.is_empty() {
        report.unchecked.push("the input has no objects".to_owned());
    }
    for item in items {
        if item.value["kind"].as_str().is_none_or(str::is_empty) {
            report.unchecked.push(format!("{}: kind is missing: this is no Kubernetes object", item.source));
        } else if item.value["apiVersion"].as_str().is_none_or(str::is_empty) {
            report
                .unchecked
                .push(format!("{}: apiVersion is missing: this is no Kubernetes object", item.source));
        }
        schemas.check(item, &mut report);
        builtin::check(item, &mut report);
        objects::check(item, catalogues, &mut report);
    }
    cluster::check(items, &mut report);
    cluster::shared_name(items, catalogues, values, &mut report)?;
    arrivals::check(items, &mut report);
    startup_taints::check(items, &mut report);
    if let Some(expanded) = expanded(items) {
        let options = PlanOptions::of_tool(SolveEffort::Iterations(0), options.clone());
        let (mut loaded, _) = plan::prepare(expanded.clone(), &options, catalogues, values)?;
        budgets::check(items, &expanded, &mut report);
        left_out::check(items, &expanded, &loaded, &mut report);
        placement::check(items, &mut loaded, (catalogues, values), &mut report);
        labels::check(items, loaded.index.schema(), catalogues.labels(), &mut report);
    }
    let LintReport { mut findings, unchecked, .. } = report;
    findings.sort();
    findings.dedup();
    Ok(Linted { findings, unchecked })
}

/// The input with the pods of workloads, without nodes: they say nothing about what new nodes can run. `None` where there are too many.
fn expanded(items: &[Item]) -> Option<Vec<Item>> {
    let mut expanded = items.to_vec();
    expanded.retain(|item| !matches!(item.value["kind"].as_str(), Some("Node" | "NodeClaim")));
    workloads::expand(&mut expanded, &[]).ok().map(|_| expanded)
}

/// `kind namespace/name`, with the namespace that the object names.
fn object(item: &Item) -> String {
    let (_, kind, namespace, name) = input::select::identity(&item.value);
    let is_namespaced = item.value.pointer("/metadata/namespace").is_some();
    if is_namespaced { format!("{kind} {namespace}/{name}") } else { format!("{kind} {name}") }
}

/// Collects findings.
struct LintReport {
    places: Places,
    findings: Vec<Finding>,
    unchecked: Vec<String>,
    /// The resources that LimitRanges give to containers without them, by namespace.
    defaults: BTreeMap<String, BTreeSet<String>>,
}

impl LintReport {
    /// Adds a finding about a field of an object. An unknown code is a bug, which the tests find.
    fn add(
        &mut self,
        code: &'static str,
        item: &Item,
        path: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (file, line, column) = self.places.of(item, path);
        let severity = rules::rule(code).map_or(Severity::Error, |rule| rule.severity);
        self.findings.push(Finding {
            file,
            line,
            column,
            code,
            severity,
            object: object(item),
            path: path.to_owned(),
            message: message.into(),
            fix: fix.into(),
            url: rules::page(code),
        });
    }

    /// Adds what the API server refuses.
    fn invalid(&mut self, item: &Item, invalid: Invalid) {
        let Invalid { path, message, fix } = invalid;
        self.add("L002", item, &path, format!("{path}: {message}"), fix);
    }
}
