//! Decisions for terminals.

use fleetwright_core::{
    decisions::{
        Choice, DecisionRecord,
        record::{OfferingRow, ReasonRow},
    },
    model::Currency,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    figures::{count, first_of, hourly_text},
    plan::grid,
    sheet::plain,
};

/// What a row says of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DecisionRow {
    /// When it was decided, in RFC 3339.
    pub(crate) time: String,
    /// Its id.
    pub(crate) id: String,
    /// Its kind.
    pub(crate) kind: String,
    /// What was chosen.
    pub(crate) decision: String,
    /// What it saves per hour; empty where nothing is saved.
    pub(crate) saves: String,
    /// How far it is.
    pub(crate) outcome: String,
    /// What came of it, or else the reason.
    pub(crate) why: String,
}

impl DecisionRow {
    /// The row of a record. One of a kind that this version does not know has what all kinds have. Nothing in it controls the terminal.
    pub(crate) fn of(record: &Value) -> Self {
        let text = |pointer: &str| plain(record.pointer(pointer).and_then(Value::as_str).unwrap_or_default());
        let known = serde_json::from_value::<DecisionRecord>(record.clone()).ok();
        let (decision, why) = known.as_ref().map_or((String::new(), String::new()), |record| {
            (plain(&decision(&record.draft.choice, record.currency)), plain(&why(record)))
        });
        Self {
            time: text("/time"),
            id: text("/id"),
            kind: text("/kind"),
            decision,
            saves: hourly_text(&text("/saving/list")),
            outcome: text("/outcome/status"),
            why,
        }
    }

    /// When it was decided, if that is a time.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.time.parse().ok()
    }

    fn cells(self) -> [String; 7] {
        let time = self.time.split('.').next().unwrap_or_default().trim_end_matches('Z').to_owned();
        [time, self.id, self.kind, self.decision, self.saves, self.outcome, self.why]
    }
}

/// The records as a table.
pub(super) fn table(records: &[Value]) -> String {
    let first = records.first().map(currency).unwrap_or_default();
    let saves = format!("SAVES {first}/H");
    let mut grid = grid(&["TIME", "ID", "KIND", "DECISION", &saves, "OUTCOME", "WHY"]);
    for record in records {
        grid.add_row(DecisionRow::of(record).cells());
    }
    let lines: Vec<String> = grid.to_string().lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    lines.concat()
}

/// A record as one line, for a stream.
pub(super) fn line(record: &Value) -> String {
    let filled: Vec<String> =
        DecisionRow::of(record).cells().into_iter().filter(|cell| !cell.is_empty()).collect();
    filled.join("  ")
}

/// What the prices of a record are in.
fn currency(record: &Value) -> Currency {
    record["currency"].as_str().and_then(Currency::of).unwrap_or_default()
}

fn decision(choice: &Choice, currency: Currency) -> String {
    let hourly = |price: &String| format!("{}/h", currency.amount(hourly_text(price)));
    match choice {
        Choice::Plan(plan) => {
            let mut parts = Vec::new();
            if plan.node_claims > 0 {
                let claims = count(plan.node_claims, "new NodeClaim");
                let pods = count(plan.pods_on_new_nodes, "pod");
                parts.push(format!("{claims} ({}) for {pods}", hourly(&plan.price)));
            }
            if plan.pods_on_existing_nodes > 0 {
                parts.push(format!("{} on existing nodes", count(plan.pods_on_existing_nodes, "pod")));
            }
            if plan.unschedulable > 0 {
                parts.push(format!("{} unschedulable", count(plan.unschedulable, "pod")));
            }
            parts.join(", ")
        }
        Choice::NodeClaim(claim) => {
            let offering = offering(&claim.offering);
            format!(
                "{}: {offering} ({}) for {}",
                claim.node_claim,
                hourly(&claim.offering.price),
                count(claim.pods_total, "pod"),
            )
        }
        Choice::Disruption(command) => {
            let nodes: Vec<String> = command.nodes.iter().map(|node| node.node.clone()).collect();
            let nodes = listed(&nodes, command.nodes_total);
            let new: Vec<String> = command
                .replacements
                .iter()
                .map(|new| format!("{} ({})", offering(&new.offering), hourly(&new.offering.price)))
                .collect();
            let new = match command.replacements_total {
                0 => String::new(),
                total if new.is_empty() => format!(" -> {}", count(total, "replacement")),
                total => format!(" -> {}", listed(&new, total)),
            };
            format!("{}/{}: {nodes}{new}", command.reason, command.action)
        }
        Choice::Deletion(deletion) => {
            let of_node = deletion.node.as_ref().map(|node| format!(" (node {node})")).unwrap_or_default();
            format!("{}: {} {}{of_node}", deletion.cause, deletion.of, deletion.name)
        }
        Choice::Refusal(refusal) => {
            format!("{} {}: {}", refusal.total, refusal.of, listed(&refusal.names, refusal.total))
        }
        Choice::Held(held) => format!("{} {}", held.act, held.subject).trim_end().to_owned(),
    }
}

fn offering(offering: &OfferingRow) -> String {
    format!("{}/{}/{}", offering.instance_type, offering.zone, offering.capacity_type)
}

/// The first few names of `total`.
fn listed(known: &[String], total: usize) -> String {
    first_of(known, total.max(known.len()), ", ")
}

/// What came of it, or else the reason.
fn why(record: &DecisionRecord) -> String {
    let message = record.draft.outcome.as_ref().and_then(|outcome| outcome.message.clone());
    let first = |reasons: &[ReasonRow]| reasons.first().map(|reason| reason.message.clone());
    message.or_else(|| first(&record.draft.reasons)).unwrap_or_default()
}
