//! Pods that consolidation evicted a short time ago. A NodeClaim that has to be created for one of them shows that
//! consolidation deleted one node too many: the NodeClaim records that, and [`WouldRecreate`](super::WouldRecreate) reads
//! it.
//!
//! kube-scheduler binds pods in their order of arrival, a simulation places the largest first, so a pod may not be bound where
//! the simulation placed it. Without this record the new node would be consolidated again and again. The record is in
//! memory only: after a restart a node may be recreated once more.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::model::{Pod, PodUid, Str};

/// How long after the deletion of its node a pod counts as displaced. Few drains last longer.
const DISPLACED_FOR: Duration = Duration::from_secs(10 * 60);
/// Maximum number of recorded pods; nodes that are created for others are not recognized.
const MAX_PODS: usize = 100_000;

/// Displaced pods by UID of their controller, each with the end of its window.
#[derive(Debug, Default)]
pub struct DisplacedPods(BTreeMap<Str, BTreeMap<PodUid, Timestamp>>);

impl DisplacedPods {
    /// Records that consolidation deletes the node of `pods`. Pods without a controller are not recreated.
    pub fn record(&mut self, pods: &[Arc<Pod>], now: Timestamp) {
        self.0.retain(|_, pods| {
            pods.retain(|_, until| now < *until);
            !pods.is_empty()
        });
        let known: usize = self.0.values().map(BTreeMap::len).sum();
        let until = now.checked_add(DISPLACED_FOR).unwrap_or(Timestamp::MAX);
        for pod in pods.iter().take(MAX_PODS.saturating_sub(known)) {
            if let Some(owner) = &pod.owner {
                let of_owner = self.0.entry(owner.uid.clone()).or_default();
                of_owner.entry(pod.uid.clone()).or_insert(until);
            }
        }
    }

    /// Whether a NodeClaim for `pods` recreates a node: one of them has the controller of a displaced pod. Each displaced
    /// pod counts once.
    pub fn recreates(&mut self, pods: &[Arc<Pod>], now: Timestamp) -> bool {
        let mut found = false;
        for owner in pods.iter().filter_map(|pod| pod.owner.as_ref()) {
            let Some(displaced) = self.0.get_mut(&owner.uid) else { continue };
            displaced.retain(|_, until| now < *until);
            found |= displaced.pop_first().is_some();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    //! Which NodeClaims recreate a node.
    use super::*;
    use crate::{
        model::pod::Owner,
        testing::{now, pod},
    };

    fn of(owner: &str, names: &[&str]) -> Vec<Arc<Pod>> {
        let owner = Owner { kind: "ReplicaSet".into(), name: owner.into(), uid: owner.into() };
        let built = |name: &&str| pod(name).with(|pod| pod.owner = Some(owner.clone())).build();
        names.iter().map(built).collect()
    }

    #[test]
    fn each_displaced_pod_counts_once() {
        let mut displaced = DisplacedPods::default();
        for _ in 0..2 {
            // A command is executed again after a failed call.
            displaced.record(&of("web", &["a", "b"]), now());
        }
        assert!(!displaced.recreates(&of("other", &["c"]), now()));
        assert!(!displaced.recreates(&[pod("alone").build()], now()));
        assert!(displaced.recreates(&of("web", &["c"]), now()));
        assert!(displaced.recreates(&of("web", &["d", "e"]), now()));
        assert!(!displaced.recreates(&of("web", &["f"]), now()), "this pod is additional load");
    }

    #[test]
    fn the_window_ends_after_ten_minutes() {
        let mut displaced = DisplacedPods::default();
        displaced.record(&of("web", &["a", "b"]), now());
        assert!(displaced.recreates(&of("web", &["c"]), now() + Duration::from_secs(599)));
        assert!(!displaced.recreates(&of("web", &["d"]), now() + Duration::from_secs(600)));
    }
}
