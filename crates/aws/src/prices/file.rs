//! Prices from a file, for networks without access to AWS' price list.
//!
//! Lines of `type price` below a `[region]`, and lines of `type zone price` for spot prices; `#` begins a comment.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fleetwright_core::model::{Price, Quantity};

use super::Prices;

/// Why a price file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// A line is invalid.
    #[error("prices line {number}: {text:?} is neither `type price` nor `type zone price`")]
    Line {
        /// The line, from 1.
        number: usize,
        /// The line, shortened.
        text: String,
    },
    /// The region has no section.
    #[error("prices have no section [{0}]: export them in that region")]
    Region(String),
}

/// Dollars as text, exact to a nano-dollar.
fn price(text: &str) -> Option<Price> {
    let nanos = text.parse::<Quantity>().ok().filter(|amount| !amount.is_negative())?.nanos();
    i64::try_from(nanos).ok().map(Price::from_nanos)
}

/// On-demand prices by region; invalid lines are ignored, because tests have checked the built-in tables.
pub(super) fn sections(text: &str) -> BTreeMap<String, BTreeMap<String, Price>> {
    let mut all: BTreeMap<String, BTreeMap<String, Price>> = BTreeMap::new();
    let mut region = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut region);
        } else if let Some((name, amount)) = line.split_once(' ')
            && let Some(amount) = price(amount)
        {
            all.entry(region.clone()).or_default().insert(name.to_owned(), amount);
        }
    }
    all
}

/// Reads the section of a region.
///
/// # Errors
/// If a line is invalid, or the region has no section.
pub fn parse(text: &str, region: &str) -> Result<Prices, FileError> {
    let mut prices = Prices::default();
    let (mut here, mut found) = (false, false);
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            here = name == region;
            found |= here;
            continue;
        }
        let wrong = || FileError::Line { number: at + 1, text: line.chars().take(60).collect() };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [name, amount] => {
                let amount = price(amount).ok_or_else(wrong)?;
                if here {
                    prices.on_demand.insert((*name).to_owned(), amount);
                }
            }
            [name, zone, amount] => {
                let amount = price(amount).ok_or_else(wrong)?;
                if here {
                    let place = ((*name).to_owned(), (*zone).to_owned());
                    prices.spot.get_or_insert_default().insert(place, amount);
                }
            }
            _ => return Err(wrong()),
        }
    }
    if found { Ok(prices) } else { Err(FileError::Region(region.to_owned())) }
}

/// Writes the prices of a region.
#[must_use]
pub fn write(prices: &Prices, region: &str) -> String {
    let mut text = format!("[{region}]\n");
    for (name, amount) in &prices.on_demand {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} {amount}");
    }
    for ((name, zone), amount) in prices.spot.iter().flatten() {
        let _ = writeln!(text, "{name} {zone} {amount}");
    }
    text
}

#[cfg(test)]
mod tests {
    //! Reading and writing.
    use super::*;

    #[test]
    fn written_prices_are_read_back() {
        let mut prices = Prices::of_region("us-gov-west-1");
        prices.update_spot([(
            ("m5.large".to_owned(), "us-gov-west-1a".to_owned()),
            Price::from_nanos(12_345_678),
        )]);
        let read = parse(&write(&prices, "us-gov-west-1"), "us-gov-west-1").unwrap();
        assert_eq!((read.on_demand, read.spot), (prices.on_demand, prices.spot));
    }

    #[test]
    fn invalid_lines_are_reported() {
        assert_eq!(parse("[a]\nm5.large 0.1 # dear\n", "b"), Err(FileError::Region("b".to_owned())));
        for bad in ["[a]\nm5.large", "[a]\nm5.large x", "[a]\nm5.large -1", "[a]\na b c d"] {
            assert!(matches!(parse(bad, "a"), Err(FileError::Line { number: 2, .. })), "{bad}");
        }
        assert!(parse("[a]\nm5.large 0.1 # dear\n", "a").is_ok());
    }
}
