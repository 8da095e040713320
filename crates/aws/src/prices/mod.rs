//! Prices of instance types: AWS' last answers, and built-in tables for prices that AWS does not return.

mod file;
mod kept;
mod offline;
mod product;
mod trust;

use std::collections::BTreeMap;

use fleetwright_core::model::{Currency, Price};
use jiff::Timestamp;

pub use file::{FileError, parse, write};
pub use kept::keep;
pub use offline::BUILT_IN_DATE;
pub use product::product;
pub use trust::{Doubt, doubts_message};

use trust::{Doubts, Reference, Sifted};

/// AWS' answer about one market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarketPrices {
    /// On-demand prices by instance type.
    OnDemand(Vec<(String, Price)>),
    /// Spot prices by instance type and zone.
    Spot(Vec<((String, String), Price)>),
}

/// The prices of one region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    on_demand: BTreeMap<String, Price>,
    /// By instance type and zone; `None` until AWS' first answer.
    spot: Option<BTreeMap<(String, String), Price>>,
    /// When AWS answered last; `None` for prices of a table or a file, which do not age.
    on_demand_reported_at: Option<Timestamp>,
    spot_reported_at: Option<Timestamp>,
    doubts: Doubts<String>,
    spot_doubts: Doubts<(String, String)>,
    version: u64,
}

/// The built-in tables, for regions and partitions without a price API.
const STATIC: &str = include_str!("../../data/prices.txt");
/// The region whose table is used for regions without one.
const FALLBACK: &str = "us-east-1";
/// The same for regions of China, where prices are in yuan.
const FALLBACK_OF_CHINA: &str = "cn-north-1";

impl Prices {
    /// The prices of a region by the built-in tables.
    #[must_use]
    pub fn of_region(region: &str) -> Self {
        let mut tables = file::sections(STATIC);
        let fallback = if is_of_china(region) { FALLBACK_OF_CHINA } else { FALLBACK };
        let table = tables.remove(region).or_else(|| tables.remove(fallback)).unwrap_or_default();
        Self { on_demand: table, ..Self::default() }
    }

    /// The on-demand price, which is the same in every zone.
    #[must_use]
    pub fn on_demand(&self, instance_type: &str) -> Option<Price> {
        self.on_demand.get(instance_type).copied()
    }

    /// The spot price in a zone. Before AWS' first answer it is the on-demand price; afterwards, a zone without a price does not offer
    /// the type.
    #[must_use]
    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<Price> {
        match &self.spot {
            None => self.on_demand(instance_type),
            Some(spot) => spot.get(&(instance_type.to_owned(), zone.to_owned())).copied(),
        }
    }

    /// The price of reserved capacity, which is already paid for: above zero, below all other prices, and in the order of the on-demand
    /// prices.
    #[must_use]
    pub fn reserved(&self, instance_type: &str) -> Price {
        let nanos = self.on_demand(instance_type).map_or(0, Price::nanos);
        Price::from_nanos(nanos / 10_000_000)
    }

    /// Merges on-demand prices of AWS. Types without a new price keep theirs; a price of zero is an error and is ignored. Returns whether
    /// any price changed.
    pub fn update_on_demand(&mut self, reported: impl IntoIterator<Item = (String, Price)>) -> bool {
        let mut changed = false;
        for (instance_type, price) in reported.into_iter().filter(|(_, price)| *price > Price::ZERO) {
            changed |= self.on_demand.insert(instance_type, price) != Some(price);
        }
        self.version += u64::from(changed);
        changed
    }

    /// Merges spot prices, by instance type and zone. An empty answer changes nothing.
    pub fn update_spot(&mut self, reported: impl IntoIterator<Item = ((String, String), Price)>) -> bool {
        let reported: Vec<_> = reported.into_iter().filter(|(_, price)| *price > Price::ZERO).collect();
        if reported.is_empty() {
            return false;
        }
        let mut changed = self.spot.is_none();
        let spot = self.spot.get_or_insert_default();
        for (place, price) in reported {
            changed |= spot.insert(place, price) != Some(price);
        }
        self.version += u64::from(changed);
        changed
    }

    /// Applies AWS' answer about a market, except for doubtful prices, which are returned. An empty answer counts as no answer.
    #[must_use]
    pub fn apply(&mut self, reported: MarketPrices, now: Timestamp) -> Vec<Doubt> {
        let (on_demand, spot) = (&self.on_demand, self.spot.as_ref());
        let full = |name: &String| on_demand.get(name).copied();
        match reported {
            MarketPrices::OnDemand(reported) => {
                let reference = |name: &String| full(name).map(Reference::Known);
                let Sifted { accepted, doubtful } =
                    self.doubts.sift(reported, now, reference, |name| name.clone());
                if !(accepted.is_empty() && doubtful.is_empty()) {
                    self.on_demand_reported_at = Some(now);
                }
                self.update_on_demand(accepted);
                doubtful
            }
            MarketPrices::Spot(reported) => {
                let reference = |place: &(String, String)| {
                    let before = spot.and_then(|spot| spot.get(place)).map(|known| Reference::Known(*known));
                    before.or_else(|| full(&place.0).map(Reference::OnDemand))
                };
                let Sifted { accepted, doubtful } =
                    self.spot_doubts
                        .sift(reported, now, reference, |(name, zone)| format!("{name} in {zone}"));
                if !(accepted.is_empty() && doubtful.is_empty()) {
                    self.spot_reported_at = Some(now);
                }
                self.update_spot(accepted);
                doubtful
            }
        }
    }

    /// The time of the older of the two answers; `None` without any.
    #[must_use]
    pub fn as_of(&self) -> Option<Timestamp> {
        self.on_demand_reported_at.into_iter().chain(self.spot_reported_at).min()
    }

    /// Merges the prices of a file.
    pub fn merge_file(&mut self, file: Self) {
        self.update_on_demand(file.on_demand);
        self.update_spot(file.spot.unwrap_or_default());
    }

    /// A version that changes with every price.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// What the prices of a region are in.
#[must_use]
pub fn currency(region: &str) -> Currency {
    if is_of_china(region) { Currency::CNY } else { Currency::USD }
}

fn is_of_china(region: &str) -> bool {
    region.starts_with("cn-")
}

/// The region whose endpoint has the prices of `region`; `None` without one.
#[must_use]
pub fn pricing_region(region: &str, isolated_vpc: bool) -> Option<&'static str> {
    // Partitions without an endpoint; credentials of one partition are refused by the others.
    let apart = region.starts_with("us-gov-") || region.starts_with("eusc-") || region.contains("-iso");
    if isolated_vpc || apart {
        return None;
    }
    Some(match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    })
}

#[cfg(test)]
mod tests {
    //! Which price is used.
    use rstest::rstest;

    use super::*;

    fn price(dollars: f64) -> Price {
        Price::from_dollars(dollars).unwrap()
    }

    #[test]
    fn tables_know_their_regions() {
        let home = Prices::of_region("us-east-1");
        assert_eq!(home.on_demand("m5.large"), Some(price(0.096)));
        assert_eq!(Prices::of_region("eu-north-1"), home, "regions without a table have the first one's");
        let china = Prices::of_region("cn-north-1");
        assert_ne!(china, home);
        assert_eq!(Prices::of_region("cn-northwest-1"), china, "in the same currency");
        assert_eq!(home.on_demand("m99.large"), None);
    }

    #[test]
    fn prices_of_china_are_in_yuan() {
        for (region, expected) in [
            ("cn-northwest-1", Currency::CNY),
            ("ca-central-1", Currency::USD),
            ("us-gov-west-1", Currency::USD),
        ] {
            assert_eq!(currency(region), expected, "{region}");
        }
    }

    #[test]
    fn spot_prices_fall_back_until_the_first_answer() {
        let mut prices = Prices::of_region("us-east-1");
        assert_eq!(prices.spot("m5.large", "a"), Some(price(0.096)));
        assert!(!prices.update_spot([]), "an empty answer changes nothing");
        assert!(prices.update_spot([(("m5.large".to_owned(), "a".to_owned()), price(0.03))]));
        assert_eq!(prices.spot("m5.large", "a"), Some(price(0.03)));
        assert_eq!(prices.spot("m5.large", "b"), None, "a zone without a price has no offering");
        assert!(!prices.update_spot([(("m5.large".to_owned(), "a".to_owned()), price(0.03))]));
    }

    #[test]
    fn answers_are_merged_into_known_prices() {
        let mut prices = Prices::of_region("us-east-1");
        let version = prices.version();
        assert!(
            prices.update_on_demand([
                ("m5.large".to_owned(), price(0.2)),
                ("c5.large".to_owned(), Price::ZERO)
            ])
        );
        assert_eq!(prices.on_demand("m5.large"), Some(price(0.2)));
        assert_eq!(prices.on_demand("c5.large"), Some(price(0.085)), "a price of zero is ignored");
        assert!(prices.version() > version);
        assert_eq!(prices.reserved("m5.large"), Price::from_nanos(20));
        assert_eq!(prices.reserved("m99.large"), Price::ZERO);
    }

    #[test]
    fn a_doubtful_price_awaits_confirmation() {
        let at = |hours: i64| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(hours);
        let mut prices = Prices::of_region("us-east-1");
        assert_eq!(prices.as_of(), None, "tables do not age");
        let wrong = |dollars: f64| {
            let reported = [("m5.large", dollars), ("c5.large", 0.09)];
            MarketPrices::OnDemand(reported.map(|(name, dollars)| (name.to_owned(), price(dollars))).into())
        };
        let doubts = prices.apply(wrong(0.000_096), at(0));
        assert_eq!((doubts.len(), &*doubts[0].place, doubts[0].known), (1, "m5.large", price(0.096)));
        assert_eq!(
            (prices.on_demand("m5.large"), prices.on_demand("c5.large")),
            (Some(price(0.096)), Some(price(0.09)))
        );
        assert!(prices.apply(wrong(0.000_096), at(12)).is_empty(), "confirmed by the second answer");
        assert_eq!(prices.on_demand("m5.large"), Some(price(0.000_096)));
        let place = |zone: &str| ("c5.large".to_owned(), zone.to_owned());
        let spot = [(place("a"), price(0.03)), (place("b"), price(0.000_03)), (place("c"), price(3.0))];
        let doubts = prices.apply(MarketPrices::Spot(spot.into()), at(13));
        let places: Vec<&str> = doubts.iter().map(|doubt| &*doubt.place).collect();
        assert_eq!(places, ["c5.large in b", "c5.large in c"]);
        assert_eq!((prices.spot("c5.large", "a"), prices.spot("c5.large", "b")), (Some(price(0.03)), None));
        assert_eq!(prices.apply(MarketPrices::Spot(vec![(place("a"), price(0.4))]), at(14)).len(), 1);
        assert_eq!(prices.spot("c5.large", "a"), Some(price(0.03)));
        assert_eq!(prices.as_of(), Some(at(12)), "the older of both");
        for nothing in
            [MarketPrices::OnDemand(Vec::new()), MarketPrices::Spot(vec![(place("a"), Price::ZERO)])]
        {
            assert!(prices.apply(nothing, at(20)).is_empty() && prices.as_of() == Some(at(12)), "no answer");
        }
    }

    #[test]
    fn a_file_overrides_the_tables() {
        let mut prices = Prices::of_region("us-east-1");
        let file = parse("[here]\nm5.large 0.2\nm5.large a 0.1\n", "here").unwrap();
        prices.merge_file(file);
        assert_eq!(prices.on_demand("m5.large"), Some(price(0.2)));
        assert_eq!(prices.spot("m5.large", "a"), Some(price(0.1)));
        assert_eq!(prices.on_demand("c5.large"), Some(price(0.085)), "prices that the file lacks remain");
        assert_eq!(prices.version(), 2);
    }

    #[rstest]
    #[case("us-west-2", false, Some("us-east-1"))]
    #[case("ap-east-1", false, Some("ap-south-1"))]
    #[case("cn-north-1", false, Some("cn-northwest-1"))]
    #[case("eu-west-1", false, Some("eu-central-1"))]
    #[case("sa-east-1", false, Some("us-east-1"))]
    #[case("us-gov-west-1", false, None)]
    #[case("us-isob-east-1", false, None)]
    #[case("eu-isoe-west-1", false, None)]
    #[case("eusc-de-east-1", false, None)]
    #[case("us-west-2", true, None)]
    fn who_tells_prices(#[case] region: &str, #[case] isolated: bool, #[case] expected: Option<&str>) {
        assert_eq!(pricing_region(region, isolated), expected);
    }
}
