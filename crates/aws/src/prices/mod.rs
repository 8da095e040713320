//! Prices of instance types: what AWS told last, over tables for where it tells nothing.

mod file;
mod kept;
mod trust;

use std::collections::BTreeMap;

use fleetwright_core::model::Price;
use jiff::Timestamp;

pub use file::{FileError, parse, write};
pub use kept::keep;
pub use trust::{Doubt, told};

use trust::{Doubts, Reference, Sifted};

/// What AWS tells of one market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// On demand, by instance type.
    OnDemand(Vec<(String, Price)>),
    /// On the spot market, by instance type and zone.
    Spot(Vec<((String, String), Price)>),
}

/// Prices of one region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    on_demand: BTreeMap<String, Price>,
    /// By instance type and zone; `None` until AWS has told them once.
    spot: Option<BTreeMap<(String, String), Price>>,
    /// When AWS told them last; `None` where they are of a table or a file, which do not age.
    on_demand_told: Option<Timestamp>,
    spot_told: Option<Timestamp>,
    doubts: Doubts<String>,
    spot_doubts: Doubts<(String, String)>,
    version: u64,
}

/// The tables that come with the program, for regions and partitions whose prices cannot be asked for.
const STATIC: &str = include_str!("../../data/prices.txt");
/// The region whose table stands for those without one.
const FALLBACK: &str = "us-east-1";

impl Prices {
    /// The tables' prices for a region.
    #[must_use]
    pub fn of_region(region: &str) -> Self {
        let mut tables = file::sections(STATIC);
        let table = tables.remove(region).or_else(|| tables.remove(FALLBACK)).unwrap_or_default();
        Self { on_demand: table, ..Self::default() }
    }

    /// The price on demand, the same in every zone.
    #[must_use]
    pub fn on_demand(&self, instance_type: &str) -> Option<Price> {
        self.on_demand.get(instance_type).copied()
    }

    /// The price on the spot market of a zone. Until AWS has told any, the price on demand; after that, a zone without a
    /// price does not sell the type.
    #[must_use]
    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<Price> {
        match &self.spot {
            None => self.on_demand(instance_type),
            Some(spot) => spot.get(&(instance_type.to_owned(), zone.to_owned())).copied(),
        }
    }

    /// The price of reserved capacity, which is paid for already: above nothing, below everything else, and in the order of
    /// the prices on demand.
    #[must_use]
    pub fn reserved(&self, instance_type: &str) -> Price {
        let nanos = self.on_demand(instance_type).map_or(0, Price::nanos);
        Price::from_nanos(nanos / 10_000_000)
    }

    /// Lays what AWS tells over what is known. Types of which it tells nothing keep their price; a free instance is a
    /// mistake and passed over. Returns whether anything changed.
    pub fn update_on_demand(&mut self, told: impl IntoIterator<Item = (String, Price)>) -> bool {
        let mut changed = false;
        for (instance_type, price) in told.into_iter().filter(|(_, price)| *price > Price::ZERO) {
            changed |= self.on_demand.insert(instance_type, price) != Some(price);
        }
        self.version += u64::from(changed);
        changed
    }

    /// Lays spot prices, by instance type and zone, over what is known. An answer without any changes nothing.
    pub fn update_spot(&mut self, told: impl IntoIterator<Item = ((String, String), Price)>) -> bool {
        let told: Vec<_> = told.into_iter().filter(|(_, price)| *price > Price::ZERO).collect();
        if told.is_empty() {
            return false;
        }
        let mut changed = self.spot.is_none();
        let spot = self.spot.get_or_insert_default();
        for (place, price) in told {
            changed |= spot.insert(place, price) != Some(price);
        }
        self.version += u64::from(changed);
        changed
    }

    /// Takes what AWS tells of a market, but for what is not believed, which comes back. An answer without any price is none.
    #[must_use]
    pub fn tell(&mut self, told: Told, now: Timestamp) -> Vec<Doubt> {
        let (on_demand, spot) = (&self.on_demand, self.spot.as_ref());
        let full = |name: &String| on_demand.get(name).copied();
        match told {
            Told::OnDemand(told) => {
                let reference = |name: &String| full(name).map(Reference::Known);
                let Sifted { believed, doubtful } =
                    self.doubts.sift(told, now, reference, |name| name.clone());
                if !(believed.is_empty() && doubtful.is_empty()) {
                    self.on_demand_told = Some(now);
                }
                self.update_on_demand(believed);
                doubtful
            }
            Told::Spot(told) => {
                let reference = |place: &(String, String)| {
                    let before = spot.and_then(|spot| spot.get(place)).map(|known| Reference::Known(*known));
                    before.or_else(|| full(&place.0).map(Reference::OnDemand))
                };
                let Sifted { believed, doubtful } =
                    self.spot_doubts.sift(told, now, reference, |(name, zone)| format!("{name} in {zone}"));
                if !(believed.is_empty() && doubtful.is_empty()) {
                    self.spot_told = Some(now);
                }
                self.update_spot(believed);
                doubtful
            }
        }
    }

    /// When AWS told the older ones of its prices; `None` where it never told any.
    #[must_use]
    pub fn as_of(&self) -> Option<Timestamp> {
        self.on_demand_told.into_iter().chain(self.spot_told).min()
    }

    /// Lays the prices of a file over what is known.
    pub fn lay(&mut self, file: Self) {
        self.update_on_demand(file.on_demand);
        self.update_spot(file.spot.unwrap_or_default());
    }

    /// Changes whenever a price changes.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// The region whose endpoint answers for the prices of `region`; `None` where none does.
#[must_use]
pub fn pricing_region(region: &str, isolated_vpc: bool) -> Option<&'static str> {
    if isolated_vpc || region.starts_with("us-gov-") || region.starts_with("us-iso") {
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
    //! Which price counts.
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
        assert_ne!(Prices::of_region("cn-north-1"), home);
        assert_eq!(home.on_demand("m99.large"), None);
    }

    #[test]
    fn spot_falls_back_until_told() {
        let mut prices = Prices::of_region("us-east-1");
        assert_eq!(prices.spot("m5.large", "a"), Some(price(0.096)));
        assert!(!prices.update_spot([]), "no answer is no news");
        assert!(prices.update_spot([(("m5.large".to_owned(), "a".to_owned()), price(0.03))]));
        assert_eq!(prices.spot("m5.large", "a"), Some(price(0.03)));
        assert_eq!(prices.spot("m5.large", "b"), None, "a zone without a price does not sell");
        assert!(!prices.update_spot([(("m5.large".to_owned(), "a".to_owned()), price(0.03))]));
    }

    #[test]
    fn news_are_laid_over_what_is_known() {
        let mut prices = Prices::of_region("us-east-1");
        let version = prices.version();
        assert!(
            prices.update_on_demand([
                ("m5.large".to_owned(), price(0.2)),
                ("c5.large".to_owned(), Price::ZERO)
            ])
        );
        assert_eq!(prices.on_demand("m5.large"), Some(price(0.2)));
        assert_eq!(prices.on_demand("c5.large"), Some(price(0.085)), "nothing is free");
        assert!(prices.version() > version);
        assert_eq!(prices.reserved("m5.large"), Price::from_nanos(20));
        assert_eq!(prices.reserved("m99.large"), Price::ZERO);
    }

    #[test]
    fn what_is_far_off_waits_until_it_is_told_again() {
        let at = |hours: i64| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(hours);
        let mut prices = Prices::of_region("us-east-1");
        assert_eq!(prices.as_of(), None, "tables do not age");
        let wrong = |dollars: f64| {
            let told = [("m5.large", dollars), ("c5.large", 0.09)];
            Told::OnDemand(told.map(|(name, dollars)| (name.to_owned(), price(dollars))).into())
        };
        let doubts = prices.tell(wrong(0.000_096), at(0));
        assert_eq!((doubts.len(), &*doubts[0].place, doubts[0].known), (1, "m5.large", price(0.096)));
        assert_eq!(
            (prices.on_demand("m5.large"), prices.on_demand("c5.large")),
            (Some(price(0.096)), Some(price(0.09)))
        );
        assert!(prices.tell(wrong(0.000_096), at(12)).is_empty(), "it is so");
        assert_eq!(prices.on_demand("m5.large"), Some(price(0.000_096)));
        let place = |zone: &str| ("c5.large".to_owned(), zone.to_owned());
        let spot = [(place("a"), price(0.03)), (place("b"), price(0.000_03)), (place("c"), price(3.0))];
        let doubts = prices.tell(Told::Spot(spot.into()), at(13));
        let places: Vec<&str> = doubts.iter().map(|doubt| &*doubt.place).collect();
        assert_eq!(places, ["c5.large in b", "c5.large in c"]);
        assert_eq!((prices.spot("c5.large", "a"), prices.spot("c5.large", "b")), (Some(price(0.03)), None));
        assert_eq!(prices.tell(Told::Spot(vec![(place("a"), price(0.4))]), at(14)).len(), 1);
        assert_eq!(prices.spot("c5.large", "a"), Some(price(0.03)));
        assert_eq!(prices.as_of(), Some(at(12)), "the older of both");
        for nothing in [Told::OnDemand(Vec::new()), Told::Spot(vec![(place("a"), Price::ZERO)])] {
            assert!(prices.tell(nothing, at(20)).is_empty() && prices.as_of() == Some(at(12)), "no answer");
        }
    }

    #[test]
    fn a_file_is_laid_over_the_tables() {
        let mut prices = Prices::of_region("us-east-1");
        let file = parse("[here]\nm5.large 0.2\nm5.large a 0.1\n", "here").unwrap();
        prices.lay(file);
        assert_eq!(prices.on_demand("m5.large"), Some(price(0.2)));
        assert_eq!(prices.spot("m5.large", "a"), Some(price(0.1)));
        assert_eq!(prices.on_demand("c5.large"), Some(price(0.085)), "what the file lacks stays");
        assert_eq!(prices.version(), 2);
    }

    #[rstest]
    #[case("us-west-2", false, Some("us-east-1"))]
    #[case("ap-east-1", false, Some("ap-south-1"))]
    #[case("cn-north-1", false, Some("cn-northwest-1"))]
    #[case("eu-west-1", false, Some("eu-central-1"))]
    #[case("sa-east-1", false, Some("us-east-1"))]
    #[case("us-gov-west-1", false, None)]
    #[case("us-west-2", true, None)]
    fn who_tells_prices(#[case] region: &str, #[case] isolated: bool, #[case] expected: Option<&str>) {
        assert_eq!(pricing_region(region, isolated), expected);
    }
}
