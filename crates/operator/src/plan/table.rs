//! The page of the plan.

use std::collections::BTreeMap;

use comfy_table::{Table as Grid, presets};
use fleetwright_core::model::{Currency, Quantity};
use serde_json::Value;

use super::{
    fleet::Fleet,
    report::{Claim, PlanReport, Unschedulable, WhatIf},
};
use crate::{
    catalogue::Footer,
    explain::constraints::{self, Row},
    figures::{self, names},
    sheet::{Page, Sheet, figure, text},
};

/// A gap above this says more about the bound than about the plan.
const TELLING_GAP: f64 = 0.25;
/// A gap below this is shown as none.
const EQUAL_GAP: f64 = 0.000_5;

/// The page of a report; `wide` lists equal rows one by one.
pub(super) fn page(report: &PlanReport, wide: bool) -> Page {
    let mut page = Page::default();
    if let Some(change) = &report.what_if {
        what_if(&mut page, change, report.currency);
    }
    page.sheet(claims(report, wide));
    let mut sheet = Sheet::new(&[text("NODE"), text("PODS")]);
    for existing in &report.existing {
        sheet.row([existing.node.clone(), shown(&existing.pods, wide)]);
    }
    page.sheet(sheet);
    page.sheet(unschedulable(report, wide));
    page.sheet(also_ruled_out(report));
    if report.constraints_in_part > 0 {
        page.line(constraints::in_part(report.constraints_in_part));
    }
    for line in patches(report) {
        page.line(line);
    }
    let pods: usize = report.node_claims.iter().map(|claim| claim.pods.len()).sum();
    let placed: usize = report.existing.iter().map(|existing| existing.pods.len()).sum();
    page.line(format!(
        "{} for {}, {} on existing nodes, {} unschedulable",
        figures::count(report.node_claims.len(), "new node"),
        figures::count(pods, "pod"),
        figures::count(placed, "pod"),
        report.unschedulable.len()
    ));
    page.line(cost(report));
    for line in Footer(&report.catalogues).to_string().lines() {
        page.line(line);
    }
    page
}

fn cost(report: &PlanReport) -> String {
    let took = report.timing.solve_ms;
    let Some(cost) = &report.cost else {
        return format!("prices are unknown: packed in Karpenter's order; solved in {took:.1} ms");
    };
    let hourly: f64 = cost.hourly.parse().unwrap_or(0.0);
    let per_hour = |price| figures::per_hour(report.currency, price);
    let bound = match cost.gap {
        gap if gap > TELLING_GAP || hourly <= 0.0 => String::new(),
        gap if gap < EQUAL_GAP => "; at the lower bound".to_owned(),
        gap => format!("; at most {:.1} % above the lower bound", gap * 100.0),
    };
    let effective = match cost.effective.parse().unwrap_or(hourly) {
        _ if cost.effective == cost.hourly => String::new(),
        effective => format!(", effective price {} per hour", per_hour(effective)),
    };
    format!(
        "{} per hour, {} per month{effective}{bound}; solved in {took:.1} ms",
        per_hour(hourly),
        figures::monthly(report.currency, hourly)
    )
}

/// NodeClaims; equal ones share a row.
fn claims(report: &PlanReport, wide: bool) -> Sheet {
    let mut sheet = Sheet::new(&[
        figure("NODES"),
        text("NODEPOOL"),
        text("TYPE"),
        text("ZONE"),
        text("CAPACITY"),
        figure(format!("{}/H", report.currency)),
        figure("CPU"),
        figure("MEMORY"),
        figure("TYPES"),
        text("PODS"),
    ]);
    let mut rows: Vec<([String; 8], usize, Vec<String>)> = Vec::new();
    for claim in &report.node_claims {
        let row = row(claim);
        match rows.iter_mut().find(|(known, ..)| !wide && *known == row) {
            Some((_, count, pods)) => {
                *count += 1;
                pods.extend(claim.pods.iter().cloned());
            }
            None => rows.push((row, 1, claim.pods.clone())),
        }
    }
    for (row, count, pods) in rows {
        sheet.row([count.to_string()].into_iter().chain(row).chain([shown(&pods, wide)]));
    }
    sheet
}

fn row(claim: &Claim) -> [String; 8] {
    let [instance_type, zone, capacity_type, price] = match &claim.offering {
        Some(offering) => [
            offering.instance_type.clone(),
            offering.zone.clone(),
            offering.capacity_type.clone(),
            figures::hourly_text(&offering.price),
        ],
        None => [names(&claim.instance_types), "-".to_owned(), "-".to_owned(), "-".to_owned()],
    };
    [
        claim.node_pool.clone(),
        instance_type,
        zone,
        capacity_type,
        price,
        request(&claim.requests, "cpu", |cpu| figures::cpu(cpu.milli_ceil())),
        request(&claim.requests, "memory", |memory| figures::bytes(memory.units_ceil())),
        claim.instance_types.len().to_string(),
    ]
}

/// A request, rounded; as it is written if it cannot be read.
fn request(requests: &Value, name: &str, shown: impl Fn(Quantity) -> String) -> String {
    let written = requests[name].as_str().unwrap_or("0");
    written.parse().map_or_else(|_| written.to_owned(), shown)
}

/// Pods; those with equal reasons share a row.
fn unschedulable(report: &PlanReport, wide: bool) -> Sheet {
    let mut sheet = Sheet::new(&[text("UNSCHEDULABLE"), text("REASON"), text("MESSAGE")]);
    let message = |pod: &Unschedulable| {
        let nodes = pod.nodes.as_ref().map(|nodes| format!("; {}", nodes.message));
        format!("{}{}", pod.message, nodes.unwrap_or_default())
    };
    let mut rows: Vec<(&str, String, Vec<String>)> = Vec::new();
    for pod in &report.unschedulable {
        let message = message(pod);
        match rows.iter_mut().find(|(reason, known, _)| !wide && *reason == pod.reason && *known == message) {
            Some((.., pods)) => pods.push(pod.pod.clone()),
            None => rows.push((&pod.reason, message, vec![pod.pod.clone()])),
        }
    }
    for (reason, message, pods) in rows {
        sheet.row([shown(&pods, wide), reason.to_owned(), message]);
    }
    sheet
}

/// What beyond the first constraint rules NodePools out; pods with equal constraints share their rows.
fn also_ruled_out(report: &PlanReport) -> Sheet {
    let mut sheet =
        Sheet::new(&[text("ALSO RULED OUT BY"), text("NODEPOOL"), text("REASON"), text("CONSTRAINT")]);
    let mut rows: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    for pod in &report.unschedulable {
        for row in pod.constraints.iter().filter(|row| row.place > 1) {
            let key = (row.node_pool.clone(), row.reason.clone(), row.message.clone());
            rows.entry(key).or_default().push(pod.pod.clone());
        }
    }
    for ((node_pool, reason, message), pods) in rows {
        sheet.row([names(&pods), node_pool, reason, message]);
    }
    sheet
}

/// What would lift constraints; pods with equal constraints share their lines.
fn patches(report: &PlanReport) -> Vec<String> {
    let mut groups: Vec<(&[Row], Vec<String>)> = Vec::new();
    for pod in report.unschedulable.iter().filter(|pod| pod.constraints.iter().any(|row| row.patch.is_some()))
    {
        match groups.iter_mut().find(|(known, _)| *known == pod.constraints.as_slice()) {
            Some((_, pods)) => pods.push(pod.pod.clone()),
            None => groups.push((&pod.constraints, vec![pod.pod.clone()])),
        }
    }
    let lines = |(rows, pods): (&[Row], Vec<String>)| {
        let pods = names(&pods);
        constraints::patch_lines(rows).into_iter().map(move |line| format!("{pods}: {line}"))
    };
    groups.into_iter().flat_map(lines).collect()
}

/// Now and then.
fn what_if(page: &mut Page, change: &WhatIf, currency: Currency) {
    let mut sheet = Sheet::new(&[text("FLEET"), figure("NOW"), figure("THEN"), figure("CHANGE")]);
    let (now, then) = (&change.now, &change.then);
    let whole = |title: &str, of: fn(&Fleet) -> usize| {
        let number = |fleet| i64::try_from(of(fleet)).unwrap_or(i64::MAX);
        let (a, b) = (number(now), number(then));
        [title.to_owned(), a.to_string(), b.to_string(), format!("{:+}", b.saturating_sub(a))]
    };
    sheet.row(whole("nodes", |fleet| fleet.nodes));
    let price = |fleet: &Fleet| fleet.cost.dollars();
    if let (Some(a), Some(b)) = (price(now), price(then)) {
        let percent = if a > 0.0 { format!(" ({:+.1} %)", (b / a - 1.0) * 100.0) } else { String::new() };
        let plus = if b > a { "+" } else { "" };
        let monthly = |price| figures::monthly(currency, price);
        sheet.row([
            format!("{currency}/month"),
            monthly(a),
            monthly(b),
            format!("{plus}{}{percent}", monthly(b - a)),
        ]);
    }
    sheet.row(whole("pods unschedulable", |fleet| fleet.unschedulable));
    sheet.row(["pods moved".to_owned(), String::new(), change.moved.to_string(), String::new()]);
    page.sheet(sheet);
    if then.cost.nodes_without_price > 0 && then.cost.hourly.is_some() {
        let nodes = figures::count(then.cost.nodes_without_price, "node");
        page.line(format!("without the cost of {nodes} of unknown price"));
    }
    for (title, objects) in [
        ("changed", &change.changed),
        ("created", &change.created),
        ("deleted", &change.deleted),
        ("nodes that drift", &change.drifted),
        ("nodes that are deleted", &change.drained),
    ] {
        if !objects.is_empty() {
            page.line(format!("{title}: {}", names(objects)));
        }
    }
}

/// A table without lines.
pub(crate) fn grid(header: &[&str]) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING).set_header(header);
    grid
}

fn shown(pods: &[String], wide: bool) -> String {
    if wide { pods.join(", ") } else { names(pods) }
}
