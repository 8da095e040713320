//! The report for terminals.

use std::fmt;

use comfy_table::CellAlignment;
use fleetwright_core::model::Currency;

use super::report::{CommandRow, DisruptionRow, ShadowReport};
use crate::{catalogue::Footer, plan::grid};

/// Writes a report as tables.
pub(super) struct Table<'a>(pub(super) &'a ShadowReport);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShadowReport {
            currency, since, until, totals, batches, disruptions, catalogues, incomplete, ..
        } = self.0;
        if !batches.is_empty() {
            let hourly = format!("{currency}/H");
            let mut grid = grid(&[
                "BATCH",
                "OPENED",
                "PODS",
                "KARPENTER",
                &hourly,
                "FLEETWRIGHT",
                &hourly,
                "AGREEMENT",
                "REASONS",
            ]);
            for batch in batches {
                let reasons: Vec<&str> = batch.reasons.iter().map(|why| &*why.message).collect();
                grid.add_row([
                    batch.number.to_string(),
                    batch.opened.clone(),
                    batch.pods.to_string(),
                    batch.karpenter.text(),
                    batch.karpenter.price().to_owned(),
                    batch.fleetwright.text(),
                    batch.fleetwright.price().to_owned(),
                    batch.agreement.clone(),
                    reasons.join("; "),
                ]);
            }
            for column in [0, 2, 4, 6] {
                if let Some(column) = grid.column_mut(column) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            writeln!(f, "{}\n", grid.trim_fmt())?;
        }
        if !disruptions.is_empty() {
            writeln!(f, "{}\n", of_disruptions(disruptions, *currency).trim_fmt())?;
        }
        writeln!(f, "{since} to {until}: {}", totals.agreement())?;
        for (name, side) in [("Karpenter", &totals.karpenter), ("Fleetwright", &totals.fleetwright)] {
            writeln!(
                f,
                "{name}: {} NodeClaims, {} per hour",
                side.node_claims,
                currency.amount(&side.hourly)
            )?;
        }
        if let Some(percent) = totals.saving_percent() {
            writeln!(f, "saving: {percent:.1} %")?;
        }
        writeln!(f, "disruption: {}", totals.disruption())?;
        if totals.unpriced_batches > 0 {
            writeln!(f, "{} batches are not in these sums: a price is unknown", totals.unpriced_batches)?;
        }
        for gap in incomplete {
            writeln!(f, "incomplete: {gap}")?;
        }
        write!(f, "{}", Footer(catalogues))
    }
}

fn of_disruptions(rows: &[DisruptionRow], currency: Currency) -> comfy_table::Table {
    let mut grid = grid(&["DISRUPTION", "KARPENTER", "FLEETWRIGHT", "AGREEMENT", "NOT PROPOSED"]);
    for row in rows {
        grid.add_row([
            row.began.clone(),
            CommandRow::texts(&row.karpenter, currency),
            CommandRow::texts(&row.fleetwright, currency),
            row.agreement.clone(),
            row.reasons(),
        ]);
    }
    grid
}
