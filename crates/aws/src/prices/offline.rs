//! Prices for tools without a connection to AWS: only those that are known, and spot prices by an assumption that the caller states.

use super::{FALLBACK, Prices, STATIC, file};
use fleetwright_core::model::Price;

/// The day on which the built-in tables were taken from the price list's public copies.
pub const BUILT_IN_DATE: &str = "2026-11-21";

impl Prices {
    /// The built-in list prices of a region; `None` if there are none.
    #[must_use]
    pub fn built_in(region: &str) -> Option<Self> {
        let on_demand = file::sections(STATIC).remove(region)?;
        Some(Self { on_demand, ..Self::default() })
    }

    /// The regions with built-in list prices, the one that stands in for others first.
    #[must_use]
    pub fn built_in_regions() -> Vec<String> {
        let mut regions: Vec<String> = file::sections(STATIC).into_keys().collect();
        regions.sort_by_key(|region| region != FALLBACK);
        regions
    }

    /// Whether any on-demand price is known.
    #[must_use]
    pub fn has_on_demand(&self) -> bool {
        !self.on_demand.is_empty()
    }

    /// Whether spot prices are known.
    #[must_use]
    pub fn has_spot(&self) -> bool {
        self.spot.is_some()
    }

    /// Assumes spot prices that are `percent` below the on-demand prices, in each zone alike.
    pub fn assume_spot<'a>(&mut self, percent: u8, zones: impl IntoIterator<Item = &'a String>) {
        let rest = i128::from(100_u8.saturating_sub(percent));
        let discounted = |price: &Price| {
            let nanos = i128::from(price.nanos()) * rest / 100;
            Price::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
        };
        let assumed: Vec<_> = zones
            .into_iter()
            .flat_map(|zone| self.on_demand.iter().map(move |(name, price)| (name, zone, price)))
            .map(|(name, zone, price)| ((name.clone(), zone.clone()), discounted(price)))
            .collect();
        self.update_spot(assumed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_without_a_table_has_no_prices() {
        assert_eq!(Prices::built_in("eu-central-1"), None);
        let regions = Prices::built_in_regions();
        assert_eq!(regions, ["us-east-1", "cn-north-1", "us-gov-east-1", "us-gov-west-1"]);
        assert!(regions.iter().all(|region| Prices::built_in(region).unwrap().has_on_demand()));
    }

    #[test]
    fn spot_is_a_share_of_on_demand() {
        let mut prices = Prices::built_in("us-east-1").unwrap();
        assert!(!prices.has_spot());
        prices.assume_spot(60, &["us-east-1a".to_owned()]);
        let full = prices.on_demand("m5.large").unwrap();
        assert_eq!(prices.spot("m5.large", "us-east-1a"), Some(Price::from_nanos(full.nanos() / 10 * 4)));
        assert_eq!(prices.spot("m5.large", "us-east-1b"), None);
    }
}
