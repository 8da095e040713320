//! A set of nodes that was packed by price in vain is not tried again until something about it changes, at most for an
//! hour.

use std::collections::BTreeMap;

use fleetwright_kube_semantics::fnv::{BASIS_64, fnv1a_64_more};
use jiff::{SignedDuration, Timestamp};

use super::Gate;
use crate::model::Str;

/// Prices and load change with time alone: a set is tried again after this.
const MEMORY: SignedDuration = SignedDuration::from_hours(1);
/// Refusals that are remembered, at most; the oldest are dropped first.
const MAX_REMEMBERED: usize = 50_000;

/// Holds back sets that were refused and have not changed.
pub(super) struct RefusedMemory;

impl Gate for RefusedMemory {
    fn admits_set(&self, refused: &Refused, set: &PricedSet, now: Timestamp) -> bool {
        let known = refused.0.get(&set.names);
        known.is_none_or(|(mark, at)| *mark != set.mark || now.duration_since(*at) >= MEMORY)
    }
}

/// A digest (FNV-1a, 64 bits) of what a simulation found for a set: it changes with the result and with prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disruption) struct Mark(u64);

impl Mark {
    /// The mark with more data.
    pub(in crate::disruption) fn with(self, bytes: &[u8]) -> Self {
        Self(fnv1a_64_more(self.0, bytes.iter().copied()))
    }

    /// Its bytes, as part of another mark.
    pub(in crate::disruption) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

impl Default for Mark {
    fn default() -> Self {
        Self(BASIS_64)
    }
}

/// A set of nodes that may be packed by price.
#[derive(Clone, Debug)]
pub(in crate::disruption) struct PricedSet {
    /// The names of its NodeClaims.
    pub(in crate::disruption) names: Vec<Str>,
    /// What a simulation found for it.
    pub(in crate::disruption) mark: Mark,
}

/// Sets that were packed by price in vain, by the names of their NodeClaims, with the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused(BTreeMap<Vec<Str>, (Mark, Timestamp)>);

impl Refused {
    /// Remembers a set.
    pub(in crate::disruption) fn add(&mut self, set: &PricedSet, now: Timestamp) {
        self.0.insert(set.names.clone(), (set.mark, now));
    }

    /// Drops sets that are too old, and the oldest where there are too many.
    pub(in crate::disruption) fn prune(&mut self, now: Timestamp) {
        self.0.retain(|_, (_, at)| now.duration_since(*at) < MEMORY);
        if self.0.len() > MAX_REMEMBERED {
            let mut ages: Vec<Timestamp> = self.0.values().map(|(_, at)| *at).collect();
            ages.sort_unstable();
            let oldest = ages[self.0.len() - MAX_REMEMBERED];
            self.0.retain(|_, (_, at)| *at > oldest);
        }
    }
}
