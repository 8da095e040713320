//! The table of the disruption report.

use std::fmt;

use fleetwright_core::model::labels;
use serde_json::Value;

use super::report::{NodeRow, Replacement, Report};
use crate::{
    catalogue::Footer,
    plan::{grid, names},
};

/// Writes a report as tables.
pub(super) struct Table<'a>(pub(super) &'a Report);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        if report.commands.is_empty() {
            writeln!(f, "nothing to disrupt\n")?;
        } else {
            let mut rows = grid(&["METHOD", "REASON", "NODES", "REPLACED BY", "PODS", "SAVES $/H"]);
            for command in &report.commands {
                let by: Vec<String> = command.replacements.iter().map(cheapest).collect();
                rows.add_row([
                    command.method.clone(),
                    command.reason.clone(),
                    names(&command.nodes),
                    by.join(", "),
                    names(&command.pods),
                    command.savings_hourly.clone().unwrap_or_else(|| "-".to_owned()),
                ]);
            }
            writeln!(f, "{}\n", rows.trim_fmt())?;
        }
        let mut rows = grid(&["NODE", "NODEPOOL", "$/H", "CANDIDATE", "BLOCKED BY"]);
        for node in &report.nodes {
            let name = if node.node.is_empty() { &node.node_claim } else { &node.node };
            let blockers: Vec<&str> = node.blockers.iter().map(|blocker| &*blocker.message).collect();
            rows.add_row([
                name.clone(),
                node.node_pool.clone(),
                node.price.clone().unwrap_or_default(),
                if node.candidate { "yes".to_owned() } else { "no".to_owned() },
                blockers.join("; "),
            ]);
        }
        writeln!(f, "{}\n", rows.trim_fmt())?;
        let mut rows = grid(&["NODEPOOL", "REASON", "ALLOWED", "DISRUPTING"]);
        for budget in &report.budgets {
            rows.add_row([
                budget.node_pool.clone(),
                budget.reason.clone(),
                budget.allowed.to_string(),
                budget.disrupting.to_string(),
            ]);
        }
        writeln!(f, "{}", rows.trim_fmt())?;
        write!(f, "{}", Footer(&report.catalogues))
    }
}

/// The NodePool of a NodeClaim to create, and the first of its instance types.
fn cheapest(new: &Replacement) -> String {
    let requirements = new.resource.pointer("/spec/requirements").and_then(Value::as_array);
    let types = requirements.into_iter().flatten().find(|wanted| wanted["key"] == labels::INSTANCE_TYPE);
    let first = types.and_then(|wanted| wanted["values"][0].as_str()).unwrap_or("any type");
    format!("{first} ({})", new.node_pool)
}

/// Writes one node with all of its blockers.
pub(super) struct One<'a>(pub(super) &'a NodeRow);

impl fmt::Display for One<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.0;
        writeln!(f, "Node       {}", node.node)?;
        writeln!(f, "NodeClaim  {}", node.node_claim)?;
        writeln!(f, "NodePool   {}", node.node_pool)?;
        writeln!(f, "$/h        {}", node.price.as_deref().unwrap_or("unknown"))?;
        writeln!(f, "Candidate  {}", if node.candidate { "yes" } else { "no" })?;
        if node.blockers.is_empty() {
            return writeln!(f, "\nNothing blocks its disruption.");
        }
        let mut rows = grid(&["BLOCKED BY", "OWNER", "UNTIL", "MESSAGE"]);
        for blocker in &node.blockers {
            rows.add_row([
                blocker.kind.clone(),
                blocker.owner.clone().unwrap_or_default(),
                blocker.until.clone().unwrap_or_default(),
                blocker.message.clone(),
            ]);
        }
        writeln!(f, "\n{}", rows.trim_fmt())
    }
}
