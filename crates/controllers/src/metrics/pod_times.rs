//! When scheduling first observed a pod, first decided on it, and first nominated it: the start of the duration metrics.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fleetwright_core::model::PodUid;
use jiff::Timestamp;

/// Maximum number of pods that are remembered; further pods have no durations.
const MAX_PODS: usize = 200_000;

/// The times of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingTimes {
    /// When the pod was first observed as pending.
    pub seen: Option<Timestamp>,
    /// When scheduling first decided on the pod.
    pub decided: Option<Timestamp>,
    /// When the pod was first placed.
    pub placed: Option<Timestamp>,
}

/// The times of pods that are not ready yet.
#[derive(Debug, Default)]
pub struct PodTimes(Mutex<BTreeMap<PodUid, SchedulingTimes>>);

impl PodTimes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, SchedulingTimes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, pod: &PodUid, update: impl FnOnce(&mut SchedulingTimes)) {
        let mut all = self.lock();
        if let Some(times) = all.get_mut(pod) {
            update(times);
        } else if all.len() < MAX_PODS {
            update(all.entry(pod.clone()).or_default());
        }
    }

    /// Records that a pod is pending.
    pub fn seen(&self, pod: &PodUid, now: Timestamp) {
        self.update(pod, |times| times.seen = times.seen.or(Some(now)));
    }

    /// Records a scheduling decision on a pod.
    pub fn decided(&self, pod: &PodUid, now: Timestamp) {
        self.update(pod, |times| times.decided = times.decided.or(Some(now)));
    }

    /// Records that a pod was placed.
    pub fn placed(&self, pod: &PodUid, now: Timestamp) {
        self.update(pod, |times| times.placed = times.placed.or(Some(now)));
    }

    /// The times of a pod.
    #[must_use]
    pub fn of(&self, pod: &PodUid) -> SchedulingTimes {
        self.lock().get(pod).copied().unwrap_or_default()
    }

    /// Removes a pod that was deleted or runs.
    pub fn forget(&self, pod: &PodUid) {
        self.lock().remove(pod);
    }
}
