//! Input of the next scheduling pass: the batch, and the pods without a decision.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::model::PodUid;
use jiff::Timestamp;

use super::batch::Batch;
use crate::settings::Settings;

/// Input of the next scheduling pass. All times are of the monotonic clock.
#[derive(Clone, Debug)]
pub struct Inbox(Arc<Mutex<Pending>>);

#[derive(Debug)]
struct Pending {
    batch: Batch,
    /// When pending pods were first seen, until the first decision about them.
    undecided: BTreeMap<PodUid, Timestamp>,
}

impl Inbox {
    /// An empty inbox.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let batch = Batch::new(settings.batch_idle, settings.batch_max);
        Self(Arc::new(Mutex::new(Pending { batch, undecided: BTreeMap::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reason for a pass to the batch, by UID.
    pub fn push(&self, uid: &str, now: Timestamp) {
        self.lock().batch.push(uid, now);
    }

    /// Adds a pending pod to the batch.
    pub(super) fn push_pod(&self, pod: &PodUid, now: Timestamp) {
        let mut pending = self.lock();
        pending.batch.push(pod, now);
        pending.undecided.entry(pod.clone()).or_insert(now);
    }

    /// When the next pass is due.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.lock().batch.due()
    }

    /// Starts a pass.
    pub(super) fn take(&self) -> usize {
        self.lock().batch.take()
    }

    /// Records a decision about a pod. Returns how long the pod waited for its first one.
    pub(super) fn decided(&self, pod: &PodUid, now: Timestamp) -> Option<Duration> {
        let seen = self.lock().undecided.remove(pod)?;
        Some(Duration::try_from(now.duration_since(seen)).unwrap_or_default())
    }

    /// Keeps only pods that are still pending.
    pub(super) fn retain(&self, is_pending: impl Fn(&PodUid) -> bool) {
        self.lock().undecided.retain(|pod, _| is_pending(pod));
    }
}
