//! The launch-loop breaker: nodes that are launched for a demand whose pods never run on them.
//!
//! A pod that is preempted, evicted or created again by its controller has another UID and is the same [`Demand`]. Whatever
//! keeps its pods off their nodes, a demand that has missed its nodes [`FREE`] times gets the next one only after a pause, which
//! doubles each further time. A launch is missed once its NodeClaim ends, or has an initialized node and lost all the pods that it was
//! created for, while no pod of the demand that was bound since has run for [`RAN`] or has completed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use fleetwright_kube_semantics::fnv::fnv1a_64;
use jiff::Timestamp;

use crate::{
    model::{ClaimName, NamespacedName, Pod, PodUid, Str, pod::PodSpec},
    rate::doubled,
};

/// How often a demand may miss its nodes before the next one waits. Nodes that are launched at the same time count once.
pub const FREE: usize = 2;
/// How long a pod must be bound to count as running: what takes its room on a new node does so earlier.
pub const RAN: Duration = Duration::from_secs(60);
/// The pause after [`FREE`] missed nodes.
const FIRST: Duration = Duration::from_secs(60);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How long a launch is remembered; longer than the longest pause, so that each pause finds the launches before it.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// Launches that are remembered, at most; others are not counted.
const BOUND: usize = 100_000;
/// The label by which a ReplicaSet's name ends, where a Deployment owns it.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Who creates the pods of a demand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DemandOwner {
    /// A controller, by kind. The ReplicaSet of a Deployment counts as the Deployment: a rollout changes the ReplicaSet.
    Controller(Str, NamespacedName),
    /// A pod without a controller.
    Pod(NamespacedName, PodUid),
}

impl DemandOwner {
    /// The owner of a pod.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let Some(owner) = &pod.owner else { return Self::Pod(pod.id.clone(), pod.uid.clone()) };
        let deployment =
            pod.labels.get(TEMPLATE_HASH).filter(|_| &*owner.kind == "ReplicaSet").and_then(|hash| {
                owner.name.strip_suffix(&**hash)?.strip_suffix('-').filter(|name| !name.is_empty())
            });
        let (kind, name) = match deployment {
            Some(name) => ("Deployment".into(), name.into()),
            None => (owner.kind.clone(), owner.name.clone()),
        };
        Self::Controller(kind, NamespacedName::new(pod.id.namespace.clone(), name))
    }
}

impl fmt::Display for DemandOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(kind, id) => write!(f, "{kind} {id}"),
            Self::Pod(id, _) => write!(f, "Pod {id}"),
        }
    }
}

/// The pods of one owner and one pod class.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    owner: DemandOwner,
    spec: Arc<PodSpec>,
}

impl Demand {
    /// The demand that a pod belongs to.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        Self { owner: DemandOwner::of(pod), spec: pod.spec.clone() }
    }

    /// A hash of its pod class. Another version of the controller may have another one: what is kept under it is then forgotten.
    #[must_use]
    pub fn class(&self) -> u64 {
        fnv1a_64(format!("{:?}", self.spec).into_bytes())
    }

    /// Whether a pod belongs to it.
    #[must_use]
    pub fn includes(&self, pod: &Pod) -> bool {
        (Arc::ptr_eq(&self.spec, &pod.spec) || self.spec == pod.spec) && self.owner == DemandOwner::of(pod)
    }
}

/// A NodeClaim that was created for pods of a demand.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The NodeClaim.
    pub claim: ClaimName,
    /// The pods of the demand that it was created for.
    pub pods: BTreeSet<PodUid>,
    /// When it was created.
    pub at: Timestamp,
    /// When the NodeClaim was deleted, if it was launched by then.
    pub ended: Option<Timestamp>,
    /// Since when it is missed, at the first count that found it so.
    missed: Option<Timestamp>,
    /// Whether it is missed, by the last count.
    counts: bool,
}

/// Why a demand gets no node now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPause {
    /// Whose pods.
    pub owner: DemandOwner,
    /// Nodes that it missed within the last hour.
    pub missed: usize,
    /// The NodeClaim that it missed last.
    pub claim: ClaimName,
    /// How much longer none is launched for it.
    pub left: Duration,
}

/// What a restart has to remember of a demand that missed its nodes. Pods and NodeClaims of a loop are deleted, hence it is kept on the
/// NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopRecord {
    /// Whose pods.
    pub owner: DemandOwner,
    /// Their class ([`Demand::class`]).
    pub class: u64,
    /// How many times nodes were launched of which all were missed.
    pub rounds: usize,
    /// Nodes that it missed.
    pub missed: usize,
    /// The NodeClaim that it missed last.
    pub claim: ClaimName,
    /// When that NodeClaim was created.
    pub launched: Timestamp,
    /// Since when it is missed.
    pub since: Timestamp,
}

impl LoopRecord {
    /// Whether it is of the demand of another record.
    #[must_use]
    pub fn replaces(&self, other: &Self) -> bool {
        self.owner == other.owner && self.class == other.class
    }

    /// Whether the last launch is no longer remembered, or cannot be one: a time that is so far ahead was written by a wrong clock.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        is_over(self.launched, REMEMBERED, now) || is_over(now, REMEMBERED, self.launched)
    }
}

/// The launches of the last hour, by demand, and the records of those of an earlier process.
#[derive(Clone, Debug, Default)]
pub struct LaunchHistory {
    by_owner: BTreeMap<DemandOwner, Vec<(Demand, Vec<Launch>)>>,
    count: usize,
    /// By owner and class.
    restored: BTreeMap<(DemandOwner, u64), LoopRecord>,
}

impl LaunchHistory {
    /// Records that a NodeClaim was created for `pods`.
    pub fn launched(&mut self, claim: &ClaimName, pods: &[Arc<Pod>], now: Timestamp) {
        self.retain(|launch| !is_over(launch.at, REMEMBERED, now));
        self.restored.retain(|_, record| !record.is_over(now));
        for pod in pods.iter().filter(|pod| !pod.is_virtual) {
            if self.count >= BOUND {
                return;
            }
            let demand = Demand::of(pod);
            let demands = self.by_owner.entry(demand.owner.clone()).or_default();
            let known = demands.iter().position(|(known, _)| known.includes(pod));
            let position = known.unwrap_or_else(|| {
                demands.push((demand, Vec::new()));
                demands.len() - 1
            });
            let Some((_, launches)) = demands.get_mut(position) else { continue };
            match launches.last_mut().filter(|launch| launch.claim == *claim) {
                Some(launch) => drop(launch.pods.insert(pod.uid.clone())),
                None => {
                    let pods = BTreeSet::from([pod.uid.clone()]);
                    launches.push(Launch {
                        claim: claim.clone(),
                        pods,
                        at: now,
                        ended: None,
                        missed: None,
                        counts: false,
                    });
                    self.count += 1;
                }
            }
        }
    }

    /// Records that a NodeClaim is deleted. One that was never launched is no node: it is forgotten.
    pub fn ended(&mut self, claim: &ClaimName, was_launched: bool, at: Timestamp) {
        if was_launched {
            let all = self.by_owner.values_mut().flatten().flat_map(|(_, launches)| launches);
            for launch in all.filter(|launch| launch.claim == *claim) {
                launch.ended.get_or_insert(at);
            }
        } else {
            self.retain(|launch| launch.claim != *claim);
        }
    }

    /// Records that a pod ran that was bound at `bound`: its demand is answered, so that earlier launches are not missed.
    pub fn ran(&mut self, pod: &Pod, bound: Timestamp) {
        if let Some(key) = self.restored_key(pod)
            && self.restored.get(&key).is_some_and(|record| record.launched <= bound)
        {
            self.restored.remove(&key);
        }
        let Some(demands) = self.by_owner.get_mut(&DemandOwner::of(pod)) else { return };
        for (_, launches) in demands.iter_mut().filter(|(demand, _)| demand.includes(pod)) {
            let before = launches.len();
            launches.retain(|launch| launch.at > bound);
            self.count -= before - launches.len();
        }
        demands.retain(|(_, launches)| !launches.is_empty());
        if demands.is_empty() {
            self.by_owner.remove(&DemandOwner::of(pod));
        }
    }

    /// Whether launches for the demand of this pod are remembered.
    #[must_use]
    pub fn knows(&self, pod: &Pod) -> bool {
        (!self.by_owner.is_empty() && self.by_owner.contains_key(&DemandOwner::of(pod)))
            || self.restored_key(pod).is_some()
    }

    /// Takes over what an earlier process recorded. Records of this process are ignored: it knows their launches.
    pub fn restore(&mut self, record: LoopRecord) {
        let known = self.by_owner.get(&record.owner).into_iter().flatten().flat_map(|(_, launches)| launches);
        if known.into_iter().any(|launch| launch.claim == record.claim) {
            return;
        }
        let key = (record.owner.clone(), record.class);
        if self.restored.get(&key).is_none_or(|other| other.since <= record.since) {
            self.restored.insert(key, record);
        }
    }

    /// Whether a record is still true: no pod of its demand ran since.
    #[must_use]
    pub fn holds(&self, record: &LoopRecord) -> bool {
        self.restored.contains_key(&(record.owner.clone(), record.class))
            || self
                .by_owner
                .get(&record.owner)
                .is_some_and(|demands| demands.iter().any(|(demand, _)| demand.class() == record.class))
    }

    /// The key of the record of an earlier process, if there is one of the owner of a pod.
    fn restored_key(&self, pod: &Pod) -> Option<(DemandOwner, u64)> {
        if self.restored.is_empty() {
            return None;
        }
        let owner = DemandOwner::of(pod);
        // A hash takes longer than the owner.
        self.restored.keys().find(|(known, _)| *known == owner)?;
        let key = (owner, Demand::of(pod).class());
        self.restored.contains_key(&key).then_some(key)
    }

    /// Counts the launches for the demand of a pod that `is_missed`, and those that were recorded; returns their number.
    pub fn count_missed(
        &mut self,
        pod: &Pod,
        now: Timestamp,
        is_missed: impl Fn(&Demand, &Launch) -> bool,
    ) -> usize {
        let recorded = self.restored_key(pod).and_then(|key| self.restored.get(&key));
        let mut missed = recorded.filter(|record| !record.is_over(now)).map_or(0, |record| record.missed);
        let Some(demands) = self.by_owner.get_mut(&DemandOwner::of(pod)) else { return missed };
        let Some((demand, launches)) = demands.iter_mut().find(|(demand, _)| demand.includes(pod)) else {
            return missed;
        };
        for launch in launches.iter_mut().filter(|launch| !is_over(launch.at, REMEMBERED, now)) {
            launch.counts = is_missed(demand, launch);
            if launch.counts {
                launch.missed = launch.missed.or(launch.ended).or(Some(now));
                missed = missed.saturating_add(1);
            }
        }
        missed
    }

    /// The pause of the demand of a pod, by the launches that were counted last.
    #[must_use]
    pub fn pause(&self, pod: &Pod, now: Timestamp) -> Option<LoopPause> {
        let record = self.record(pod, now)?;
        let further = u32::try_from(record.rounds.checked_sub(FREE)?).unwrap_or(u32::MAX);
        let length = doubled(FIRST, LONGEST, further.saturating_add(1));
        let until = record.since.checked_add(length).unwrap_or(Timestamp::MAX);
        let left = Duration::try_from(until.duration_since(now)).ok().filter(|left| !left.is_zero())?;
        Some(LoopPause {
            owner: record.owner,
            missed: record.missed,
            claim: record.claim,
            left: left.min(length),
        })
    }

    /// What is to be recorded of the demand of a pod, by the launches that were counted last; `None` where none is missed.
    #[must_use]
    pub fn record(&self, pod: &Pod, now: Timestamp) -> Option<LoopRecord> {
        let (owner, class) = (DemandOwner::of(pod), Demand::of(pod).class());
        let demands = self.by_owner.get(&owner).into_iter().flatten();
        let launches = demands.filter(|(demand, _)| demand.includes(pod)).flat_map(|(_, launches)| launches);
        let counted = launches.filter(|launch| launch.counts && !is_over(launch.at, REMEMBERED, now));
        let mut missed: Vec<(Timestamp, &Launch)> =
            counted.filter_map(|launch| Some((launch.missed?, launch))).collect();
        missed.sort_by_key(|(_, launch)| launch.at);
        let earlier = self.restored.get(&(owner.clone(), class)).filter(|record| !record.is_over(now));
        let Some((since, launch)) = missed.iter().max_by_key(|(at, _)| *at) else { return earlier.cloned() };
        Some(LoopRecord {
            owner,
            class,
            rounds: rounds(&missed).saturating_add(earlier.map_or(0, |record| record.rounds)),
            missed: missed.len().saturating_add(earlier.map_or(0, |record| record.missed)),
            claim: launch.claim.clone(),
            launched: launch.at,
            since: *since,
        })
    }

    fn retain(&mut self, stays: impl Fn(&Launch) -> bool) {
        self.by_owner.retain(|_, demands| {
            demands.iter_mut().for_each(|(_, launches)| launches.retain(&stays));
            demands.retain(|(_, launches)| !launches.is_empty());
            !demands.is_empty()
        });
        self.count = self.by_owner.values().flatten().map(|(_, launches)| launches.len()).sum();
    }
}

/// How many times nodes were launched of which all were missed: launches before the first of a round was missed are part of it.
fn rounds(missed: &[(Timestamp, &Launch)]) -> usize {
    let mut end: Option<Timestamp> = None;
    let mut rounds = 0;
    for (at, launch) in missed {
        if end.is_none_or(|end| launch.at >= end) {
            rounds += 1;
            end = Some(*at);
        }
    }
    rounds
}

/// Whether a pod that is bound, or was until `left`, ran: it was bound for [`RAN`], or completed.
#[must_use]
pub fn has_run(pod: &Pod, left: Timestamp) -> bool {
    let by_itself = pod.is_terminal() && !pod.is_terminating();
    by_itself || pod.bound_since.is_some_and(|bound| is_over(bound, RAN, left))
}

fn is_over(since: Timestamp, length: Duration, now: Timestamp) -> bool {
    since.checked_add(length).is_ok_and(|end| end <= now)
}

#[cfg(test)]
mod tests {
    //! What counts as one demand, and what pauses it.
    use jiff::SignedDuration;

    use super::*;
    use crate::testing::{now, pod};

    fn after(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    /// A pod of the Deployment `web`, by its ReplicaSet.
    fn web(name: &str, hash: &str, cpu: i64) -> Arc<Pod> {
        pod(name).cpu(cpu).label(TEMPLATE_HASH, hash).owner("ReplicaSet", &format!("web-{hash}")).build()
    }

    /// The missed nodes and the seconds of the pause, where every launch is missed.
    fn held(history: &mut LaunchHistory, pod: &Pod, seconds: i64) -> Option<(usize, u64)> {
        history.count_missed(pod, after(seconds), |_, _| true);
        history.pause(pod, after(seconds)).map(|pause| (pause.missed, pause.left.as_secs()))
    }

    #[test]
    fn a_third_node_waits_and_each_further_one_twice_as_long() {
        let mut history = LaunchHistory::default();
        let mut at = 0;
        for (number, pause) in [(1, None), (2, Some(60)), (3, Some(120)), (4, Some(240)), (5, Some(480))] {
            let pod = web(&format!("web-{number}"), "a", 1000);
            history.launched(&format!("c{number}").into(), std::slice::from_ref(&pod), after(at));
            assert_eq!(held(&mut history, &pod, at + 5), pause.map(|left| (number, left)));
            at += 5 + i64::try_from(pause.unwrap_or(0)).unwrap();
            assert_eq!(held(&mut history, &pod, at), None, "after the pause");
        }
        assert_eq!(held(&mut history, &web("web-9", "a", 1000), 3700), None, "forgotten");
    }

    #[test]
    fn nodes_that_are_launched_together_count_once() {
        let mut history = LaunchHistory::default();
        let pod = web("p", "a", 1000);
        for (round, at) in [0, 900].into_iter().enumerate() {
            for number in 0..14 {
                history.launched(&format!("c{round}-{number}").into(), std::slice::from_ref(&pod), after(at));
            }
            let expected = (round == 1).then_some((28, 60));
            assert_eq!(held(&mut history, &pod, at + 5), expected);
        }
    }

    #[test]
    fn a_demand_is_an_owner_and_a_class() {
        let mut history = LaunchHistory::default();
        for (number, hash) in ["a", "b"].into_iter().enumerate() {
            let at = i64::try_from(number).unwrap();
            history.launched(&format!("c{number}").into(), &[web("p", hash, 1000)], after(at));
            held(&mut history, &web("p", hash, 1000), at);
        }
        assert!(
            held(&mut history, &web("new", "c", 1000), 0).is_some(),
            "another ReplicaSet of the Deployment"
        );
        assert_eq!(held(&mut history, &web("new", "c", 2000), 0), None, "another class");
        let other = pod("new").cpu(1000).owner("ReplicaSet", "api-a").build();
        assert_eq!(held(&mut history, &other, 0), None, "another owner");
        let bare = |uid: &str| pod(uid).cpu(1000).with(|pod| pod.owner = None).build();
        for claim in ["d1", "d2"] {
            history.launched(&claim.into(), &[bare("x")], now());
            held(&mut history, &bare("x"), 0);
        }
        assert!(held(&mut history, &bare("x"), 0).is_some());
        assert_eq!(held(&mut history, &bare("y"), 0), None, "another pod");
    }

    #[test]
    fn a_pod_that_ran_answers_the_launches_before_it() {
        let mut history = LaunchHistory::default();
        let pod = web("p", "a", 1000);
        for (number, at) in [(1, 0), (2, 10), (3, 20)] {
            history.launched(&format!("c{number}").into(), std::slice::from_ref(&pod), after(at));
        }
        history.ran(&pod, after(12));
        assert_eq!(history.count_missed(&pod, after(30), |_, _| true), 1);
        history.ended(&"c3".into(), false, after(30));
        assert!(!history.knows(&pod), "a NodeClaim without capacity is no node");
        assert_eq!(history.count, 0);
    }

    #[test]
    fn a_restart_keeps_the_pause() {
        let (mut before, mut after_restart) = (LaunchHistory::default(), LaunchHistory::default());
        let pod = web("p", "a", 1000);
        for (claim, at) in [("c1", 0), ("c2", 10)] {
            before.launched(&claim.into(), std::slice::from_ref(&pod), after(at));
            held(&mut before, &pod, at + 5);
        }
        let record = before.record(&pod, after(20)).unwrap();
        before.restore(record.clone());
        assert_eq!(held(&mut before, &pod, 20), Some((2, 55)), "its own launches count once");
        after_restart.restore(record.clone());
        assert!(after_restart.knows(&pod) && after_restart.holds(&record));
        assert_eq!(held(&mut after_restart, &pod, 20), Some((2, 55)));
        assert_eq!(held(&mut after_restart, &web("p", "a", 2000), 20), None, "another class");
        after_restart.launched(&"c3".into(), std::slice::from_ref(&pod), after(80));
        assert_eq!(held(&mut after_restart, &pod, 85), Some((3, 120)), "the third node doubles the pause");
        assert_eq!(held(&mut after_restart.clone(), &pod, 3700), None, "forgotten");
        let mut wrong = LaunchHistory::default();
        let launched = after(7200);
        wrong.restore(LoopRecord { rounds: usize::MAX, missed: usize::MAX, launched, ..record.clone() });
        assert_eq!(held(&mut wrong, &pod, 20), None, "two hours ahead");
        after_restart.ran(&pod, after(5));
        assert!(after_restart.holds(&record), "bound before the last launch");
        after_restart.ran(&pod, after(90));
        assert!(!after_restart.holds(&record) && !after_restart.knows(&pod));
    }

    #[test]
    fn fifty_pods_of_one_nodeclaim_are_one_launch() {
        let mut history = LaunchHistory::default();
        let pods: Vec<_> = (0..50).map(|number| web(&format!("p{number}"), "a", 1000)).collect();
        history.launched(&"c".into(), &pods, now());
        assert_eq!((history.count, held(&mut history, &pods[0], 0)), (1, None));
    }
}
