//! A set of nodes that packing by price refused is not tried again until the set changes, for at most an
//! hour.

use std::collections::BTreeMap;

use fleetwright_kube_semantics::fnv::{BASIS_64, fnv1a_64_more};
use jiff::{SignedDuration, Timestamp};

use super::Gate;
use crate::model::Str;

/// A set is tried again after this.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(1);
/// Maximum number of refused sets; the oldest are dropped first.
const MAX_REMEMBERED: usize = 50_000;

/// Rejects sets that were refused and have not changed.
pub(super) struct UnchangedRefusal;

impl Gate for UnchangedRefusal {
    fn admits_set(&self, refused: &RefusedSets, set: &PricedSet, now: Timestamp) -> bool {
        let known = refused.0.get(&set.names);
        known.is_none_or(|(digest, at)| *digest != set.digest || now.duration_since(*at) >= MAX_AGE)
    }
}

/// A digest (FNV-1a, 64 bits) of what a simulation found for a set: it changes with the result and with prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disruption) struct SimulationDigest(u64);

impl SimulationDigest {
    /// The digest with more data.
    pub(in crate::disruption) fn with(self, bytes: &[u8]) -> Self {
        Self(fnv1a_64_more(self.0, bytes.iter().copied()))
    }

    /// Its bytes, as part of another digest.
    pub(in crate::disruption) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

impl Default for SimulationDigest {
    fn default() -> Self {
        Self(BASIS_64)
    }
}

/// A set of nodes that may be packed by price.
#[derive(Clone, Debug)]
pub(in crate::disruption) struct PricedSet {
    /// The names of its NodeClaims.
    pub(in crate::disruption) names: Vec<Str>,
    /// The digest of its simulation.
    pub(in crate::disruption) digest: SimulationDigest,
}

/// Sets that packing by price refused, by the names of their NodeClaims, with the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedSets(BTreeMap<Vec<Str>, (SimulationDigest, Timestamp)>);

impl RefusedSets {
    /// Records a refused set.
    pub(in crate::disruption) fn add(&mut self, set: &PricedSet, now: Timestamp) {
        self.0.insert(set.names.clone(), (set.digest, now));
    }

    /// Drops sets that are too old, and the oldest ones beyond the maximum.
    pub(in crate::disruption) fn prune(&mut self, now: Timestamp) {
        self.0.retain(|_, (_, at)| now.duration_since(*at) < MAX_AGE);
        if self.0.len() > MAX_REMEMBERED {
            let mut ages: Vec<Timestamp> = self.0.values().map(|(_, at)| *at).collect();
            ages.sort_unstable();
            let dropped = ages[self.0.len() - MAX_REMEMBERED - 1];
            self.0.retain(|_, (_, at)| *at > dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is forgotten, and when.
    use super::*;
    use crate::{disruption::Hints, testing::now};

    /// Sets that were refused this long ago, in seconds.
    fn refused(ages: impl IntoIterator<Item = i64>) -> RefusedSets {
        let mut refused = RefusedSets::default();
        for (number, age) in ages.into_iter().enumerate() {
            let set =
                PricedSet { names: vec![number.to_string().into()], digest: SimulationDigest::default() };
            refused.add(&set, now() - SignedDuration::from_secs(age));
        }
        refused
    }

    #[test]
    fn a_pass_hands_on_no_refusal_that_is_an_hour_old() {
        assert_eq!(Hints::new(refused([3600, 5000])).into_refused(now()), RefusedSets::default());
        assert_eq!(Hints::new(refused([3599, 3600])).into_refused(now()), refused([3599]));
    }

    #[test]
    fn the_oldest_refusals_beyond_the_maximum_are_dropped() {
        let most = i64::try_from(MAX_REMEMBERED).expect("a small number");
        let mut full = refused((0..most).map(|_| 60));
        full.prune(now());
        assert_eq!(full.0.len(), MAX_REMEMBERED);
        let mut beyond = refused((0..most).map(|_| 60).chain([61, 62]));
        beyond.prune(now());
        assert!(beyond == full, "{} are left", beyond.0.len());
    }
}
