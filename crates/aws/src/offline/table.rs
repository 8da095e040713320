//! Tables of instance types: the built-in one, which `data/instance-types.py` writes, and those of files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::tokens::{self, Place};
use crate::calls::{InstanceTypeDescription, SoldIn};
use crate::instancetype::InstanceTypeCatalogue;

/// The first line of every table, with the version of its form.
const HEADER: &str = "# fleetwright instance types 1";
/// The built-in table.
const BUILT_IN: &str = include_str!("../../data/instance-types.txt");

/// Instance types of one or more regions, as EC2 described them at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    source: String,
    date: String,
    /// The zones of each region.
    regions: BTreeMap<String, BTreeSet<String>>,
    types: BTreeMap<String, InstanceTypeDescription>,
    /// Regions and zones that offer each type.
    offered: BTreeMap<String, BTreeSet<String>>,
    prices: String,
}

/// Why a table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It has another form.
    #[error("the first line is not {HEADER:?}: write the file with `fleetwright catalog export`")]
    Header,
    /// A line is invalid.
    #[error(
        "instance types line {number}: {text:?} is not an instance type: write the file again with `fleetwright catalog export`"
    )]
    Line {
        /// The line, from 1.
        number: usize,
        /// The line, shortened.
        text: String,
    },
    /// It has no instance type.
    #[error("the file has no instance types")]
    Empty,
}

impl Table {
    /// The built-in table.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        // A test reads the built-in text with errors.
        TABLE.get_or_init(|| Self::parse(BUILT_IN).unwrap_or_default())
    }

    /// Whether a file has the form of a table.
    #[must_use]
    pub fn is_table(text: &str) -> bool {
        text.lines().next().is_some_and(|line| line.trim_end() == HEADER)
    }

    /// Reads a table. A line `[region]` ends it; that line and all after it are prices.
    ///
    /// # Errors
    /// If a line is invalid, or there is no instance type.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        if !Self::is_table(text) {
            return Err(TableError::Header);
        }
        let mut table = Self::default();
        let mut order: Vec<String> = Vec::new();
        let prices = text.find("\n[").map_or(text.len(), |before| before + 1);
        let (types, prices) = text.split_at(prices);
        prices.clone_into(&mut table.prices);
        for (at, line) in types.lines().enumerate() {
            let line = line.trim_end();
            let wrong = || TableError::Line { number: at + 1, text: line.chars().take(60).collect() };
            if let Some(comment) = line.strip_prefix('#') {
                for (key, into) in [("source: ", &mut table.source), ("date: ", &mut table.date)] {
                    if let Some(value) = comment.trim_start().strip_prefix(key) {
                        value.clone_into(into);
                    }
                }
            } else if let Some(region) = line.strip_prefix("region ") {
                let (name, zones) = region.split_once(' ').ok_or_else(wrong)?;
                order.push(name.to_owned());
                table.regions.insert(name.to_owned(), zones.split(',').map(str::to_owned).collect());
            } else if !line.is_empty() {
                let (info, place) = tokens::read(line).ok_or_else(wrong)?;
                let places = match place {
                    Place::Zones(zones) => zones.split(',').map(str::to_owned).collect(),
                    Place::Regions(mask) => {
                        let has = |(bit, _): &(u32, &String)| mask.checked_shr(*bit).unwrap_or(0) & 1 == 1;
                        (0..).zip(&order).filter(has).map(|(_, region)| region.clone()).collect()
                    }
                };
                table.offered.insert(info.name.clone(), places);
                table.types.insert(info.name.clone(), info);
            }
        }
        if table.types.is_empty() { Err(TableError::Empty) } else { Ok(table) }
    }

    /// The table of one region from EC2's answers.
    #[must_use]
    pub fn of_region(
        (source, date): (String, String),
        region: &str,
        types: Vec<InstanceTypeDescription>,
        sold_in: Vec<SoldIn>,
    ) -> Self {
        let mut table = Self { source, date, ..Self::default() };
        for SoldIn { instance_type, zone } in sold_in {
            table.regions.entry(region.to_owned()).or_default().insert(zone.clone());
            table.offered.entry(instance_type).or_default().insert(zone);
        }
        table.types = types.into_iter().map(|info| (info.name.clone(), info)).collect();
        table.offered.retain(|name, _| table.types.contains_key(name));
        table
    }

    /// Writes the part of the table that a region offers, with prices in the form of `fleetwright prices export`.
    #[must_use]
    pub fn write(&self, region: &str, prices: &str) -> String {
        let mut text = format!("{HEADER}\n# source: {}\n# date: {}\n", self.source, self.date);
        let zones = self.zones(region);
        let joined = |zones: &BTreeSet<String>| zones.iter().cloned().collect::<Vec<_>>().join(",");
        if !zones.is_empty() {
            text.push_str(&format!("region {region} {}\n", joined(&zones)));
        }
        for (name, info) in &self.types {
            let here = self.zones_of(name, region, &zones);
            if !here.is_empty() {
                text.push_str(&format!("{} at={}\n", tokens::write(info), joined(&here)));
            }
        }
        text + prices
    }

    /// Sets the prices that come with the instance types, in the form of `fleetwright prices export`.
    pub fn set_prices(&mut self, prices: String) {
        self.prices = prices;
    }

    /// Where the figures come from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The day of the figures, as `2026-01-31`.
    #[must_use]
    pub fn date(&self) -> &str {
        &self.date
    }

    /// The prices that the file has, in the form of `fleetwright prices export`; empty without any.
    #[must_use]
    pub fn prices(&self) -> &str {
        &self.prices
    }

    /// The number of instance types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether it has no instance types.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Whether the table describes an instance type, in whatever region.
    #[must_use]
    pub fn describes(&self, instance_type: &str) -> bool {
        self.types.contains_key(instance_type)
    }

    /// The zones of a region; none if the table does not know the region.
    #[must_use]
    pub fn zones(&self, region: &str) -> BTreeSet<String> {
        self.regions.get(region).cloned().unwrap_or_default()
    }

    /// The instance types that a region offers in `zones`. Where the table has regions and not zones, a region that offers a type offers
    /// it in each zone. For a region that the table does not know, `otherwise` says which types it offers.
    #[must_use]
    pub fn in_region(
        &self,
        region: &str,
        zones: &BTreeSet<String>,
        otherwise: impl Fn(&str) -> bool,
    ) -> InstanceTypeCatalogue {
        let mut catalogue = InstanceTypeCatalogue::default();
        let known = self.regions.contains_key(region);
        for (name, info) in &self.types {
            let here = if known {
                self.zones_of(name, region, zones)
            } else if otherwise(name) {
                zones.clone()
            } else {
                BTreeSet::new()
            };
            if !here.is_empty() {
                catalogue.types.insert(name.clone(), info.clone());
                catalogue.sold_in.insert(name.clone(), here);
            }
        }
        catalogue
    }

    fn zones_of(&self, instance_type: &str, region: &str, zones: &BTreeSet<String>) -> BTreeSet<String> {
        let Some(places) = self.offered.get(instance_type) else { return BTreeSet::new() };
        if places.contains(region) { zones.clone() } else { zones.intersection(places).cloned().collect() }
    }
}

/// The region of a zone: its name up to the first number. `us-west-2` for `us-west-2a` and for the local zone `us-west-2-lax-1a`.
#[must_use]
pub fn region_of_zone(zone: &str) -> Option<&str> {
    let start = zone.find(|c: char| c.is_ascii_digit())?;
    let digits = zone[start..].find(|c: char| !c.is_ascii_digit())?;
    zone[..start].ends_with('-').then(|| &zone[..start + digits])
}
