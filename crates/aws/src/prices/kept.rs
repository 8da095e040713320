//! Prices across restarts: AWS' last answers in an annotation of an EC2NodeClass, for a process that starts while AWS does not answer.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::Price;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Prices;

/// The prices of a region. All amounts are nano-dollars per hour; zero means none.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Kept {
    region: String,
    /// Seconds since 1970 of AWS' last answer; `None` without one.
    #[serde(rename = "onDemandTold")]
    on_demand_reported_at: Option<i64>,
    #[serde(rename = "spotTold")]
    spot_reported_at: Option<i64>,
    zones: Vec<String>,
    /// By instance type: the on-demand price, then the spot price in each of `zones`.
    prices: BTreeMap<String, Vec<i64>>,
}

/// AWS' last answers as text of at most `max` bytes. Spot prices are stored completely or not at all: a zone without a price has no
/// offering. `None` if AWS has not answered, or the text is too long.
#[must_use]
pub fn keep(prices: &Prices, region: &str, max: usize) -> Option<String> {
    let write = |with_spot: bool| {
        let spot = prices.spot.as_ref().filter(|_| with_spot && prices.spot_reported_at.is_some());
        let zones: BTreeSet<&String> = spot.into_iter().flatten().map(|((_, zone), _)| zone).collect();
        let zones: Vec<String> = zones.into_iter().cloned().collect();
        let mut kept = Kept {
            region: region.to_owned(),
            on_demand_reported_at: prices.on_demand_reported_at.map(Timestamp::as_second),
            spot_reported_at: spot.and(prices.spot_reported_at).map(Timestamp::as_second),
            zones: zones.clone(),
            prices: BTreeMap::new(),
        };
        if prices.on_demand_reported_at.is_some() {
            let on_demand = prices.on_demand.iter().map(|(name, price)| (name.clone(), vec![price.nanos()]));
            kept.prices.extend(on_demand);
        }
        for ((name, zone), price) in spot.into_iter().flatten() {
            let row = kept.prices.entry(name.clone()).or_default();
            row.resize(1 + zones.len(), 0);
            if let Some(cell) =
                zones.iter().position(|known| known == zone).and_then(|at| row.get_mut(1 + at))
            {
                *cell = price.nanos();
            }
        }
        serde_json::to_string(&kept).ok().filter(|text| text.len() <= max)
    };
    prices.as_of()?;
    write(true).or_else(|| prices.on_demand_reported_at.and_then(|_| write(false)))
}

impl Prices {
    /// Merges the stored prices of an earlier process, if they are of this region, newer, and not from the future. Returns whether any
    /// price changed; invalid text changes nothing.
    pub fn restore(&mut self, text: &str, region: &str, now: Timestamp) -> bool {
        let Ok(kept) = serde_json::from_str::<Kept>(text) else { return false };
        if kept.region != region {
            return false;
        }
        let version = self.version;
        let newer = |reported_at: Option<i64>, known: Option<Timestamp>| {
            let reported_at = reported_at.and_then(|second| Timestamp::from_second(second).ok())?;
            (reported_at <= now && known.is_none_or(|known| known < reported_at)).then_some(reported_at)
        };
        let row = |(name, row): (&String, &Vec<i64>)| Some((name.clone(), Price::from_nanos(*row.first()?)));
        if let Some(reported_at) = newer(kept.on_demand_reported_at, self.on_demand_reported_at)
            && let Some(reported) = priced(kept.prices.iter().filter_map(row))
        {
            self.update_on_demand(reported);
            self.on_demand_reported_at = Some(reported_at);
        }
        let places = kept.prices.iter().flat_map(|(name, row)| {
            let cells = kept.zones.iter().zip(row.iter().skip(1));
            cells.map(move |(zone, nanos)| ((name.clone(), zone.clone()), Price::from_nanos(*nanos)))
        });
        if let Some(reported_at) = newer(kept.spot_reported_at, self.spot_reported_at)
            && let Some(reported) = priced(places)
        {
            self.update_spot(reported);
            self.spot_reported_at = Some(reported_at);
        }
        self.version != version
    }
}

/// The prices above zero; `None` without any, which is no answer of AWS.
fn priced<K>(all: impl Iterator<Item = (K, Price)>) -> Option<Vec<(K, Price)>> {
    let priced: Vec<_> = all.filter(|(_, price)| *price > Price::ZERO).collect();
    (!priced.is_empty()).then_some(priced)
}

#[cfg(test)]
mod tests {
    //! The round trip.
    use super::*;
    use crate::prices::MarketPrices;

    const MAX: usize = 4096;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn place(name: &str, zone: &str) -> (String, String) {
        (name.to_owned(), zone.to_owned())
    }

    fn reported_prices() -> Prices {
        let mut prices = Prices::default();
        let cents = |count: i64| Price::from_nanos(count * 10_000_000);
        let on_demand = [("m5.large".to_owned(), cents(10)), ("c5.large".to_owned(), cents(9))];
        let _ = prices.apply(MarketPrices::OnDemand(on_demand.into()), at(100));
        let spot = [
            (place("m5.large", "a"), cents(4)),
            (place("m5.large", "c"), cents(5)),
            (place("c5.large", "b"), cents(3)),
        ];
        let _ = prices.apply(MarketPrices::Spot(spot.into()), at(200));
        prices
    }

    #[test]
    fn stored_prices_are_restored() {
        let text = keep(&reported_prices(), "here", MAX).unwrap();
        let mut fresh = Prices::default();
        assert!(fresh.restore(&text, "here", at(300)));
        let (on_demand, spot) = (reported_prices().on_demand, reported_prices().spot);
        assert_eq!((&fresh.on_demand, &fresh.spot), (&on_demand, &spot));
        assert_eq!(
            (fresh.as_of(), fresh.on_demand_reported_at, fresh.spot_reported_at),
            (Some(at(100)), Some(at(100)), Some(at(200)))
        );
        assert!(!fresh.restore(&text, "here", at(300)), "the text is not newer");
        assert_eq!(keep(&fresh, "here", MAX), Some(text));
    }

    #[test]
    fn newer_prices_remain() {
        let text = keep(&reported_prices(), "here", MAX).unwrap();
        let mut newer = Prices::default();
        let _ =
            newer.apply(MarketPrices::OnDemand(vec![("m5.large".to_owned(), Price::from_nanos(7))]), at(150));
        assert!(newer.restore(&text, "here", at(300)), "the spot prices are newer");
        assert_eq!(newer.on_demand("m5.large"), Some(Price::from_nanos(7)));
        assert_eq!(newer.as_of(), Some(at(150)));
    }

    #[test]
    fn invalid_text_and_other_regions_change_nothing() {
        let text = keep(&reported_prices(), "here", MAX).unwrap();
        let mut fresh = Prices::default();
        for (text, region, now) in [
            (&*text, "there", 300),
            ("", "here", 300),
            ("{\"prices\":{\"a\":\"b\"}}", "here", 300),
            (&*text, "here", 50),
        ] {
            assert!(!fresh.restore(text, region, at(now)), "{text}");
        }
        assert_eq!(fresh, Prices::default());
        // Truncated, negative or surplus figures are ignored.
        let odd = r#"{"region":"here","onDemandTold":1,"spotTold":1,"zones":["a"],"prices":{"x":[],"y":[-5,-6],"z":[7,8,9]}}"#;
        assert!(fresh.restore(odd, "here", at(300)));
        assert_eq!((fresh.on_demand.len(), fresh.spot("z", "a")), (1, Some(Price::from_nanos(8))));
    }

    /// A market without any price has no answer, whose time would be that of no price.
    #[test]
    fn a_market_without_a_price_has_no_answer() {
        let mut fresh = Prices::default();
        for text in [
            r#"{"region":"here","onDemandTold":1,"spotTold":1}"#,
            r#"{"region":"here","onDemandTold":1,"spotTold":1,"zones":["a"],"prices":{"x":[0,0],"y":[-1],"z":[]}}"#,
        ] {
            assert!(!fresh.restore(text, "here", at(300)), "{text}");
            assert_eq!(fresh, Prices::default(), "{text}");
        }
        let spot_only =
            r#"{"region":"here","onDemandTold":1,"spotTold":2,"zones":["a"],"prices":{"x":[0,5]}}"#;
        assert!(fresh.restore(spot_only, "here", at(300)));
        assert_eq!((fresh.on_demand_reported_at, fresh.spot_reported_at), (None, Some(at(2))));
    }

    #[test]
    fn long_texts_omit_spot_and_unanswered_prices_are_not_stored() {
        let whole = keep(&reported_prices(), "here", MAX).unwrap();
        let text = keep(&reported_prices(), "here", whole.len() - 1).unwrap();
        let mut fresh = Prices::default();
        assert!(fresh.restore(&text, "here", at(300)));
        assert_eq!(
            (fresh.spot("m5.large", "b"), fresh.spot_reported_at),
            (fresh.on_demand("m5.large"), None)
        );
        assert_eq!(keep(&reported_prices(), "here", 10), None);
        assert_eq!(keep(&Prices::of_region("us-east-1"), "us-east-1", MAX), None);
    }
}
