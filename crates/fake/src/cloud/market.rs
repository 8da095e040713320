//! Spot prices over time: a price per type and zone that moves in steps around its level.
//!
//! The price of step `k` is, in per mille of the on-demand price, `level + Σ (7/8)^j · ε(k − j)` over the last [`MEMORY`] steps: a
//! first-order autoregression, truncated where older shocks are negligible, so that a price depends on the seed and the time alone, not
//! on earlier calls. The level is the catalogue's price; `ε` is drawn for each type, zone and step.

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::model::{
    InstanceType, Offering, Price, Str,
    labels::{ON_DEMAND, SPOT},
};
use jiff::Timestamp;

use crate::{
    api::SpotPrices,
    catalogue::{Catalogue, OfferingKey, Vocabulary},
    dice,
    dice::below,
};

/// The number of steps that a shock lasts: (7/8)^32 is 1.4 %.
const MEMORY: u32 = 32;
/// The largest shock of one step, in per mille of the on-demand price.
const SHOCK: i64 = 25;
/// The bounds of a spot price, in per mille of the on-demand price.
const BOUNDS: (i64, i64) = (200, 1000);
/// The fixed point of the weights.
const ONE: i64 = 1 << 20;

/// The market for spot capacity.
#[derive(Clone, Debug)]
pub(super) struct Market {
    seed: u64,
    /// How long a price is valid, in milliseconds; zero if prices never change.
    step_ms: u64,
    /// When the first step began.
    since: Timestamp,
    /// Shocks by instance type and zone, and by step, from [`MEMORY`] steps before the last price on: the price of the next step has all
    /// but one of them, and a draw takes longer than the rest of a price.
    shocks: BTreeMap<(Str, Str), BTreeMap<i64, i64>>,
}

impl Market {
    /// A market whose prices are valid for `step_ms` milliseconds each, the first of them from `since`; zero if they never change.
    pub(super) fn new(seed: u64, step_ms: u64, since: Timestamp) -> Self {
        Self { seed, step_ms, since, shocks: BTreeMap::new() }
    }

    /// The number of the step at `now`, and its remaining time; `None` if prices never change.
    fn step(&self, now: Timestamp) -> Option<(i64, Duration)> {
        let length = i64::try_from(self.step_ms).ok().filter(|length| *length > 0)?;
        let at = now.as_millisecond().saturating_sub(self.since.as_millisecond());
        let left = length - at.rem_euclid(length);
        Some((at.div_euclid(length), Duration::from_millis(u64::try_from(left).unwrap_or(1))))
    }

    /// The price of an offering at `now`.
    pub(super) fn price(
        &mut self,
        catalogue: &Catalogue,
        kind: &InstanceType,
        offering: &Offering,
        now: Timestamp,
    ) -> Price {
        self.moved(catalogue, kind, offering, now).unwrap_or(offering.price)
    }

    /// All prices at `now` that differ from the catalogue's, and how long they are valid.
    pub(super) fn prices(&mut self, catalogue: &Catalogue, now: Timestamp) -> SpotPrices {
        let kinds = catalogue.types.instance_types.iter();
        let offerings = kinds.flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)));
        let moved = offerings.filter_map(|(kind, offering)| {
            let price = self.moved(catalogue, kind, offering, now)?;
            Some((OfferingKey::of(kind, offering)?, price.nanos()))
        });
        let prices = moved.collect();
        let left = self.step(now).map(|(_, left)| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        SpotPrices { prices, valid_for_ms: left }
    }

    /// The price of a spot offering with an on-demand offering beside it. Prices of the kwok provider never change.
    fn moved(
        &mut self,
        catalogue: &Catalogue,
        kind: &InstanceType,
        offering: &Offering,
        now: Timestamp,
    ) -> Option<Price> {
        if catalogue.vocabulary != Vocabulary::Cloud
            || offering.capacity_type().is_none_or(|of| &**of != SPOT)
        {
            return None;
        }
        let (step, _) = self.step(now)?;
        let zone = offering.zone()?;
        let beside = kind.offerings.iter().find(|other| {
            other.zone() == Some(zone) && other.capacity_type().is_some_and(|of| &**of == ON_DEMAND)
        })?;
        let full = beside.price.nanos();
        let level = offering.price.nanos().saturating_mul(1000).checked_div(full)?;
        let share = (level + self.deviation(&kind.name, zone, step)).clamp(BOUNDS.0, BOUNDS.1);
        Some(Price::from_nanos(full / 1000 * share))
    }

    /// The difference between a price and its level in a step, in per mille of the on-demand price.
    fn deviation(&mut self, kind: &Str, zone: &Str, step: i64) -> i64 {
        let seed = self.seed;
        let shocks = self.shocks.entry((kind.clone(), zone.clone())).or_default();
        *shocks = shocks.split_off(&step.saturating_sub(i64::from(MEMORY)));
        let (mut weight, mut sum) = (ONE, 0_i64);
        for back in 0..MEMORY {
            let nth = step.saturating_sub(i64::from(back));
            sum += weight * *shocks.entry(nth).or_insert_with(|| shock(seed, kind, zone, nth));
            weight = weight * 7 / 8;
        }
        sum / ONE
    }
}

/// The shock of a step, in per mille of the on-demand price.
fn shock(seed: u64, kind: &str, zone: &str, step: i64) -> i64 {
    let drawn =
        below(&mut dice(seed, &["market", kind, zone, &step.to_string()]), 2 * SHOCK.unsigned_abs() + 1);
    i64::try_from(drawn).unwrap_or(SHOCK) - SHOCK
}

#[cfg(test)]
mod tests {
    //! Prices are bounded, repeatable, moving and mean-reverting.
    use super::*;
    use crate::catalogue::{kwok, realistic};

    fn market(seed: u64) -> Market {
        Market::new(seed, 300_000, Timestamp::UNIX_EPOCH)
    }

    fn at(step: i64) -> Timestamp {
        Timestamp::from_second(1_750_000_200 / 300 * 300 + 300 * step).unwrap()
    }

    /// The share of the on-demand price, in per mille, of the first spot offering over many steps; and its level.
    fn walk(steps: i64) -> (Vec<i64>, i64) {
        let catalogue = realistic(1);
        let kind = catalogue.types.get("m5.large").unwrap();
        let (spot, full) = (&kind.offerings[0], kind.offerings[1].price.nanos());
        let share = |price: Price| price.nanos() * 1000 / full;
        let mut market = market(7);
        let walk = (0..steps).map(|step| share(market.price(&catalogue, kind, spot, at(step)))).collect();
        (walk, share(spot.price))
    }

    #[test]
    fn a_price_moves_around_its_level_within_bounds() {
        let (walk, level) = walk(2000);
        assert!(walk.iter().all(|share| (BOUNDS.0 - 1..=BOUNDS.1).contains(share)));
        let moves = walk.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(moves > 1500, "{moves} moves");
        let mean = walk.iter().sum::<i64>() / 2000;
        assert!((mean - level).abs() <= 10, "mean {mean}, level {level}");
        let (low, high) = (walk.iter().min().unwrap(), walk.iter().max().unwrap());
        assert!(high - low > 60, "{low} to {high}");
        // Mean-reverting: after a step far from the level, the next is nearer to it on average.
        let far: Vec<_> = walk.windows(2).filter(|pair| (pair[0] - level).abs() > 40).collect();
        let (before, after) = far
            .iter()
            .fold((0, 0), |sum, pair| (sum.0 + (pair[0] - level).abs(), sum.1 + (pair[1] - level).abs()));
        assert!(after < before, "{after} after {before}");
    }

    #[test]
    fn a_price_depends_on_seed_and_time_and_lasts_a_step() {
        let catalogue = realistic(1);
        let now = at(3);
        let mut market = market(7);
        let prices = market.prices(&catalogue, now);
        assert_eq!(prices, market.prices(&catalogue, now));
        assert_eq!(prices.valid_for_ms, Some(300_000));
        let late = now + Duration::from_secs(299);
        assert_eq!(
            market.prices(&catalogue, late),
            SpotPrices { valid_for_ms: Some(1000), ..prices.clone() }
        );
        assert_ne!(market.prices(&catalogue, at(4)).prices, prices.prices);
        for step in [80, 3, 2, 3] {
            let fresh = self::market(7).prices(&catalogue, at(step));
            assert_eq!(market.prices(&catalogue, at(step)), fresh, "also after prices of other steps");
        }
        let later = Duration::from_secs(17);
        let mut moved = Market::new(7, 300_000, Timestamp::UNIX_EPOCH + later);
        assert_eq!(moved.prices(&catalogue, now + later), prices, "time counts from the market's beginning");
        assert_ne!(self::market(8).prices(&catalogue, now).prices, prices.prices);
    }

    #[test]
    fn a_market_without_steps_has_no_changes() {
        let still = SpotPrices::default();
        assert_eq!(Market::new(7, 0, Timestamp::UNIX_EPOCH).prices(&realistic(1), at(0)), still);
        assert_eq!(market(7).prices(&kwok(), at(0)).prices, still.prices);
    }
}
