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

/// The launches of the last hour, by demand. It belongs to the process: a restart forgets it.
#[derive(Clone, Debug, Default)]
pub struct LaunchHistory {
    by_owner: BTreeMap<DemandOwner, Vec<(Demand, Vec<Launch>)>>,
    count: usize,
}

impl LaunchHistory {
    /// Records that a NodeClaim was created for `pods`.
    pub fn launched(&mut self, claim: &ClaimName, pods: &[Arc<Pod>], now: Timestamp) {
        self.retain(|launch| !is_over(launch.at, REMEMBERED, now));
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
        !self.by_owner.is_empty() && self.by_owner.contains_key(&DemandOwner::of(pod))
    }

    /// Counts the launches for the demand of a pod that `is_missed`; returns their number.
    pub fn count_missed(
        &mut self,
        pod: &Pod,
        now: Timestamp,
        is_missed: impl Fn(&Demand, &Launch) -> bool,
    ) -> usize {
        let Some(demands) = self.by_owner.get_mut(&DemandOwner::of(pod)) else { return 0 };
        let Some((demand, launches)) = demands.iter_mut().find(|(demand, _)| demand.includes(pod)) else {
            return 0;
        };
        let mut missed = 0;
        for launch in launches.iter_mut().filter(|launch| !is_over(launch.at, REMEMBERED, now)) {
            launch.counts = is_missed(demand, launch);
            if launch.counts {
                launch.missed = launch.missed.or(launch.ended).or(Some(now));
                missed += 1;
            }
        }
        missed
    }

    /// The pause of the demand of a pod, by the launches that were counted last.
    #[must_use]
    pub fn pause(&self, pod: &Pod, now: Timestamp) -> Option<LoopPause> {
        let owner = DemandOwner::of(pod);
        let (_, launches) = self.by_owner.get(&owner)?.iter().find(|(demand, _)| demand.includes(pod))?;
        let counted = launches.iter().filter(|launch| launch.counts && !is_over(launch.at, REMEMBERED, now));
        let mut missed: Vec<(Timestamp, &Launch)> =
            counted.filter_map(|launch| Some((launch.missed?, launch))).collect();
        missed.sort_by_key(|(_, launch)| launch.at);
        let further = u32::try_from(rounds(&missed).checked_sub(FREE)?).unwrap_or(u32::MAX);
        let (last, launch) = missed.iter().max_by_key(|(at, _)| *at)?;
        let length = doubled(FIRST, LONGEST, further.saturating_add(1));
        let until = last.checked_add(length).unwrap_or(Timestamp::MAX);
        let left = Duration::try_from(until.duration_since(now)).ok().filter(|left| !left.is_zero())?;
        Some(LoopPause { owner, missed: missed.len(), claim: launch.claim.clone(), left: left.min(length) })
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
    fn fifty_pods_of_one_nodeclaim_are_one_launch() {
        let mut history = LaunchHistory::default();
        let pods: Vec<_> = (0..50).map(|number| web(&format!("p{number}"), "a", 1000)).collect();
        history.launched(&"c".into(), &pods, now());
        assert_eq!((history.count, held(&mut history, &pods[0], 0)), (1, None));
    }
}
