//! The table, and the same as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{SEED, measure};

/// One measurement against its target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) result: String,
    pub(crate) target: &'static str,
    /// Whether the target was met; `None` without a target.
    pub(crate) met: Option<bool>,
    pub(crate) pods_per_second: Option<f64>,
    pub(crate) allocations: Option<usize>,
    pub(crate) instructions: Option<u64>,
    /// Dollars per hour.
    pub(crate) hourly: Option<f64>,
    pub(crate) lower_bound: Option<f64>,
    pub(crate) nodes: Option<usize>,
    /// The number of violations that the independent validator finds.
    pub(crate) violations: Option<usize>,
    /// A description of the input.
    pub(crate) input: String,
}

impl Row {
    fn gap(&self) -> Option<f64> {
        let (hourly, bound) = (self.hourly?, self.lower_bound?);
        (bound > 0.0).then(|| (hourly / bound - 1.0) * 100.0)
    }

    fn cells(&self) -> [String; 11] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            self.work.clone(),
            self.result.clone(),
            self.target.to_owned(),
            or_dash(self.met.map(|met| if met { "yes" } else { "NO" }.to_owned())),
            or_dash(self.pods_per_second.map(|rate| format!("{rate:.0}"))),
            or_dash(self.allocations.map(|count| count.to_string())),
            self.instructions
                .map_or_else(|| "n/a".to_owned(), |count| format!("{:.1} M", count as f64 / 1e6)),
            or_dash(self.hourly.map(|price| format!("{price:.2}"))),
            or_dash(self.gap().map(|gap| format!("{gap:+.2} %"))),
            or_dash(self.nodes.map(|nodes| nodes.to_string())),
            or_dash(
                self.violations
                    .map(|found| if found == 0 { "valid".to_owned() } else { format!("{found} WRONG") }),
            ),
        ]
    }
}

const HEADINGS: [&str; 11] =
    ["work", "result", "target", "met", "pods/s", "allocs", "instr", "$/h", "over bound", "nodes", "judge"];

/// Writes the rows in columns.
pub(crate) fn table(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let lines: Vec<[String; 11]> =
        std::iter::once(HEADINGS.map(str::to_owned)).chain(rows.iter().map(Row::cells)).collect();
    let widths: Vec<usize> = (0..HEADINGS.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(&format!("{cell:<width$}  "));
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    let peak =
        measure::peak_rss().map_or_else(|| "n/a".to_owned(), |peak| format!("{} MB", peak / 1_000_000));
    writeln!(out, "\nseed {SEED}; {}; peak resident size of the whole run {peak}", measure::processor())
}

/// The rows with all their data.
pub(crate) fn json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({
            "work": row.work, "result": row.result, "target": row.target, "met": row.met,
            "podsPerSecond": row.pods_per_second, "allocations": row.allocations,
            "instructions": row.instructions, "hourly": row.hourly, "lowerBound": row.lower_bound,
            "gapPercent": row.gap(), "nodes": row.nodes, "violations": row.violations, "input": row.input,
        })
    };
    json!({
        "version": 1, "seed": SEED, "node": measure::processor(), "peakRssBytes": measure::peak_rss(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
