//! The nominations of all pods.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::{
    ClaimName, ClaimStage, NodeClaim, Nomination, NominationEvent, PodNomination, PodUid, Str,
};
use jiff::Timestamp;

/// One [`PodNomination`] per pod, with indices by other keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nominations {
    by_pod: BTreeMap<PodUid, PodNomination>,
    /// By Node or NodeClaim: the pods that are leased it.
    leased: BTreeMap<Str, BTreeSet<PodUid>>,
    /// The pods for which a NodeClaim is in flight.
    in_flight: BTreeSet<PodUid>,
}

impl Nominations {
    /// Changes the nomination of one pod. Returns the Node or NodeClaim that it was leased before.
    pub(crate) fn apply(&mut self, pod: &PodUid, event: NominationEvent) -> Option<Str> {
        let before = self.by_pod.remove(pod).unwrap_or_default();
        let earlier = before.lease().map(|(target, _)| target.clone());
        let after = before.after(event);
        let target = after.lease().map(|(target, _)| target);
        if target != earlier.as_ref() {
            if let Some(earlier) = &earlier {
                self.unlink(earlier, pod);
            }
            if let Some(target) = target {
                self.leased.entry(target.clone()).or_default().insert(pod.clone());
            }
        }
        match after.in_flight().next() {
            Some(_) => self.in_flight.insert(pod.clone()),
            None => self.in_flight.remove(pod),
        };
        if !after.is_empty() {
            self.by_pod.insert(pod.clone(), after);
        }
        earlier
    }

    fn unlink(&mut self, target: &Str, pod: &PodUid) {
        if let Some(pods) = self.leased.get_mut(target) {
            pods.remove(pod);
            if pods.is_empty() {
                self.leased.remove(target);
            }
        }
    }

    /// Follows a NodeClaim, which names the pods that it was created for.
    pub(crate) fn claim_changed(&mut self, before: Option<&NodeClaim>, after: Option<&NodeClaim>) {
        let (was, is) = (before.and_then(ClaimStage::of), after.and_then(ClaimStage::of));
        let same_pods = before.map(|claim| &claim.intended_pods) == after.map(|claim| &claim.intended_pods);
        if was == is && same_pods {
            return;
        }
        for (claim, stage) in [(before.filter(|_| was.is_some()), None), (after.filter(|_| is.is_some()), is)]
        {
            for (claim, pod) in
                claim.iter().flat_map(|claim| claim.intended_pods.iter().map(|pod| (*claim, pod)))
            {
                self.apply(pod, NominationEvent::Claim(claim.name.clone(), stage));
            }
        }
    }

    /// Ends the leases that are over, and returns the Nodes and NodeClaims that were leased.
    pub(crate) fn expire(&mut self, now: Timestamp) -> BTreeSet<Str> {
        let is_over = |pod: &&PodUid| self.lease(pod).is_some_and(|(_, until)| until <= now);
        let over: Vec<PodUid> = self.leased.values().flatten().filter(is_over).cloned().collect();
        over.iter().filter_map(|pod| self.apply(pod, NominationEvent::Expired)).collect()
    }

    /// The Node or NodeClaim that a pod is leased, and until when.
    pub(crate) fn lease(&self, pod: &PodUid) -> Option<(&Str, Timestamp)> {
        self.by_pod.get(pod)?.lease()
    }

    /// The pods that are leased any of `names`, by UID.
    pub(crate) fn leases_on(&self, names: &[&str]) -> Vec<Nomination> {
        let pods: BTreeSet<&PodUid> =
            names.iter().filter_map(|name| self.leased.get(*name)).flatten().collect();
        let nomination = |pod: &PodUid| Some(Nomination { pod: pod.clone(), until: self.lease(pod)?.1 });
        pods.into_iter().filter_map(nomination).collect()
    }

    /// Whether a NodeClaim is being created for a pod.
    pub(crate) fn is_creating(&self, pod: &PodUid) -> bool {
        self.by_pod.get(pod).is_some_and(PodNomination::is_creating)
    }

    /// The NodeClaims in flight that were created for a pod, by name.
    pub(crate) fn in_flight(&self, pod: &PodUid) -> impl Iterator<Item = &ClaimName> {
        self.by_pod.get(pod).into_iter().flat_map(PodNomination::in_flight)
    }

    /// The NodeClaims that exist and were created for a pod, by name.
    pub(crate) fn created(&self, pod: &PodUid) -> impl Iterator<Item = &ClaimName> {
        self.by_pod.get(pod).into_iter().flat_map(PodNomination::created)
    }

    /// The pods for which a NodeClaim is in flight.
    pub(crate) fn pods_in_flight(&self) -> impl Iterator<Item = &PodUid> {
        self.in_flight.iter()
    }
}

#[cfg(test)]
mod tests {
    //! What NodeClaims and leases leave in the table.
    use std::sync::Arc;

    use fleetwright_core::{
        model::{LeaseBound, StateNode},
        testing::node,
    };

    use super::*;

    fn claim(initialized: bool, pods: &[&str]) -> NodeClaim {
        let builder = if initialized { node("c") } else { node("c").uninitialized() };
        let StateNode { claim, .. } = Arc::unwrap_or_clone(builder.build());
        let mut claim = claim.map(Arc::unwrap_or_clone).unwrap();
        claim.intended_pods = pods.iter().map(|pod| PodUid::from(*pod)).collect();
        claim
    }

    fn counts(table: &Nominations, pod: &str) -> (usize, usize) {
        let pod = PodUid::from(pod);
        (table.in_flight(&pod).count(), table.created(&pod).count())
    }

    #[test]
    fn an_initialized_nodeclaim_is_remembered_until_its_pod_is_bound() {
        let mut table = Nominations::default();
        let (in_flight, initialized) = (claim(false, &["p", "q"]), claim(true, &["p", "q"]));
        table.claim_changed(None, Some(&in_flight));
        assert_eq!((counts(&table, "p"), table.pods_in_flight().count()), ((1, 1), 2));
        table.claim_changed(Some(&in_flight), Some(&initialized));
        assert_eq!((counts(&table, "p"), table.pods_in_flight().count()), ((0, 1), 0));
        table.apply(&"p".into(), NominationEvent::Done);
        assert_eq!((counts(&table, "p"), counts(&table, "q")), ((0, 0), (0, 1)));
        let released = claim(true, &["p"]);
        table.claim_changed(Some(&initialized), Some(&released));
        assert_eq!(counts(&table, "q"), (0, 0));
        table.claim_changed(Some(&released), None);
        assert!(table.by_pod.is_empty());
    }

    #[test]
    fn a_nodeclaim_in_flight_releases_a_pod() {
        let mut table = Nominations::default();
        let (both, one) = (claim(false, &["p", "q"]), claim(false, &["q"]));
        table.claim_changed(None, Some(&both));
        table.claim_changed(Some(&both), Some(&one));
        assert_eq!((counts(&table, "p"), counts(&table, "q")), ((0, 0), (1, 1)));
    }

    #[test]
    fn leases_are_found_by_their_node_and_leave_nothing() {
        let mut table = Nominations::default();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let lease =
            |target: &str, until| NominationEvent::Leased(target.into(), at(until), LeaseBound::Caller(None));
        let pod = PodUid::from("p");
        assert_eq!(table.apply(&pod, lease("a", 5)), None);
        assert_eq!(table.apply(&pod, lease("b", 6)).as_deref(), Some("a"));
        assert_eq!((table.leases_on(&["a"]).len(), table.leases_on(&["a", "b"]).len()), (0, 1));
        assert_eq!((table.expire(at(5)).len(), table.expire(at(6)).len()), (0, 1));
        table.apply(&pod, NominationEvent::Done);
        assert!(table.by_pod.is_empty() && table.leased.is_empty());
    }
}
