//! Which pods consolidation displaced a short time ago: a NodeClaim that has to be created for one of them says that
//! consolidation took a node too many.
//!
//! Where pods go is for kube-scheduler to say. It takes them as they come, while a simulation begins with the largest,
//! so that one of them may be left without the place that was found for it. A node comes for it, and all is as it was
//! before: the same consolidation is proposed again. All of this can be lost: after a restart it happens once more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::model::{Pod, PodUid, Str};
use jiff::Timestamp;

use crate::runtime::later;

/// For so long after its node was taken a pod counts as displaced: drains seldom last longer, and what comes later may
/// as well have come for more load.
const WINDOW: Duration = Duration::from_secs(10 * 60);
/// Pods that are remembered at most; beyond that, nodes that come for displaced pods are not known as such.
const BOUND: usize = 100_000;

/// Pods that were displaced, by UID of their controller, each until when that counts.
#[derive(Debug, Default)]
pub struct Returns(Mutex<BTreeMap<Str, BTreeMap<PodUid, Timestamp>>>);

impl Returns {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Str, BTreeMap<PodUid, Timestamp>>> {
        // No statement leaves the pods half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Consolidation takes the node of these pods. Pods without a controller do not come back.
    pub(super) fn displaced(&self, pods: &[Arc<Pod>], now: Timestamp) {
        let mut all = self.lock();
        all.retain(|_, pods| {
            pods.retain(|_, until| now < *until);
            !pods.is_empty()
        });
        let known: usize = all.values().map(BTreeMap::len).sum();
        let until = later(now, WINDOW);
        for pod in pods.iter().take(BOUND.saturating_sub(known)) {
            if let Some(owner) = &pod.owner {
                let of_owner = all.entry(owner.uid.clone()).or_default();
                of_owner.entry(pod.uid.clone()).or_insert(until);
            }
        }
    }

    /// Whether one of the pods that a NodeClaim is created for is a displaced one, or comes in place of one. Each that
    /// was displaced comes back once.
    pub(crate) fn come_back(&self, pods: &[Arc<Pod>], now: Timestamp) -> bool {
        let mut all = self.lock();
        let mut found = false;
        for owner in pods.iter().filter_map(|pod| pod.owner.as_ref()) {
            let Some(displaced) = all.get_mut(&owner.uid) else { continue };
            displaced.retain(|_, until| now < *until);
            found |= displaced.pop_first().is_some();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    //! Who comes back.
    use fleetwright_core::{
        model::pod::Owner,
        testing::{now, pod},
    };

    use super::*;

    fn of(owner: &str, names: &[&str]) -> Vec<Arc<Pod>> {
        let owner = Owner { kind: "ReplicaSet".into(), name: owner.into(), uid: owner.into() };
        let built = |name: &&str| pod(name).with(|pod| pod.owner = Some(owner.clone())).build();
        names.iter().map(built).collect()
    }

    #[test]
    fn as_many_come_back_as_were_displaced() {
        let returns = Returns::default();
        for _ in 0..2 {
            // A command is carried out again where a call failed.
            returns.displaced(&of("web", &["a", "b"]), now());
        }
        assert!(!returns.come_back(&of("other", &["c"]), now()));
        assert!(!returns.come_back(&[pod("alone").build()], now()));
        assert!(returns.come_back(&of("web", &["c"]), now()));
        assert!(returns.come_back(&of("web", &["d", "e"]), now()));
        assert!(!returns.come_back(&of("web", &["f"]), now()), "those came for more load");
    }

    #[test]
    fn after_a_while_nobody_comes_back() {
        let returns = Returns::default();
        returns.displaced(&of("web", &["a", "b"]), now());
        assert!(returns.come_back(&of("web", &["c"]), now() + Duration::from_secs(599)));
        assert!(!returns.come_back(&of("web", &["d"]), now() + Duration::from_secs(600)));
    }
}
