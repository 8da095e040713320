//! State of the NodeClaim controllers between passes. A restart loses it, and it is found again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_api::{
    self as api, HasConditions, condition::find, labels::condition::NODE_REGISTRATION_HEALTHY,
};
use fleetwright_core::{
    model::{ConditionStatus, NodeClaim, NodeName, PodUid, Str, nodeclaim::ConditionType},
    nodeclaim::health::RegistrationHealth,
};
use fleetwright_state::Key;
use jiff::Timestamp;

use super::{cloud_call::CloudCall, launch::Launches};
use crate::runtime::later;

/// Maximum number of entries per map.
const MAX_ENTRIES: usize = 10_000;

/// State of the NodeClaim controllers between passes.
#[derive(Debug, Default)]
pub struct LifecycleCache {
    pub(super) launches: Launches,
    entries: Mutex<Entries>,
}

/// Name of the controller that evicts pods.
pub(super) const EVICTION_QUEUE: &str = "eviction-queue";
/// Name of the controller that writes the condition NodeRegistrationHealthy of NodePools.
pub(crate) const REGISTRATION_HEALTH: &str = "nodepool.registrationhealth";

/// The status of condition NodeRegistrationHealthy of a NodePool.
pub(crate) fn registration_condition(pool: &api::NodePool) -> ConditionStatus {
    match find(pool.conditions(), NODE_REGISTRATION_HEALTHY) {
        Some(condition) if condition.is_true() => ConditionStatus::True,
        Some(condition) if condition.is_false() => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}

#[derive(Debug, Default)]
struct Entries {
    /// By UID of the NodeClaim: since when the cloud lists no instance of its launch.
    absent: BTreeMap<Str, Timestamp>,
    /// By UID of the NodeClaim: since when the cloud refuses a call.
    refused: BTreeMap<(Str, CloudCall), Timestamp>,
    /// By UID of the NodePool: the last registrations.
    health: BTreeMap<Str, RegistrationHealth>,
    /// By UID of the NodePool: the reason of the last failed registration that this process observed.
    failures: BTreeMap<Str, Str>,
    /// Pods to evict.
    evictions: BTreeMap<Key, QueuedEviction>,
    /// When they may be evicted, in steady time.
    eviction_times: BTreeMap<Key, Timestamp>,
    /// Pods whose eviction a PodDisruptionBudget refused.
    blocked: BTreeSet<Key>,
    /// UIDs of NodeClaims whose drain was counted.
    drained: BTreeSet<Str>,
}

/// A pod to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedEviction {
    /// UID of the pod: a later pod with the same name is another one.
    pub(crate) uid: PodUid,
    /// The Node that is drained.
    pub(crate) node: NodeName,
    /// The reason of the eviction.
    pub(crate) reason: String,
    /// Delete it with this grace period instead of evicting it.
    pub(crate) force: Option<Duration>,
}

impl LifecycleCache {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Every change is one statement: a panic cannot leave half of one behind.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when lists show no instance of a NodeClaim's launch; `now` if that is new.
    pub(crate) fn absent_since(&self, claim: &Str, now: Timestamp) -> Timestamp {
        let mut entries = self.entries();
        if entries.absent.len() >= MAX_ENTRIES {
            entries.absent.clear();
        }
        *entries.absent.entry(claim.clone()).or_insert(now)
    }

    /// Records that a list shows an instance of the NodeClaim's launch: its absence must be proven again.
    pub(super) fn instance_listed(&self, claim: &Str) {
        self.entries().absent.remove(claim);
    }

    /// Since when the cloud refuses a call for a NodeClaim; `now` if that is new.
    pub(super) fn refused_since(&self, claim: &Str, call: CloudCall, now: Timestamp) -> Timestamp {
        let mut entries = self.entries();
        if entries.refused.len() >= MAX_ENTRIES {
            entries.refused.clear();
        }
        *entries.refused.entry((claim.clone(), call)).or_insert(now)
    }

    /// Records that the cloud accepted that call for a NodeClaim.
    pub(super) fn call_succeeded(&self, claim: &Str, call: CloudCall) {
        self.entries().refused.remove(&(claim.clone(), call));
    }

    /// Drops the entries of a NodeClaim.
    pub(crate) fn forget(&self, claim: &Str) {
        let mut entries = self.entries();
        entries.absent.remove(claim);
        entries.refused.retain(|(refused, _), _| refused != claim);
        entries.drained.remove(claim);
        drop(entries);
        self.launches.forget(claim);
    }

    /// Records that the drain of a NodeClaim is counted. Returns whether that is new.
    pub(crate) fn note_drained(&self, claim: &Str) -> bool {
        let mut entries = self.entries();
        if entries.drained.len() >= MAX_ENTRIES {
            entries.drained.clear();
        }
        entries.drained.insert(claim.clone())
    }

    /// Records whether a node of the NodePool registered; returns the new status. `stored` is the status of the condition.
    pub(crate) fn note_registration(
        &self,
        pool: &Str,
        stored: ConditionStatus,
        registered: bool,
    ) -> ConditionStatus {
        let mut entries = self.entries();
        let health =
            entries.health.entry(pool.clone()).or_insert_with(|| RegistrationHealth::restored(stored));
        health.note(registered);
        health.status()
    }

    /// Records the reason of a failed registration of a NodePool.
    pub(super) fn note_failure(&self, pool: &Str, claim: &NodeClaim) {
        self.entries().failures.insert(pool.clone(), failed_by(claim));
    }

    /// The reason of the last failed registration of a NodePool that this process observed.
    pub(crate) fn failure_of(&self, pool: &Str) -> Option<Str> {
        self.entries().failures.get(pool).cloned()
    }

    /// The registration health of a NodePool. `stored` is the status of the condition.
    pub(crate) fn registration_health(&self, pool: &Str, stored: ConditionStatus) -> ConditionStatus {
        let mut entries = self.entries();
        let health =
            entries.health.entry(pool.clone()).or_insert_with(|| RegistrationHealth::restored(stored));
        health.status()
    }

    /// Drops the registrations of a NodePool, because it or its NodeClass changed.
    pub(crate) fn reset_health(&self, pool: &Str) {
        let mut entries = self.entries();
        entries.health.insert(pool.clone(), RegistrationHealth::default());
        entries.failures.remove(pool);
    }

    /// Queues a pod for eviction. Returns whether that is new: another pod, or forced for the first time.
    pub(crate) fn evict(&self, key: Key, eviction: QueuedEviction) -> bool {
        let mut entries = self.entries();
        let known = entries.evictions.get(&key);
        let is_new = known.is_none_or(|known| {
            known.uid != eviction.uid || (known.force.is_none() && eviction.force.is_some())
        });
        // The next pass of the drain retries pods that do not fit. Forced deletions have a deadline, and they
        // leave the queue soon.
        let fits = known.is_some() || eviction.force.is_some() || entries.evictions.len() < MAX_ENTRIES;
        if is_new && fits {
            entries.blocked.remove(&key);
            entries.evictions.insert(key, eviction);
        }
        is_new && fits
    }

    /// The queued eviction of `key`.
    pub(crate) fn queued_eviction(&self, key: &Key) -> Option<QueuedEviction> {
        self.entries().evictions.get(key).cloned()
    }

    /// How long a pod has to wait for its eviction; `None` if it may be evicted now, which removes the entry. `ask` assigns
    /// a delay to a pod without an entry.
    pub(crate) fn eviction_delay(
        &self,
        key: &Key,
        now: Timestamp,
        ask: impl FnOnce() -> Duration,
    ) -> Option<Duration> {
        let mut entries = self.entries();
        let turn = entries.eviction_times.remove(key).unwrap_or_else(|| later(now, ask()));
        let wait = Duration::try_from(turn.duration_since(now)).ok().filter(|wait| !wait.is_zero())?;
        entries.eviction_times.insert(key.clone(), turn);
        Some(wait)
    }

    /// Records that a PodDisruptionBudget refused the eviction. Returns whether that is new.
    pub(crate) fn block(&self, key: &Key) -> bool {
        self.entries().blocked.insert(key.clone())
    }

    /// Whether a PodDisruptionBudget refused the eviction before.
    pub(crate) fn is_blocked(&self, key: &Key) -> bool {
        self.entries().blocked.contains(key)
    }

    /// Removes a pod from the queue: it was evicted, or does not have to be.
    pub(crate) fn dequeue(&self, key: &Key) {
        let mut entries = self.entries();
        entries.blocked.remove(key);
        entries.evictions.remove(key);
        entries.eviction_times.remove(key);
    }
}

/// The reason of the failed condition: that of Launched, else `RegistrationFailed`.
fn failed_by(claim: &NodeClaim) -> Str {
    let launched = claim.conditions.get(&ConditionType::Launched);
    let launch = launched.filter(|known| known.status != ConditionStatus::True && !known.reason.is_empty());
    launch.map_or_else(|| "RegistrationFailed".into(), |known| known.reason.clone())
}

#[cfg(test)]
mod tests {
    //! The bound of the eviction queue.
    use fleetwright_core::model::NamespacedName;

    use super::*;

    #[test]
    fn a_forced_deletion_is_queued_even_if_the_queue_is_full() {
        let cache = LifecycleCache::default();
        let eviction = |force| {
            let reason = "Drifted".to_owned();
            QueuedEviction { uid: "u".into(), node: "n".into(), reason, force }
        };
        let key = |n: usize| Key::from(NamespacedName::new("default", format!("p{n}")));
        assert!((0..MAX_ENTRIES).all(|n| cache.evict(key(n), eviction(None))));
        assert!(!cache.evict(key(MAX_ENTRIES), eviction(None)), "the next pass queues the pod");
        assert!(cache.evict(key(MAX_ENTRIES), eviction(Some(Duration::from_secs(1)))));
        assert!(cache.evict(key(0), eviction(Some(Duration::from_secs(1)))));
        cache.dequeue(&key(1));
        cache.dequeue(&key(2));
        assert!(cache.evict(key(MAX_ENTRIES + 1), eviction(None)));
    }
}
