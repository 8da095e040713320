//! Near misses: label keys that were probably meant, and the largest free amounts of instance types.

use std::sync::Arc;

use crate::{
    model::{InstanceType, Str},
    scheduling::tables::amounts::{Amounts, get, update},
};

/// More letters than this may not differ.
const MAX_DISTANCE: usize = 2;
/// Longer keys are not compared: work is bounded.
const MAX_LENGTH: usize = 128;

/// The known key that `key` is a likely misspelling of: the same name in another domain, or so near that a typing error
/// explains it; of several the nearest, then the first.
pub(super) fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a Str>) -> Option<&'a Str> {
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let distance = |other: &Str| {
        if name(other) == name(key) && **other != *key {
            return Some(0);
        }
        let (a, b) = (key.as_bytes(), other.as_bytes());
        let comparable = a.len().max(b.len()) <= MAX_LENGTH && a.len().abs_diff(b.len()) <= MAX_DISTANCE;
        // In a short name, two other letters make another word, whatever the domain.
        let most = MAX_DISTANCE.min(name(key).len() / 3).max(1);
        comparable.then(|| edits(a, b)).filter(|edits| (1..=most).contains(edits) && a.len() > 3)
    };
    known.filter_map(|other| Some((distance(other)?, other))).min().map(|(_, other)| other)
}

/// How many letters must be put in, taken out or changed (Levenshtein).
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, from) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (to, letter) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != letter);
            diagonal = row[to + 1];
            row[to + 1] = changed.min(row[to] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The number of instance types of a pool after each filter.
#[derive(Debug, Default)]
pub(super) struct FilteredTypes {
    /// Types that the requirements allow.
    pub(super) allowed: usize,
    /// Those of them that are large enough.
    pub(super) large_enough: usize,
    /// Those of them that can be bought.
    pub(super) available: usize,
    /// What daemons take at least.
    pub(super) daemons: Option<Amounts>,
    /// By resource: the most that an allowed type leaves for pods, and that type.
    most: Vec<(i64, Option<Str>)>,
}

impl FilteredTypes {
    /// Records the free amounts of an allowed type.
    pub(super) fn record_free(&mut self, free: &Amounts, instance_type: &Arc<InstanceType>) {
        if self.most.len() < free.len() {
            self.most.resize(free.len(), (0, None));
        }
        for (most, free) in self.most.iter_mut().zip(free) {
            if *free > most.0 {
                *most = (*free, Some(instance_type.name.clone()));
            }
        }
    }

    /// Records the daemon overhead of an allowed type.
    pub(super) fn record_daemons(&mut self, daemons: &Amounts) {
        match &mut self.daemons {
            Some(least) => update(least, daemons, i64::min),
            None => self.daemons = Some(daemons.clone()),
        }
    }

    /// The first resource of which `requests` is more than any allowed type leaves: its index, the most, and the type.
    pub(super) fn first_short(&self, requests: &Amounts) -> Option<(usize, i64, Str)> {
        (0..requests.len()).find_map(|slot| {
            let (most, instance_type) = self.most.get(slot).cloned().unwrap_or_default();
            (get(requests, slot) > most).then(|| (slot, most, instance_type.unwrap_or_else(|| "".into())))
        })
    }
}

#[cfg(test)]
mod tests;
