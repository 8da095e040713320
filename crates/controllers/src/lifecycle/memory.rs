//! What the controllers remember between passes. All of it can be lost: after a restart it is found out again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::{
    model::{ConditionStatus, NodeName, PodUid, Str},
    nodeclaim::{
        brake::{Brake, Share},
        health::RegistrationHealth,
    },
};
use fleetwright_state::Key;
use jiff::Timestamp;

use super::{launch::Launches, refused::Call};
use crate::runtime::later;

/// Entries of one kind that are remembered at most.
const BOUND: usize = 10_000;

/// The memory of the lifecycle's controllers.
#[derive(Debug, Default)]
pub struct Memory {
    pub(super) launches: Launches,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    /// Claims, by UID, of whose launch the cloud's list showed nothing, and since when.
    absent: BTreeMap<Str, Timestamp>,
    /// Claims, by UID, for which the cloud does not do what it is asked, and since when.
    refused: BTreeMap<(Str, Call), Timestamp>,
    /// The last registrations, by UID of the pool.
    health: BTreeMap<Str, RegistrationHealth>,
    /// Why the last of them failed, by UID of the pool, as far as this process has seen one fail.
    failures: BTreeMap<Str, Str>,
    /// On giving up nodes that do not join.
    joining: Option<Brake>,
    /// Pods that are to leave.
    evictions: BTreeMap<Key, Leaving>,
    /// When their turns to be evicted come, in steady time, of those that have one and wait for it.
    turns: BTreeMap<Key, Timestamp>,
    /// Those that a disruption budget has kept so far.
    kept: BTreeSet<Key>,
    /// Claims, by UID, whose drain was counted.
    drained: BTreeSet<Str>,
}

/// A pod that is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// This one, no later one of the same name.
    pub(crate) uid: PodUid,
    /// The node that it leaves.
    pub(crate) node: NodeName,
    /// Why.
    pub(crate) reason: String,
    /// To be deleted with so much grace instead of being evicted.
    pub(crate) force: Option<Duration>,
}

impl Memory {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        // No statement leaves the parts half changed.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when the launch of a claim is known to have left nothing; begins now where that is new.
    pub(crate) fn absent_since(&self, claim: &Str, now: Timestamp) -> Timestamp {
        let mut parts = self.parts();
        if parts.absent.len() >= BOUND {
            parts.absent.clear();
        }
        *parts.absent.entry(claim.clone()).or_insert(now)
    }

    /// Something of the launch of a claim was seen: that it left nothing must be seen again.
    pub(super) fn seen(&self, claim: &Str) {
        self.parts().absent.remove(claim);
    }

    /// Since when the cloud refuses a call for a claim; begins now where that is new.
    pub(super) fn refused_since(&self, claim: &Str, call: Call, now: Timestamp) -> Timestamp {
        let mut parts = self.parts();
        if parts.refused.len() >= BOUND {
            parts.refused.clear();
        }
        *parts.refused.entry((claim.clone(), call)).or_insert(now)
    }

    /// The cloud answered that call for a claim.
    pub(super) fn answered(&self, claim: &Str, call: Call) {
        self.parts().refused.remove(&(claim.clone(), call));
    }

    /// Whether the node of a claim that has not joined may be given up, among `all` nodes.
    pub(crate) fn may_give_up(&self, claim: &str, all: usize, now: Timestamp) -> bool {
        let mut parts = self.parts();
        parts.joining.get_or_insert_with(|| Brake::new(Share::NEVER_JOINED)).passes(claim, all, now)
    }

    /// Forgets a claim.
    pub(crate) fn forget(&self, claim: &Str) {
        let mut parts = self.parts();
        parts.absent.remove(claim);
        parts.refused.retain(|(refused, _), _| refused != claim);
        parts.drained.remove(claim);
        drop(parts);
        self.launches.forget(claim);
    }

    /// Whether the drain of a claim is counted for the first time.
    pub(crate) fn first_drained(&self, claim: &Str) -> bool {
        let mut parts = self.parts();
        if parts.drained.len() >= BOUND {
            parts.drained.clear();
        }
        parts.drained.insert(claim.clone())
    }

    /// Notes how a registration in a pool ended, given what its condition said before; returns the new status.
    pub(crate) fn note_registration(
        &self,
        pool: &Str,
        stored: ConditionStatus,
        registered: bool,
    ) -> ConditionStatus {
        let mut parts = self.parts();
        let health = parts.health.entry(pool.clone()).or_insert_with(|| RegistrationHealth::restored(stored));
        health.note(registered);
        health.status()
    }

    /// Notes in a word why a registration in a pool failed.
    pub(super) fn note_failure(&self, pool: &Str, reason: Str) {
        self.parts().failures.insert(pool.clone(), reason);
    }

    /// Why the last registration in a pool failed, where this process saw it.
    pub(crate) fn failure_of(&self, pool: &Str) -> Option<Str> {
        self.parts().failures.get(pool).cloned()
    }

    /// How registrations of a pool go, given what its condition said before.
    pub(crate) fn registration_health(&self, pool: &Str, stored: ConditionStatus) -> ConditionStatus {
        let mut parts = self.parts();
        let health = parts.health.entry(pool.clone()).or_insert_with(|| RegistrationHealth::restored(stored));
        health.status()
    }

    /// Forgets how registrations of a pool went: it, or its class, was changed.
    pub(crate) fn reset_health(&self, pool: &Str) {
        let mut parts = self.parts();
        parts.health.insert(pool.clone(), RegistrationHealth::default());
        parts.failures.remove(pool);
    }

    /// Wants a pod to leave. Returns whether that is news (a new pod, or force where there was none).
    pub(crate) fn evict(&self, key: Key, leaving: Leaving) -> bool {
        let mut parts = self.parts();
        let known = parts.evictions.get(&key);
        let news = known.is_none_or(|known| {
            known.uid != leaving.uid || (known.force.is_none() && leaving.force.is_some())
        });
        // What does not fit is asked for again by the next pass of its drain. A deadline does not wait for that, and what is
        // deleted by force does not stay here for long.
        let fits = known.is_some() || leaving.force.is_some() || parts.evictions.len() < BOUND;
        if news && fits {
            parts.kept.remove(&key);
            parts.evictions.insert(key, leaving);
        }
        news && fits
    }

    /// The pod of `key` that is to leave.
    pub(crate) fn leaving(&self, key: &Key) -> Option<Leaving> {
        self.parts().evictions.get(key).cloned()
    }

    /// How long a pod that is to leave still waits for its turn, which `ask` gives where it has none yet; `None` where it
    /// is its turn. That is used up then: the next try needs another one.
    pub(crate) fn eviction_turn(
        &self,
        key: &Key,
        now: Timestamp,
        ask: impl FnOnce() -> Duration,
    ) -> Option<Duration> {
        let mut parts = self.parts();
        let turn = parts.turns.remove(key).unwrap_or_else(|| later(now, ask()));
        let wait = Duration::try_from(turn.duration_since(now)).ok().filter(|wait| !wait.is_zero())?;
        parts.turns.insert(key.clone(), turn);
        Some(wait)
    }

    /// A disruption budget has kept a pod that is to leave. Returns whether that is news.
    pub(crate) fn keep(&self, key: &Key) -> bool {
        self.parts().kept.insert(key.clone())
    }

    /// Whether a disruption budget has kept a pod that is to leave.
    pub(crate) fn is_kept(&self, key: &Key) -> bool {
        self.parts().kept.contains(key)
    }

    /// A pod has left, or needs not any more.
    pub(crate) fn left(&self, key: &Key) {
        let mut parts = self.parts();
        parts.kept.remove(key);
        parts.evictions.remove(key);
        parts.turns.remove(key);
    }
}

#[cfg(test)]
mod tests {
    //! What fits into memory, and what must.
    use fleetwright_core::model::NamespacedName;

    use super::*;

    #[test]
    fn a_pod_that_is_out_of_time_is_taken_in_however_many_wait() {
        let memory = Memory::default();
        let leaving = |force| {
            let reason = "Drifted".to_owned();
            Leaving { uid: "u".into(), node: "n".into(), reason, force }
        };
        let key = |n: usize| Key::from(NamespacedName::new("default", format!("p{n}")));
        assert!((0..BOUND).all(|n| memory.evict(key(n), leaving(None))));
        assert!(!memory.evict(key(BOUND), leaving(None)), "it is asked for again");
        assert!(memory.evict(key(BOUND), leaving(Some(Duration::from_secs(1)))));
        assert!(memory.evict(key(0), leaving(Some(Duration::from_secs(1)))));
        memory.left(&key(1));
        memory.left(&key(2));
        assert!(memory.evict(key(BOUND + 1), leaving(None)));
    }
}
