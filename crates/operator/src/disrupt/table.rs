//! The table of the disruption report.

use fleetwright_core::model::{Currency, labels};
use serde_json::Value;

use super::report::{DisruptReport, NodeRow, Replacement};
use crate::{
    catalogue::{Footer, SourceRow},
    figures::{self, names},
    sheet::{Page, Sheet, figure, text},
};

/// The page of a report; `wide` has all names.
pub(super) fn page(report: &DisruptReport, wide: bool) -> Page {
    let mut page = Page::default();
    let shown = |all: &[String]| if wide { all.join(", ") } else { names(all) };
    if report.commands.is_empty() {
        page.line("nothing to disrupt");
    }
    let mut sheet = Sheet::new(&[
        text("METHOD"),
        text("REASON"),
        text("NODES"),
        text("REPLACED BY"),
        text("PODS"),
        figure(format!("SAVES {}/H", report.currency)),
    ]);
    for command in &report.commands {
        let by: Vec<String> = command.replacements.iter().map(cheapest).collect();
        sheet.row([
            command.method.clone(),
            command.reason.clone(),
            shown(&command.nodes),
            by.join(", "),
            shown(&command.pods),
            command
                .savings_hourly
                .as_ref()
                .map_or_else(|| "-".to_owned(), |saved| figures::hourly_text(saved)),
        ]);
    }
    page.sheet(sheet).sheet(nodes(report));
    if let Some(line) = waiting(report) {
        page.line(line);
    }
    let mut sheet = Sheet::new(&[text("NODEPOOL"), text("REASON"), figure("ALLOWED"), figure("DISRUPTING")]);
    for budget in &report.budgets {
        sheet.row([
            budget.node_pool.clone(),
            budget.reason.clone(),
            budget.allowed.to_string(),
            budget.disrupting.to_string(),
        ]);
    }
    page.sheet(sheet);
    footer(&mut page, &report.catalogues);
    page
}

/// What becomes of candidates that nothing blocks and that are in no command.
fn waiting(report: &DisruptReport) -> Option<String> {
    let method = &report.commands.first()?.method;
    let is_taken = |name: &String| report.commands.iter().any(|command| command.nodes.contains(name));
    let is_waiting = |node: &&NodeRow| {
        node.candidate && node.blockers.is_empty() && !is_taken(&node.node) && !is_taken(&node.node_claim)
    };
    let count = report.nodes.iter().filter(is_waiting).count();
    (count > 0).then(|| {
        format!(
            "{} without a blocker left for the next pass: {method} ended this one",
            figures::count(count, "candidate")
        )
    })
}

fn nodes(report: &DisruptReport) -> Sheet {
    let price = figure(format!("{}/H", report.currency));
    let mut sheet =
        Sheet::new(&[text("NODE"), text("NODEPOOL"), price, text("CANDIDATE"), text("BLOCKED BY")]);
    for node in &report.nodes {
        let name = if node.node.is_empty() { &node.node_claim } else { &node.node };
        let blockers: Vec<&str> = node.blockers.iter().map(|blocker| &*blocker.message).collect();
        sheet.row([
            name.clone(),
            node.node_pool.clone(),
            node.price.as_ref().map(|price| figures::hourly_text(price)).unwrap_or_default(),
            if node.candidate { "yes".to_owned() } else { "no".to_owned() },
            blockers.join("; "),
        ]);
    }
    sheet
}

fn footer(page: &mut Page, sources: &[SourceRow]) {
    for line in Footer(sources).to_string().lines() {
        page.line(line);
    }
}

/// The NodePool of a NodeClaim to create, and the first of its instance types.
fn cheapest(new: &Replacement) -> String {
    let requirements = new.resource.pointer("/spec/requirements").and_then(Value::as_array);
    let types = requirements.into_iter().flatten().find(|wanted| wanted["key"] == labels::INSTANCE_TYPE);
    let first = types.and_then(|wanted| wanted["values"][0].as_str()).unwrap_or("any type");
    format!("{first} ({})", new.node_pool)
}

/// One node with all of its blockers.
pub(super) fn one(node: &NodeRow, sources: &[SourceRow], currency: Currency) -> Page {
    let mut page = Page::default();
    page.line(format!("Node       {}", node.node));
    page.line(format!("NodeClaim  {}", node.node_claim));
    page.line(format!("NodePool   {}", node.node_pool));
    let price = node.price.as_ref().map(|price| figures::hourly_text(price));
    page.line(format!("{:<11}{}", format!("{currency}/h"), price.as_deref().unwrap_or("unknown")));
    page.line(format!("Candidate  {}", if node.candidate { "yes" } else { "no" }));
    if let Some(drifted) = &node.drifted {
        page.line(format!("Drifted    {} since {}", drifted.reason, figures::time(&drifted.since)));
    }
    if let Some(expires) = &node.expires {
        page.line(format!("Expires    {}", figures::time(expires)));
    }
    let mut sheet = Sheet::new(&[text("BLOCKED BY"), text("OWNER"), text("UNTIL"), text("MESSAGE")]);
    for blocker in &node.blockers {
        sheet.row([
            blocker.kind.clone(),
            blocker.owner.clone().unwrap_or_default(),
            blocker.until.as_ref().map(|until| figures::time(until)).unwrap_or_default(),
            blocker.message.clone(),
        ]);
    }
    page.sheet(sheet);
    if node.blockers.is_empty() {
        page.line("Nothing blocks its disruption.");
    }
    footer(&mut page, sources);
    page
}
