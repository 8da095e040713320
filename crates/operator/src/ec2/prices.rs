//! The prices of a region: from a file, built in, or those of another region on request. Only spot prices are estimated, by a
//! stated discount.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use fleetwright_aws::prices::{BUILT_IN_DATE, Prices, currency, parse, write};
use fleetwright_core::model::Currency;

use crate::catalogue::ClassRequest;

/// The prices of a region, the region that they are of, and their source; `own` are those of the file of instance types.
pub(super) fn of<'a>(
    region: &'a str,
    zones: &BTreeSet<String>,
    own: &str,
    request: &ClassRequest<'a>,
) -> anyhow::Result<(Prices, &'a str, String)> {
    let (mut prices, of_region, says) = on_demand(region, own, request)?;
    if !prices.has_on_demand() {
        return Ok((prices, of_region, says));
    }
    let spot = if prices.has_spot() {
        "spot prices of the same".to_owned()
    } else {
        let percent = request.options.spot_discount();
        prices.assume_spot(percent, zones);
        format!("spot assumed {percent} % below on-demand (--spot-discount)")
    };
    Ok((prices, of_region, format!("{says}; {spot}")))
}

fn on_demand<'a>(
    region: &'a str,
    own: &str,
    request: &ClassRequest<'a>,
) -> anyhow::Result<(Prices, &'a str, String)> {
    let path = request.values.text("PRICES_FILE");
    if !path.is_empty() {
        let text = std::fs::read_to_string(path).with_context(|| format!("PRICES_FILE {path}"))?;
        let of_file = parse(&text, region).with_context(|| format!("PRICES_FILE {path}"))?;
        return Ok((of_file, region, format!("prices of {path}")));
    }
    if let Some(other) = &request.options.prices_from {
        let Some(prices) = Prices::built_in(other) else {
            bail!("--prices-from {other}: there are {}", Prices::built_in_regions().join(", "));
        };
        let says = if other == region { String::new() } else { format!(", NOT of {region} (--prices-from)") };
        return Ok((prices, other, format!("{}{says}", built_in(other))));
    }
    if !own.is_empty() {
        let of_file = parse(own, region).context("the prices of the instance types' file")?;
        return Ok((of_file, region, "prices of the same source".to_owned()));
    }
    Ok(match Prices::built_in(region) {
        Some(prices) => (prices, region, built_in(region)),
        None => (Prices::default(), region, format!("no prices of {region}")),
    })
}

/// Describes the built-in prices of a region.
fn built_in(region: &str) -> String {
    let currency = match currency(region) {
        Currency::USD => String::new(),
        other => format!(" in {}", other.code()),
    };
    format!("list prices{currency} of {region} as of {BUILT_IN_DATE}")
}

/// The prices for an exported file of instance types: its own, otherwise the built-in ones.
pub(super) fn text(region: &str, own: &str) -> String {
    if !own.is_empty() {
        return own.to_owned();
    }
    Prices::built_in(region).map(|prices| write(&prices, region)).unwrap_or_default()
}
