//! `docs/book/events.md`: every event and condition that a report of the scenarios shows, with an example.
//!
//! `tests/tests/words.rs` proves that scenarios assert every reason; the page shows those that a report has.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::put;

/// The page, and the lines between which the tables are.
const PAGE: &str = "docs/book/events.md";
const BEGIN: &str = "<!-- tables: written by `cargo xtask generate` from tests/scenarios -->\n";
const END: &str = "<!-- end of the tables -->\n";
/// The longest example, in characters.
const EXAMPLE_MAX: usize = 180;

/// An event or a condition: what it is about, its name, and the rest of its row.
type Key = [String; 4];

/// An example with the scenario that has it.
struct Example {
    message: String,
    scenario: String,
}

#[derive(Default)]
struct Tables {
    events: BTreeMap<Key, Example>,
    conditions: BTreeMap<Key, Example>,
}

/// Writes the tables of the page.
pub(super) fn events(root: &Path, check: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut tables = Tables::default();
    for file in crate::tidy::files(root)?.into_iter().filter(|file| file.ends_with(".report")) {
        let text = fs::read_to_string(root.join(&file)).with_context(|| format!("cannot read {file}"))?;
        text.lines().for_each(|line| tables.add(line, &file));
    }
    ensure!(tables.events.len() > 20 && tables.conditions.len() > 40, "the reports were not understood");
    let page = root.join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    let (head, rest) = text.split_once(BEGIN).context("the page has no place for the tables")?;
    let (_, tail) = rest.split_once(END).context("the tables have no end")?;
    Ok(put(&page, &format!("{head}{BEGIN}{}{END}{tail}", tables.rendered()), check)?.into_iter().collect())
}

impl Tables {
    /// Reads a line such as `+3m | Normal Evicted on Pod web-1: Evicted pod` or `+3m | NodeClaim a: Drifted=True/NodeDrifted: text`.
    fn add(&mut self, line: &str, scenario: &str) {
        let Some((_, told)) = line.split_once("| ").filter(|_| line.starts_with('+')) else { return };
        let (what, message) = told.split_once(": ").unwrap_or((told, ""));
        let example = |message: &str| Example { message: message.to_owned(), scenario: scenario.to_owned() };
        let words: Vec<&str> = what.split(' ').collect();
        match words.as_slice() {
            [type_ @ ("Normal" | "Warning"), reason, "on", kind, _] => {
                let key = [kind, reason, type_, &""].map(|word| (*word).to_owned());
                self.events.entry(key).or_insert_with(|| example(message));
            }
            [kind, _] => {
                let (set, message) = message.split_once(": ").unwrap_or((message, ""));
                let Some((type_, status)) = set.split_once('=').filter(|_| !set.contains(' ')) else {
                    return;
                };
                let (status, reason) = status.split_once('/').unwrap_or((status, type_));
                let key = [kind, type_, status, reason].map(str::to_owned);
                self.conditions.entry(key).or_insert_with(|| example(message));
            }
            _ => {}
        }
    }

    fn rendered(&self) -> String {
        let mut out =
            String::from("\n## Events\n\n| Object | Reason | Type | Example |\n|---|---|---|---|\n");
        for ([kind, reason, type_, _], example) in &self.events {
            row(&mut out, &format!("{kind} | `{reason}` | {type_}"), example);
        }
        out.push_str(
            "\n## Conditions\n\n| Object | Condition | Status | Reason | Example |\n|---|---|---|---|---|\n",
        );
        for ([kind, type_, status, reason], example) in &self.conditions {
            row(&mut out, &format!("{kind} | `{type_}` | {status} | `{reason}`"), example);
        }
        out + "\n"
    }
}

fn row(out: &mut String, cells: &str, example: &Example) {
    let mut message: String = example.message.chars().take(EXAMPLE_MAX).collect();
    if message.len() < example.message.len() {
        message.push('…');
    }
    // Within code, only the bar has a meaning in a table.
    let message = message.replace('|', "\\|").replace('`', "'");
    let name = example.scenario.trim_start_matches("tests/scenarios/").trim_end_matches(".report");
    let code = if message.is_empty() { String::new() } else { format!("`{message}` ") };
    // A String takes any text.
    let _ = writeln!(out, "| {cells} | {code}([{name}](../../{})) |", example.scenario);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_reports_become_rows() {
        let mut tables = Tables::default();
        for line in [
            "+3m       | Normal Evicted on Pod web-1: Evicted pod: Drifted",
            "+4m       | Normal Evicted on Pod web-2: another example is not needed",
            "+1m       | NodeClaim claim-8: DisruptionBlocked=True/Budget: no room | at all",
            "+1m       | NodeClaim claim-8: Drifted removed",
            "+0s       apply NodePool a",
        ] {
            tables.add(line, "tests/scenarios/life/a.report");
        }
        let link = "([life/a](../../tests/scenarios/life/a.report))";
        let text = tables.rendered();
        assert!(
            text.contains(&format!("| Pod | `Evicted` | Normal | `Evicted pod: Drifted` {link} |\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!(
                "| NodeClaim | `DisruptionBlocked` | True | `Budget` | `no room \\| at all` {link} |\n"
            )),
            "{text}"
        );
        assert_eq!((tables.events.len(), tables.conditions.len()), (1, 1));
    }
}
