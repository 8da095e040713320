//! Which prices are believed: one that is far from what the same instance cost before is a mistake until it is told again.
//!
//! A price that is wrong by an order of magnitude would have instances bought, or pods moved, for nothing. A price that did
//! change by so much is told again with the next round.

use std::collections::BTreeMap;

use fleetwright_core::model::Price;
use jiff::{SignedDuration, Timestamp};

/// More than so many times what was told before, or less than that part of it, is doubtful.
const JUMP: i128 = 10;
/// How far down a first spot price may be from the price on demand: discounts go to nine tenths and a little more.
const FIRST: i128 = 100;
/// What is told again after so long is believed.
const CONFIRMED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// A price that is not believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The instance type, and the zone on the spot market.
    pub place: String,
    /// What is told.
    pub told: Price,
    /// What counts until it is told again.
    pub known: Price,
}

/// With what a price is compared.
#[derive(Clone, Copy)]
pub(super) enum Reference {
    /// What was known of the same instance.
    Known(Price),
    /// Nothing was known of it on the spot market; this is what it costs on demand.
    OnDemand(Price),
}

impl Reference {
    pub(super) fn price(self) -> Price {
        match self {
            Self::Known(price) | Self::OnDemand(price) => price,
        }
    }

    fn is_near(self, told: Price) -> bool {
        let (known, told) = (i128::from(self.price().nanos()), i128::from(told.nanos()));
        let down = if matches!(self, Self::Known(_)) { JUMP } else { FIRST };
        known == 0 || (told <= known * JUMP && told * down >= known)
    }
}

/// What is doubtful in one market, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubts<K>(BTreeMap<K, (Price, Timestamp)>);

impl<K> Default for Doubts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// What is told of one market, by whether it is believed.
pub(super) struct Sifted<K> {
    pub(super) believed: Vec<(K, Price)>,
    pub(super) doubtful: Vec<Doubt>,
}

impl<K: Ord + Clone> Doubts<K> {
    /// Sorts what is told of a market. A free instance is a mistake and passed over.
    pub(super) fn sift(
        &mut self,
        told: Vec<(K, Price)>,
        now: Timestamp,
        reference: impl Fn(&K) -> Option<Reference>,
        named: impl Fn(&K) -> String,
    ) -> Sifted<K> {
        let mut sifted = Sifted { believed: Vec::new(), doubtful: Vec::new() };
        for (key, told) in told.into_iter().filter(|(_, price)| *price > Price::ZERO) {
            let reference = reference(&key);
            if self.believes(&key, told, reference, now) {
                sifted.believed.push((key, told));
            } else if let Some(known) = reference {
                sifted.doubtful.push(Doubt { place: named(&key), told, known: known.price() });
            }
        }
        sifted
    }

    /// Whether `told` is believed of `key`. One that is not is kept in mind, until another price is told of it.
    pub(super) fn believes(
        &mut self,
        key: &K,
        told: Price,
        reference: Option<Reference>,
        now: Timestamp,
    ) -> bool {
        if reference.is_none_or(|reference| reference.is_near(told)) {
            self.0.remove(key);
            return true;
        }
        match self.0.get(key) {
            Some((before, since)) if Reference::Known(*before).is_near(told) && *since <= now => {
                let confirmed = now.duration_since(*since) >= CONFIRMED_AFTER;
                if confirmed {
                    self.0.remove(key);
                }
                confirmed
            }
            _ => {
                self.0.insert(key.clone(), (told, now));
                false
            }
        }
    }
}

/// What people are told of prices that are not believed.
#[must_use]
pub fn told(doubts: &[Doubt]) -> String {
    let first = doubts.first().map_or_else(String::new, |doubt| {
        let Doubt { place, told, known } = doubt;
        format!(", the first of {place}: ${told}/h, ${known}/h before")
    });
    format!(
        "{} prices are far from what was told before{first}; they count once they are told again",
        doubts.len()
    )
}

#[cfg(test)]
mod tests {
    //! What is far, and for how long it is doubted.
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
    fn far_is_doubtful(#[case] reference: Option<Reference>, #[case] told: i64, #[case] expected: bool) {
        let mut doubts = Doubts::default();
        assert_eq!(doubts.believes(&"m5", Price::from_nanos(told), reference, at(0)), expected);
    }

    #[test]
    fn what_is_told_again_an_hour_later_is_believed() {
        let known = Some(Reference::Known(Price::from_nanos(1_000_000)));
        let mut doubts = Doubts::default();
        let mut believes =
            |told: i64, minutes| doubts.believes(&"m5", Price::from_nanos(told), known, at(minutes));
        assert!(!believes(1000, 0) && !believes(1100, 59), "a second look at the same mistake is no proof");
        assert!(!believes(5, 61), "another mistake");
        assert!(!believes(1000, 62) && believes(1200, 122));
        assert!(
            !believes(1000, 200) && believes(999_999, 201) && !believes(1000, 300),
            "it was right in between"
        );
        assert!(!believes(1000, 10), "a clock that was set back proves nothing");
    }

    #[test]
    fn doubts_are_told_in_a_sentence() {
        let (told_price, known) = (Price::from_nanos(100_000), Price::from_nanos(96_000_000));
        let doubt = Doubt { place: "m5.large".to_owned(), told: told_price, known };
        assert_eq!(
            told(&[doubt.clone(), doubt]),
            "2 prices are far from what was told before, the first of m5.large: $0.0001/h, $0.096/h before; they count \
             once they are told again"
        );
    }
}
