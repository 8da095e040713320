//! `fleetwright report`: where the money of a fleet goes, what could be saved, and what blocks the saving. A page in one file, or JSON.
//!
//! - [`costs`]: prices of nodes, divided among pods by their requests.
//! - [`cheapest`]: the plan for the same pods on new nodes alone.
//! - [`blocks`]: disruption blockers by owner, with what they keep.
//! - [`document`]: all of it, for the page and JSON.

mod blocks;
mod cheapest;
mod costs;
pub(crate) mod document;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use anyhow::Context as _;
use fleetwright_core::clock::Clock as _;
use jiff::Timestamp;

use self::document::{ProposedRow, SavingReport};
use crate::{
    catalogue::Catalogues,
    cli::{ReportOptions, ReportOutput},
    clock::SystemClock,
    disrupt,
    fleet::read::{self, FleetRequest, ReadFleet},
    input::{self, Item},
    outcome::Outcome,
    plan::{self, show_notes},
    settings::Values,
    ui::{self, document::FleetPage, html},
};

/// Reads, and writes the report.
///
/// # Errors
/// If the input is invalid, or the file cannot be written.
pub(crate) fn run(
    options: &ReportOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let at = options.at.unwrap_or_else(|| SystemClock.now());
    let (items, lacking) = input::read_noted(&options.input)?;
    let mut page = page(items, options, (catalogues, values), at)?;
    page.fleet.notes.splice(0..0, lacking);
    show_notes(&page.fleet.notes, &page.fleet.incomplete)?;
    match &options.output {
        ReportOutput::Json => {
            let text = serde_json::to_string_pretty(&page)? + "\n";
            anstream::stdout().lock().write_all(text.as_bytes())?;
        }
        ReportOutput::Page(file) => {
            std::fs::write(file, html::report(&page)?).with_context(|| file.display().to_string())?;
        }
    }
    Ok(Outcome::of(&page.fleet.incomplete))
}

/// The report of an input.
fn page(
    items: Vec<Item>,
    options: &ReportOptions,
    tools: (&Catalogues, &Values),
    at: Timestamp,
) -> anyhow::Result<FleetPage> {
    let (catalogues, values) = tools;
    let request = FleetRequest {
        catalogue: &options.catalogue,
        select: &options.select,
        live: options.input.files.is_empty(),
        at,
    };
    let asked = ([].as_slice(), &options.catalogue);
    let surveyed = disrupt::decide(items.clone(), asked, catalogues, values, (at, SystemClock.now()))?;
    let mut read = read::of_items(items, &request, tools)?;
    // These include budgets and the refusals of consolidation.
    for node in &mut read.report.nodes {
        let of_node = |status: &&fleetwright_core::disruption::DisruptionStatus| {
            status.node.node_name().is_some_and(|name| **name == *node.name)
        };
        if let Some(status) = surveyed.survey.nodes.iter().find(of_node).filter(|_| node.node_claim.is_some())
        {
            node.blockers = disrupt::blockers(status);
        }
    }
    let saving = saving(&mut read, &surveyed, options, values);
    let funnels = ui::funnels(&read.report, &read.snapshot, &plan::rules(values));
    Ok(FleetPage { funnels, saving: Some(saving), ..FleetPage::new(name(options), read.report) })
}

fn saving(
    read: &mut ReadFleet,
    surveyed: &disrupt::Surveyed,
    options: &ReportOptions,
    values: &Values,
) -> SavingReport {
    let division = costs::Division::of(&read.snapshot);
    let priced = read.loaded.priced;
    let proposed = surveyed.survey.commands.iter().map(|command| ProposedRow {
        reason: command.method.reason.to_string(),
        nodes: command.candidates.iter().map(|candidate| candidate.name().to_string()).collect(),
        replacements: command.replacements.len(),
        savings_hourly: disrupt::savings([command]).filter(|_| priced),
    });
    SavingReport {
        waste: division.waste(),
        by_node_pool: division.by_node_pool(),
        by_namespace: division.by_namespace(),
        by_label: options.label.iter().map(|label| division.by_label(label)).collect(),
        proposed: proposed.collect(),
        blocks: blocks::of(&surveyed.survey.nodes, &division),
        cheapest: priced.then(|| cheapest::of(read, options.budget, values)),
    }
}

/// What was read, in a few words.
fn name(options: &ReportOptions) -> String {
    let input = &options.input;
    match (input.files.as_slice(), &input.context) {
        ([], Some(context)) => format!("context {context}"),
        ([], None) => "cluster".to_owned(),
        ([one], _) => one.file_name().unwrap_or(one.as_os_str()).to_string_lossy().into_owned(),
        (many, _) => format!("{} files", many.len()),
    }
}
