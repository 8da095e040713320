//! The report of `compat`: what `-o json` prints, and the table. `docs/compat.schema.json` is made from these types.

use std::fmt;

use fleetwright_core::model::Currency;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    finding::{Finding, Severity},
    objects::count,
    plans::PoolRow,
};
use crate::{
    catalogue::{Footer, SourceRow},
    outcome::Outcome,
    plan::grid,
};

/// Version of the document's form.
const VERSION: u32 = 1;

/// Whether a cluster can move to Fleetwright.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CompatReport {
    /// Version of this form.
    pub(super) version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[schemars(with = "String")]
    pub(super) currency: Currency,
    /// The summary.
    pub(super) verdict: Verdict,
    /// All findings, blockers first, then by identifier and object.
    pub(super) findings: Vec<Finding>,
    /// The nodes that Fleetwright and Karpenter's order choose for the pods of each NodePool.
    pub(super) node_pools: Vec<PoolRow>,
    /// Parts of the input that were ignored or assumed.
    pub(super) notes: Vec<String>,
    /// Where instance types and prices come from, and of which day they are.
    pub(super) catalogues: Vec<SourceRow>,
    /// What the catalogues cannot answer; without findings that matter more, the exit status is 3.
    pub(super) incomplete: Vec<String>,
}

/// The summary.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Verdict {
    /// `ready`, `warnings`, or `blocked`.
    pub(super) result: String,
    /// Findings that have to be fixed first.
    pub(super) blockers: usize,
    /// Findings to decide about.
    pub(super) warnings: usize,
    /// Findings that are good to know.
    pub(super) notes: usize,
}

/// What of a report follows from the instance types.
#[derive(Debug, Default)]
pub(super) struct Planned {
    pub(super) node_pools: Vec<PoolRow>,
    pub(super) notes: Vec<String>,
    pub(super) catalogues: Vec<SourceRow>,
    pub(super) currency: Currency,
    pub(super) incomplete: Vec<String>,
}

impl CompatReport {
    pub(super) fn new(mut findings: Vec<Finding>, planned: Planned) -> Self {
        findings.sort_by(|a, b| {
            (a.severity, &a.id, &a.object, &a.message).cmp(&(b.severity, &b.id, &b.object, &b.message))
        });
        let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        let (blockers, warnings) = (of(Severity::Blocker), of(Severity::Warning));
        let result = match (blockers, warnings) {
            (0, 0) => "ready",
            (0, _) => "warnings",
            _ => "blocked",
        };
        let verdict = Verdict { result: result.to_owned(), blockers, warnings, notes: of(Severity::Note) };
        let Planned { node_pools, notes, catalogues, currency, incomplete } = planned;
        Self { version: VERSION, currency, verdict, findings, node_pools, notes, catalogues, incomplete }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match (self.verdict.blockers, self.verdict.warnings) {
            (0, 0) => Outcome::of(&self.incomplete),
            (0, _) => Outcome::Warnings,
            _ => Outcome::Blocked,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = format!(
            "{}, {}, {}",
            count(self.blockers, "blocker"),
            count(self.warnings, "warning"),
            count(self.notes, "note")
        );
        match (self.blockers, self.warnings) {
            (0, 0) => write!(f, "verdict: ready to switch ({numbers})"),
            (0, _) => write!(f, "verdict: ready to switch once the warnings are accepted ({numbers})"),
            _ => write!(f, "verdict: do not switch before the blockers are fixed ({numbers})"),
        }
    }
}

/// Writes a report as tables.
pub(super) struct Table<'a>(pub(super) &'a CompatReport);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        for finding in &report.findings {
            writeln!(f, "{} {:<7} {}", finding.id, finding.severity.as_str(), finding.object)?;
            writeln!(f, "     {}", finding.message)?;
            if !finding.fix.is_empty() {
                writeln!(f, "     fix: {}", finding.fix)?;
            }
        }
        if !report.findings.is_empty() {
            writeln!(f)?;
        }
        if !report.node_pools.is_empty() {
            let (hourly, saves) = (format!("{}/H", report.currency), format!("SAVES {}/H", report.currency));
            let (theirs, ours) = ("KARPENTER'S ORDER", "FLEETWRIGHT");
            let mut rows = grid(&["NODEPOOL", "NODES", &hourly, theirs, &hourly, ours, &hourly, &saves]);
            let price = |price: &Option<String>| price.clone().unwrap_or_else(|| "-".to_owned());
            for pool in &report.node_pools {
                rows.add_row([
                    pool.node_pool.clone(),
                    pool.nodes.to_string(),
                    price(&pool.cost),
                    pool.compatible_nodes.to_string(),
                    price(&pool.compatible_cost),
                    pool.least_cost_nodes.to_string(),
                    price(&pool.least_cost_cost),
                    price(&pool.saves),
                ]);
            }
            writeln!(f, "{}", rows.trim_fmt())?;
            writeln!(
                f,
                "NODES are those of today; the two plans place all their pods at once on new nodes.\n"
            )?;
        }
        writeln!(f, "{}", report.verdict)?;
        write!(f, "{}", Footer(&report.catalogues))
    }
}
