//! The table of the plan.

use std::fmt;

use comfy_table::{CellAlignment, Table as Grid, presets};

use super::report::{Claim, Report};
use crate::catalogue::Footer;

/// Maximum number of pods in a row; the others are counted.
const NAMED: usize = 3;

/// Writes a report as tables.
pub(super) struct Table<'a>(pub(super) &'a Report);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        if !report.node_claims.is_empty() {
            let mut grid =
                grid(&["NODEPOOL", "TYPE", "ZONE", "CAPACITY", "$/H", "CPU", "MEMORY", "TYPES", "PODS"]);
            for claim in &report.node_claims {
                grid.add_row(row(claim));
            }
            for column in [4, 7] {
                if let Some(column) = grid.column_mut(column) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            writeln!(f, "{}\n", grid.trim_fmt())?;
        }
        if !report.existing.is_empty() {
            let mut grid = grid(&["NODE", "PODS"]);
            for existing in &report.existing {
                grid.add_row([existing.node.clone(), names(&existing.pods)]);
            }
            writeln!(f, "{}\n", grid.trim_fmt())?;
        }
        if !report.unschedulable.is_empty() {
            let mut grid = grid(&["UNSCHEDULABLE", "REASON", "MESSAGE"]);
            for pod in &report.unschedulable {
                let nodes = pod.nodes.as_ref().map(|nodes| format!("; {}", nodes.message));
                let message = format!("{}{}", pod.message, nodes.unwrap_or_default());
                grid.add_row([&pod.pod, &pod.reason, &message]);
            }
            writeln!(f, "{}\n", grid.trim_fmt())?;
        }
        let pods: usize = report.node_claims.iter().map(|claim| claim.pods.len()).sum();
        let placed: usize = report.existing.iter().map(|existing| existing.pods.len()).sum();
        writeln!(
            f,
            "{} new nodes for {pods} pods, {placed} pods on existing nodes, {} unschedulable",
            report.node_claims.len(),
            report.unschedulable.len()
        )?;
        let took = report.timing.solve_ms;
        match &report.cost {
            Some(cost) => writeln!(
                f,
                "${} per hour; no plan can cost less than ${} (gap {:.2} %); solved in {took:.1} ms",
                cost.hourly,
                cost.lower_bound,
                cost.gap * 100.0,
            )?,
            None => writeln!(f, "prices are unknown: packed in Karpenter's order; solved in {took:.1} ms")?,
        }
        write!(f, "{}", Footer(&report.catalogues))
    }
}

/// A table without lines.
pub(crate) fn grid(header: &[&str]) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING).set_header(header);
    grid
}

fn row(claim: &Claim) -> [String; 9] {
    let [instance_type, zone, capacity_type, price] = match &claim.offering {
        Some(offering) => [&offering.instance_type, &offering.zone, &offering.capacity_type, &offering.price]
            .map(Clone::clone),
        None => [names(&claim.instance_types), "-".to_owned(), "-".to_owned(), "-".to_owned()],
    };
    let request = |name: &str| claim.requests[name].as_str().unwrap_or("0").to_owned();
    [
        claim.node_pool.clone(),
        instance_type,
        zone,
        capacity_type,
        price,
        request("cpu"),
        request("memory"),
        claim.instance_types.len().to_string(),
        names(&claim.pods),
    ]
}

/// The first few of many names.
pub(crate) fn names(pods: &[String]) -> String {
    let shown = pods.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match pods.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
