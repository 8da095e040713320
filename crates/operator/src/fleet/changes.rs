//! What differs between two moments of a fleet, as lines.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::{Currency, Price};

use super::{FleetNode, FleetReport};
use crate::figures;

/// The changes from one report to the next: nodes, disruptions, pending pods.
pub(crate) fn changes(before: &FleetReport, after: &FleetReport) -> Vec<String> {
    let (old, new) = (by_name(before), by_name(after));
    let mut lines = Vec::new();
    for (name, node) in &new {
        let was_ready = old.get(name).is_some_and(|node| !node.phase.is_starting());
        if !was_ready && !node.phase.is_starting() && !node.phase.is_leaving() {
            lines.push(format!("node {name} ready: {}", described(node, after.currency)));
        }
    }
    let known: BTreeSet<&[String]> = before.disruptions.iter().map(|row| row.nodes.as_slice()).collect();
    for row in after.disruptions.iter().filter(|row| !known.contains(row.nodes.as_slice())) {
        let saves =
            |saved: &String| format!(", saves {}/h", after.currency.amount(figures::hourly_text(saved)));
        let saved = row.savings_hourly.as_ref().map_or_else(String::new, saves);
        lines.push(format!("{}: {} selected for disruption{saved}", row.reason, nodes(&row.nodes)));
    }
    for (name, node) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        let less = |price| format!(" (-{}/h)", figures::per_hour(after.currency, price));
        let price = node.price.map(|price| less(price.dollars())).unwrap_or_default();
        lines.push(format!("node {name} terminated{price}"));
    }
    match (before.totals.pods_pending, after.totals.pods_pending) {
        (0, pending) if pending > 0 => lines.push(format!("{} pending", figures::count(pending, "pod"))),
        (pending, 0) if pending > 0 => {
            lines.push(format!("no pod pending; {}", figures::count(after.nodes.len(), "node")));
        }
        _ => {}
    }
    lines
}

fn by_name(report: &FleetReport) -> BTreeMap<&str, &FleetNode> {
    report.nodes.iter().map(|node| (node.name.as_str(), node)).collect()
}

fn nodes(names: &[String]) -> String {
    match names {
        [one] => format!("node {one}"),
        many => figures::count(many.len(), "node"),
    }
}

fn described(node: &FleetNode, currency: Currency) -> String {
    let of = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let hourly = |price: Price| format!(", {}/h", figures::per_hour(currency, price.dollars()));
    let price = node.price.map(hourly).unwrap_or_default();
    format!("{} in {}, {}{price}", of(&node.instance_type), of(&node.zone), of(&node.capacity_type))
}
