//! When scheduling first observed a pod, first decided on it, and first nominated it: the start of the duration metrics.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fleetwright_core::model::PodUid;
use jiff::Timestamp;

/// Maximum number of pods that are remembered; further pods have no durations.
const BOUND: usize = 200_000;

/// The times of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When the pod was first observed as pending.
    pub seen: Option<Timestamp>,
    /// When scheduling first decided on the pod.
    pub decided: Option<Timestamp>,
    /// When the pod was first placed.
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

    /// Records that a pod is pending.
    pub fn seen(&self, pod: &PodUid, now: Timestamp) {
        self.note(pod, |times| times.seen = times.seen.or(Some(now)));
    }

    /// Records a scheduling decision on a pod.
    pub fn decided(&self, pod: &PodUid, now: Timestamp) {
        self.note(pod, |times| times.decided = times.decided.or(Some(now)));
    }

    /// Records that a pod was placed.
    pub fn placed(&self, pod: &PodUid, now: Timestamp) {
        self.note(pod, |times| times.placed = times.placed.or(Some(now)));
    }

    /// The times of a pod.
    #[must_use]
    pub fn of(&self, pod: &PodUid) -> Times {
        self.lock().get(pod).copied().unwrap_or_default()
    }

    /// Removes a pod that is gone or runs.
    pub fn forget(&self, pod: &PodUid) {
        self.lock().remove(pod);
    }
}
