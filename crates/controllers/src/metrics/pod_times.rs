//! When scheduling first saw a pod, first decided about it, and first found it a place: what durations are counted from.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fleetwright_core::model::PodUid;
use jiff::Timestamp;

/// Pods that are remembered at most; a figure that is lost beyond that is the smaller evil.
const BOUND: usize = 200_000;

/// What is known of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it was first seen to wait.
    pub seen: Option<Timestamp>,
    /// When something was first decided about it.
    pub decided: Option<Timestamp>,
    /// When it was first given a place.
    pub placed: Option<Timestamp>,
}

/// The times of pods that are not ready yet.
#[derive(Debug, Default)]
pub struct PodTimes(Mutex<BTreeMap<PodUid, Times>>);

impl PodTimes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, Times>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, pod: &PodUid, note: impl FnOnce(&mut Times)) {
        let mut all = self.lock();
        if let Some(times) = all.get_mut(pod) {
            note(times);
        } else if all.len() < BOUND {
            note(all.entry(pod.clone()).or_default());
        }
    }

    /// Notes that a pod waits.
    pub fn seen(&self, pod: &PodUid, now: Timestamp) {
        self.note(pod, |times| times.seen = times.seen.or(Some(now)));
    }

    /// Notes that something was decided about a pod.
    pub fn decided(&self, pod: &PodUid, now: Timestamp) {
        self.note(pod, |times| times.decided = times.decided.or(Some(now)));
    }

    /// Notes that a pod was given a place.
    pub fn placed(&self, pod: &PodUid, now: Timestamp) {
        self.note(pod, |times| times.placed = times.placed.or(Some(now)));
    }

    /// What is known of a pod.
    #[must_use]
    pub fn of(&self, pod: &PodUid) -> Times {
        self.lock().get(pod).copied().unwrap_or_default()
    }

    /// Forgets a pod that is gone or runs.
    pub fn forget(&self, pod: &PodUid) {
        self.lock().remove(pod);
    }
}
