//! Plausibility of prices: a price far from the previous one of the same instance is ignored until a later answer confirms it.
//!
//! A price that is wrong by an order of magnitude would cause needless launches or evictions. A real change is confirmed by the next
//! answer.

use std::collections::BTreeMap;

use fleetwright_core::model::{Currency, Price};
use jiff::{SignedDuration, Timestamp};

/// A price that differs from the previous one by more than this factor is doubtful.
const JUMP: i128 = 10;
/// How far below the on-demand price a first spot price may be, as a factor: discounts reach slightly more than 90 %.
const FIRST: i128 = 100;
/// The same price after this time is confirmed.
const CONFIRMED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// A price that is not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The instance type, with the zone for a spot price.
    pub place: String,
    /// AWS' price.
    pub reported: Price,
    /// The price that is used until then.
    pub known: Price,
}

/// The price to compare with.
#[derive(Clone, Copy)]
pub(super) enum Reference {
    /// The previous price.
    Known(Price),
    /// Without a previous spot price: the on-demand price.
    OnDemand(Price),
}

impl Reference {
    pub(super) fn price(self) -> Price {
        match self {
            Self::Known(price) | Self::OnDemand(price) => price,
        }
    }

    fn is_near(self, reported: Price) -> bool {
        let (known, reported) = (i128::from(self.price().nanos()), i128::from(reported.nanos()));
        let down = if matches!(self, Self::Known(_)) { JUMP } else { FIRST };
        known == 0 || (reported <= known * JUMP && reported * down >= known)
    }
}

/// The doubtful prices of one market, each with the time of its first occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubts<K>(BTreeMap<K, (Price, Timestamp)>);

impl<K> Default for Doubts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// An answer about one market, divided into accepted and doubtful prices.
pub(super) struct Sifted<K> {
    pub(super) accepted: Vec<(K, Price)>,
    pub(super) doubtful: Vec<Doubt>,
}

impl<K: Ord + Clone> Doubts<K> {
    /// Divides an answer about a market. A price of zero is an error and is ignored.
    pub(super) fn sift(
        &mut self,
        reported: Vec<(K, Price)>,
        now: Timestamp,
        reference: impl Fn(&K) -> Option<Reference>,
        named: impl Fn(&K) -> String,
    ) -> Sifted<K> {
        let mut sifted = Sifted { accepted: Vec::new(), doubtful: Vec::new() };
        for (key, reported) in reported.into_iter().filter(|(_, price)| *price > Price::ZERO) {
            let reference = reference(&key);
            if self.accepts(&key, reported, reference, now) {
                sifted.accepted.push((key, reported));
            } else if let Some(known) = reference {
                sifted.doubtful.push(Doubt { place: named(&key), reported, known: known.price() });
            }
        }
        sifted
    }

    /// Whether the price of `key` is accepted. A doubtful one is stored until another price arrives.
    pub(super) fn accepts(
        &mut self,
        key: &K,
        reported: Price,
        reference: Option<Reference>,
        now: Timestamp,
    ) -> bool {
        if reference.is_none_or(|reference| reference.is_near(reported)) {
            self.0.remove(key);
            return true;
        }
        match self.0.get(key) {
            Some((before, since)) if Reference::Known(*before).is_near(reported) && *since <= now => {
                let confirmed = now.duration_since(*since) >= CONFIRMED_AFTER;
                if confirmed {
                    self.0.remove(key);
                }
                confirmed
            }
            _ => {
                self.0.insert(key.clone(), (reported, now));
                false
            }
        }
    }
}

/// The message about doubtful prices, which are in `currency`.
#[must_use]
pub fn doubts_message(doubts: &[Doubt], currency: Currency) -> String {
    let first = doubts.first().map_or_else(String::new, |doubt| {
        let Doubt { place, reported, known } = doubt;
        let [reported, known] = [reported, known].map(|price| currency.amount(price));
        format!(", the first of {place}: {reported}/h, {known}/h before")
    });
    format!(
        "{} prices differ from the previous ones by more than a factor of {JUMP}{first}; they are used once AWS reports them again",
        doubts.len()
    )
}

#[cfg(test)]
mod tests {
    //! Which prices are doubtful, and for how long.
    use rstest::rstest;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    #[rstest]
    #[case(Some(Reference::Known(Price::from_nanos(100))), 1000, true)]
    #[case(Some(Reference::Known(Price::from_nanos(100))), 1001, false)]
    #[case(Some(Reference::Known(Price::from_nanos(100))), 10, true)]
    #[case(Some(Reference::Known(Price::from_nanos(100))), 9, false)]
    #[case(Some(Reference::OnDemand(Price::from_nanos(1000))), 10, true)]
    #[case(Some(Reference::OnDemand(Price::from_nanos(1000))), 9, false)]
    #[case(Some(Reference::OnDemand(Price::from_nanos(1000))), 10_001, false)]
    #[case(Some(Reference::Known(Price::ZERO)), 5, true)]
    #[case(None, 5, true)]
    fn far_is_doubtful(#[case] reference: Option<Reference>, #[case] reported: i64, #[case] expected: bool) {
        let mut doubts = Doubts::default();
        assert_eq!(doubts.accepts(&"m5", Price::from_nanos(reported), reference, at(0)), expected);
    }

    #[test]
    fn a_price_confirmed_after_an_hour_is_used() {
        let known = Some(Reference::Known(Price::from_nanos(1_000_000)));
        let mut doubts = Doubts::default();
        let mut accepts =
            |reported: i64, minutes| doubts.accepts(&"m5", Price::from_nanos(reported), known, at(minutes));
        assert!(!accepts(1000, 0) && !accepts(1100, 59), "a second look at the same mistake is no proof");
        assert!(!accepts(5, 61), "another mistake");
        assert!(!accepts(1000, 62) && accepts(1200, 122));
        assert!(
            !accepts(1000, 200) && accepts(999_999, 201) && !accepts(1000, 300),
            "it was right in between"
        );
        assert!(!accepts(1000, 10), "a clock that was set back proves nothing");
    }

    #[test]
    fn doubtful_prices_have_a_message() {
        let (reported_price, known) = (Price::from_nanos(100_000), Price::from_nanos(96_000_000));
        let doubt = Doubt { place: "m5.large".to_owned(), reported: reported_price, known };
        assert_eq!(
            doubts_message(&[doubt.clone(), doubt], Currency::USD),
            "2 prices differ from the previous ones by more than a factor of 10, the first of m5.large: $0.0001/h, \
             $0.096/h before; they are used once AWS reports them again"
        );
    }
}
