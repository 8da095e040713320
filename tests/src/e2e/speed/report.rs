//! The results as a table and as JSON.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::figures::Used;
use crate::e2e::arguments::Tier;

/// One measurement.
#[derive(Debug)]
pub(in crate::e2e) struct Row {
    pub(super) pods: usize,
    /// From the first creation to the last answer to one.
    pub(super) created: Duration,
    /// All from the first creation: the first NodeClaim, the last NodeClaim, the last pod bound.
    pub(super) first_claim: Duration,
    pub(super) written: Duration,
    pub(super) bound: Duration,
    /// From the deletion of all pods until no NodeClaim, Node and instance is left.
    pub(super) emptied: Duration,
    pub(super) nodes: usize,
    pub(super) up: Used,
    pub(super) down: Used,
    /// Resident set of the operator in bytes, at the end and at most.
    pub(super) memory: u64,
    pub(super) memory_peak: u64,
}

/// Names of the columns with what a row has there.
type Column = (&'static str, fn(&Row) -> String);

const COLUMNS: [Column; 12] = [
    ("pods", |row| row.pods.to_string()),
    ("nodes", |row| row.nodes.to_string()),
    ("pods created", |row| seconds(row.created)),
    ("first claim", |row| seconds(row.first_claim)),
    ("all claims written", |row| seconds(row.written)),
    ("all pods bound", |row| seconds(row.bound)),
    ("solver", |row| format!("{:.0} ms", row.up.solver_seconds * 1000.0)),
    ("calls per node launched", |row| calls(&row.up, row.nodes)),
    ("load gone to empty", |row| seconds(row.emptied)),
    ("calls per node removed", |row| calls(&row.down, row.nodes)),
    ("memory, peak", |row| format!("{} MB, {} MB", row.memory >> 20, row.memory_peak >> 20)),
    ("operator's CPU up, down", |row| format!("{:.1} s, {:.1} s", row.up.cpu_seconds, row.down.cpu_seconds)),
];

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Writes and reads per node.
fn calls(used: &Used, nodes: usize) -> String {
    format!("{:.1} w, {:.1} r", each(used.writes, nodes), each(used.reads, nodes))
}

fn each(count: f64, nodes: usize) -> f64 {
    count / f64::from(u32::try_from(nodes.max(1)).unwrap_or(u32::MAX))
}

/// Prints the rows as a Markdown table, then as one line of JSON.
pub(in crate::e2e) fn print(tier: Tier, rows: &[Row], out: &mut dyn Write) -> anyhow::Result<()> {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    writeln!(out, "{}", line(COLUMNS.map(|(name, _)| name.to_owned()).to_vec()))?;
    writeln!(out, "|{}", "---|".repeat(COLUMNS.len()))?;
    for row in rows {
        writeln!(out, "{}", line(COLUMNS.map(|(_, cell)| cell(row)).to_vec()))?;
    }
    let rows: Vec<Value> = rows.iter().map(json_of).collect();
    writeln!(out, "{}", json!({"version": 1, "tier": tier.name(), "rows": rows}))?;
    Ok(())
}

fn json_of(row: &Row) -> Value {
    let used = |used: &Used| {
        json!({
            "writes": used.writes,
            "reads": used.reads,
            "byTarget": used.by_target,
            "solverMs": used.solver_seconds * 1000.0,
            "cpuSeconds": used.cpu_seconds,
        })
    };
    json!({
        "pods": row.pods,
        "nodes": row.nodes,
        "createdSeconds": row.created.as_secs_f64(),
        "firstClaimSeconds": row.first_claim.as_secs_f64(),
        "claimsWrittenSeconds": row.written.as_secs_f64(),
        "boundSeconds": row.bound.as_secs_f64(),
        "emptiedSeconds": row.emptied.as_secs_f64(),
        "launch": used(&row.up),
        "removal": used(&row.down),
        "memoryBytes": row.memory,
        "memoryPeakBytes": row.memory_peak,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_line_of_the_table_and_of_the_json() {
        let row = Row {
            pods: 10,
            created: Duration::from_millis(250),
            first_claim: Duration::from_secs(1),
            written: Duration::from_secs(2),
            bound: Duration::from_secs(3),
            emptied: Duration::from_secs(20),
            nodes: 2,
            up: Used { writes: 30.0, reads: 4.0, solver_seconds: 0.012, ..Used::default() },
            down: Used { writes: 10.0, cpu_seconds: 1.5, ..Used::default() },
            memory: 50 << 20,
            memory_peak: 60 << 20,
        };
        let mut out = Vec::new();
        print(Tier::FakeKube, &[row], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2],
            "| 10 | 2 | 0.2 s | 1.0 s | 2.0 s | 3.0 s | 12 ms | 15.0 w, 2.0 r | 20.0 s | 5.0 w, 0.0 r | 50 MB, 60 MB \
             | 0.0 s, 1.5 s |"
        );
        let parsed: Value = serde_json::from_str(lines[3]).unwrap();
        assert_eq!((&parsed["tier"], &parsed["rows"][0]["nodes"]), (&json!("fake-kube"), &json!(2)));
    }
}
