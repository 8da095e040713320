//! The report as one page for browsers, without scripts and without anything from elsewhere.

use std::fmt;

use fleetwright_core::model::Currency;

use super::report::{BatchRow, CommandRow, DisruptionRow, ShadowReport};

/// Writes a report as a page.
pub(super) struct Page<'a>(pub(super) &'a ShadowReport);

/// Text of objects, escaped.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color-scheme:light dark}\
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.3rem .7rem;text-align:left;vertical-align:top;\
border-bottom:1px solid #8884}td.figure,th.figure{text-align:right;font-variant-numeric:tabular-nums}";

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShadowReport {
            currency, since, until, totals, batches, disruptions, catalogues, incomplete, ..
        } = self.0;
        write!(
            f,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Fleetwright in shadow mode</title>\
             <style>{STYLE}</style></head><body>\n<h1>Fleetwright in shadow mode</h1>\n<p>{} to {}: {}.</p>\n",
            Text(since),
            Text(until),
            Text(&totals.agreement())
        )?;
        writeln!(
            f,
            "<table><tr><th></th><th class=\"figure\">NodeClaims</th><th class=\"figure\">{currency}/h</th></tr>",
        )?;
        for (name, side) in [("Karpenter", &totals.karpenter), ("Fleetwright", &totals.fleetwright)] {
            writeln!(
                f,
                "<tr><td>{name}</td><td class=\"figure\">{}</td><td class=\"figure\">{}</td></tr>",
                side.node_claims,
                Text(&side.hourly)
            )?;
        }
        f.write_str("</table>\n")?;
        if let Some(percent) = totals.saving_percent() {
            writeln!(f, "<p>Saving: {percent:.1} %.</p>")?;
        }
        if totals.unpriced_batches > 0 {
            writeln!(
                f,
                "<p>{} batches are not in these sums: a price is unknown.</p>",
                totals.unpriced_batches
            )?;
        }
        writeln!(
            f,
            "<table><tr><th class=\"figure\">Batch</th><th>Opened</th><th class=\"figure\">Pods</th><th>Karpenter</th>\
             <th class=\"figure\">{currency}/h</th><th>Fleetwright</th><th class=\"figure\">{currency}/h</th><th>Agreement</th>\
             <th>Reasons</th></tr>",
        )?;
        for batch in batches {
            row(f, batch)?;
        }
        write!(
            f,
            "</table>\n<p>Disruption: {}.</p>\n<table><tr><th>Began</th><th>Karpenter</th><th>Fleetwright</th><th>Agreement</th>\
             <th>Not proposed</th></tr>\n",
            Text(&totals.disruption())
        )?;
        for disruption in disruptions {
            disruption_row(f, disruption, *currency)?;
        }
        f.write_str("</table>\n<ul>\n")?;
        for gap in incomplete {
            writeln!(f, "<li>Incomplete: {}</li>", Text(gap))?;
        }
        for catalogue in catalogues {
            let pools = catalogue.node_pools.join(", ");
            writeln!(f, "<li>Catalogue of {}: {}</li>", Text(&pools), Text(&catalogue.source))?;
        }
        f.write_str("</ul>\n</body></html>\n")
    }
}

fn row(f: &mut fmt::Formatter<'_>, batch: &BatchRow) -> fmt::Result {
    write!(
        f,
        "<tr><td class=\"figure\">{}</td><td>{}</td><td class=\"figure\">{}</td>",
        batch.number,
        Text(&batch.opened),
        batch.pods
    )?;
    for side in [&batch.karpenter, &batch.fleetwright] {
        write!(f, "<td>{}</td><td class=\"figure\">{}</td>", Text(&side.text()), Text(side.price()))?;
    }
    write!(f, "<td>{}</td><td>", Text(&batch.agreement))?;
    for (position, reason) in batch.reasons.iter().enumerate() {
        write!(f, "{}{}", if position == 0 { "" } else { "<br>" }, Text(&reason.message))?;
    }
    f.write_str("</td></tr>\n")
}

fn disruption_row(f: &mut fmt::Formatter<'_>, row: &DisruptionRow, currency: Currency) -> fmt::Result {
    writeln!(
        f,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        Text(&row.began),
        Text(&CommandRow::texts(&row.karpenter, currency)),
        Text(&CommandRow::texts(&row.fleetwright, currency)),
        Text(&row.agreement),
        Text(&row.reasons())
    )
}
