//! Near misses: label keys and values that were probably meant, and the largest free amounts of instance types.

use std::sync::Arc;

use crate::{
    model::{
        InstanceType, Requirement, Str,
        labels::{HOSTNAME, INSTANCE_TYPE, ZONE},
    },
    scheduling::tables::amounts::{Amounts, get, update},
    suggest::{self, edits, plain, synonym},
};

/// More letters than this may not differ.
const MAX_DISTANCE: usize = 2;
/// Longer keys are not compared: work is bounded.
const MAX_LENGTH: usize = 128;

/// The known key that `key` is a likely misspelling of: the same name in another domain, or so near that a typing error
/// explains it; of several the nearest, then the first. Letter case, dashes and underscores do not count.
pub(super) fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a Str>) -> Option<&'a Str> {
    let ours = plain(key.rsplit('/').next().unwrap_or_default());
    let same = synonym(&ours).map(plain);
    let distance = |other: &Str| {
        let theirs = plain(other.rsplit('/').next().unwrap_or_default());
        if (theirs == ours || same.as_ref() == Some(&theirs)) && **other != *key {
            return Some(0);
        }
        let comparable =
            key.len().max(other.len()) <= MAX_LENGTH && key.len().abs_diff(other.len()) <= MAX_DISTANCE;
        // In a short name, two other letters make another word, whatever the domain.
        let most = MAX_DISTANCE.min(ours.len() / 3).max(1);
        let letters = |key: &str| -> Vec<char> { key.chars().collect() };
        let found = comparable.then(|| edits(&letters(key), &letters(other)));
        found.filter(|edits| (1..=most).contains(edits) && key.len() > 3)
    };
    known.filter_map(|other| Some((distance(other)?, other))).min().map(|(_, other)| other)
}

/// The known value that a requirement of one value probably means. Of zones and instance types, every letter tells: only their letter case
/// and dashes are corrected.
pub(super) fn nearest_value<'a>(
    wanted: &Requirement,
    known: impl Iterator<Item = &'a Str> + Clone,
) -> Option<Str> {
    let written = wanted.single().filter(|written| known.clone().all(|known| known != *written))?;
    let meant = suggest::nearest(written, known.map(|known| &**known))?;
    let is_exact = [ZONE, INSTANCE_TYPE, HOSTNAME].contains(&&**wanted.key());
    (!is_exact || plain(meant) == plain(written)).then(|| meant.into())
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
