//! S21: a demand, the pods of one owner that request the same, that missed two nodes gets the next one only after a pause.
//!
//! A launch is missed if its instance existed and none of the pods that it was for ran for a minute or completed, nor any pod of the demand on
//! its node: from the end of its NodeClaim on, or since its node is initialized and no pod that it was for waits for it any more. Launches
//! before the first end of a round are part of it, and a round that is answered makes up for one that was missed before, not for a later one.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

/// How many times nodes may be missed before a pause.
const FREE: usize = 2;
/// How long a pod is bound until it ran.
const RAN: Duration = Duration::from_secs(60);
/// The pause after [`FREE`] missed nodes; it doubles.
const FIRST: Duration = Duration::from_secs(60);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How long launches count.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// An observation is up to a second late, and the time of a deletion has whole seconds.
const SLACK: Duration = Duration::from_secs(5);

/// Owner, and what a pod requests.
type Demand = (String, String);

/// A NodeClaim that was created for pods of a demand.
struct Launch {
    claim: String,
    pods: BTreeSet<String>,
    at: Duration,
    launched: bool,
    /// When its NodeClaim began to be deleted.
    ended: Option<Duration>,
    missed: Option<Duration>,
    /// Whether it is missed now: a pod that it was for may be on a node again.
    counts: bool,
    answered: Option<Duration>,
}

/// A pod that exists or has existed.
struct KnownPod {
    demand: Arc<Demand>,
    /// Since when it is bound.
    bound: Option<Duration>,
    /// `None` if it is gone.
    view: Option<Arc<PodView>>,
}

/// S21.
#[derive(Default)]
pub(super) struct Launches {
    /// Pods by UID, also those that are gone.
    pods: HashMap<String, KnownPod>,
    /// The pods that exist, by node and key.
    by_node: HashMap<String, BTreeMap<String, Arc<PodView>>>,
    claims: BTreeSet<String>,
    by_demand: BTreeMap<Arc<Demand>, Vec<Launch>>,
    /// Each demand once, so that most comparisons are of addresses.
    demands: BTreeSet<Arc<Demand>>,
}

impl Check for Launches {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        self.see_pods(observation);
        // With wrong clocks the end of a pause is unknown.
        if observation.interventions.skewed {
            return;
        }
        self.judge(observation);
        for claim in &observation.claims {
            if self.claims.insert(text(claim, "/metadata/uid").to_owned()) {
                self.see_claim(observation, claim, found);
            }
        }
    }
}

impl Launches {
    fn see_pods(&mut self, observation: &Observation<'_>) {
        for change in &observation.pod_changes {
            match change {
                PodChange::Left(pod) => {
                    if let Some(known) = self.pods.get_mut(&pod.uid) {
                        known.view = None;
                    }
                    let empty = self.by_node.get_mut(&pod.node).is_some_and(|pods| {
                        pods.remove(&pod.key);
                        pods.is_empty()
                    });
                    if empty {
                        self.by_node.remove(&pod.node);
                    }
                }
                PodChange::Came(pod) => {
                    let demands = &mut self.demands;
                    let fresh =
                        || KnownPod { demand: interned(demands, demand(pod)), bound: None, view: None };
                    let known = self.pods.entry(pod.uid.clone()).or_insert_with(fresh);
                    if !pod.node.is_empty() {
                        known.bound.get_or_insert(observation.at);
                    }
                    known.view = Some(pod.clone());
                    self.by_node.entry(pod.node.clone()).or_default().insert(pod.key.clone(), pod.clone());
                }
            }
        }
    }

    /// A NodeClaim for pods without a node. One that is seen bound for the first time was bound after the NodeClaim was planned.
    fn see_claim(&mut self, observation: &Observation<'_>, claim: &Value, found: &mut Findings) {
        let mut demands: BTreeMap<Arc<Demand>, BTreeSet<String>> = BTreeMap::new();
        for uid in nominated(claim) {
            let known = self.pods.get(uid);
            if let Some(pod) = known.filter(|pod| pod.bound.is_none_or(|bound| bound == observation.at)) {
                demands.entry(pod.demand.clone()).or_default().insert(uid.to_owned());
            }
        }
        for (demand, pods) in demands {
            let launches = self.by_demand.entry(demand.clone()).or_default();
            launches.retain(|launch| observation.at.saturating_sub(launch.at) < REMEMBERED);
            if let Some((missed, pause, since)) = pause(launches, observation.at)
                && observation.at.saturating_sub(since).saturating_add(SLACK) < pause
            {
                let what = format!(
                    "claim {} is created for {} {:?} after it missed the last of {missed} nodes; {pause:?} is the pause",
                    name(claim),
                    demand.0,
                    observation.at.saturating_sub(since)
                );
                found.add("S21", what, [claim]);
            }
            let claim = name(claim).to_owned();
            let at = observation.at;
            launches.push(Launch {
                claim,
                pods,
                at,
                launched: false,
                ended: None,
                missed: None,
                counts: false,
                answered: None,
            });
        }
    }

    fn judge(&mut self, observation: &Observation<'_>) {
        let claims = observation.claims_by_name();
        for launches in self.by_demand.values_mut() {
            launches.retain(|launch| launch.launched || claims.contains_key(launch.claim.as_str()));
        }
        if self.by_demand.values().flatten().all(|launch| launch.answered.is_some()) {
            return;
        }
        let ran = |(known, pod): &(&KnownPod, &PodView)| {
            let over = pod.has_ended && !pod.is_deleting;
            over || known
                .bound
                .is_some_and(|bound| observation.at.saturating_sub(bound).saturating_add(SLACK) >= RAN)
        };
        let known = |uid: &String| {
            let known = self.pods.get(uid)?;
            Some((known, known.view.as_deref()?))
        };
        for (demand_of, launches) in &mut self.by_demand {
            for launch in launches.iter_mut().filter(|launch| launch.answered.is_none()) {
                let claim = claims.get(launch.claim.as_str());
                launch.launched |= claim.is_some_and(|claim| !text(claim, "/status/providerID").is_empty());
                let node = claim.map(|claim| text(claim, "/status/nodeName")).filter(|node| !node.is_empty());
                let on_node = node.and_then(|node| self.by_node.get(node)).into_iter().flatten();
                let on_node = on_node.filter_map(|(_, pod)| Some((self.pods.get(&pod.uid)?, &**pod)));
                let mut there: Vec<(&KnownPod, &PodView)> = launch.pods.iter().filter_map(known).collect();
                let is_active = |pod: &PodView| !pod.is_deleting && !pod.has_ended;
                let intended: Vec<&PodView> =
                    there.iter().map(|(_, pod)| *pod).filter(|pod| is_active(pod)).collect();
                there.extend(on_node.filter(|(known, _)| known.demand == *demand_of));
                if there.iter().any(ran) {
                    launch.answered = Some(observation.at);
                }
                let alive = claim.is_some_and(|claim| !is_deleting(claim));
                if !alive {
                    launch.ended.get_or_insert(observation.at);
                }
                let used = there.iter().any(|(_, pod)| is_active(pod) && !pod.node.is_empty());
                // A pod that the NodeClaim no longer names is planned elsewhere.
                let missed = |claim: &Value| {
                    let names = LazyCell::new(|| nominated(claim).collect::<BTreeSet<&str>>());
                    is(claim, "Initialized") && !intended.iter().any(|pod| names.contains(pod.uid.as_str()))
                };
                let lost = || !alive || claim.is_some_and(|claim| missed(claim));
                launch.counts = launch.launched && !used && lost();
                if launch.counts {
                    launch.missed.get_or_insert_with(|| launch.ended.unwrap_or(observation.at));
                }
            }
        }
    }
}

fn interned(known: &mut BTreeSet<Arc<Demand>>, demand: Demand) -> Arc<Demand> {
    if let Some(known) = known.get(&demand) {
        return known.clone();
    }
    let demand = Arc::new(demand);
    known.insert(demand.clone());
    demand
}

/// The UIDs of the pods that a NodeClaim names.
fn nominated(claim: &Value) -> impl Iterator<Item = &str> {
    let pods = annotation(claim, "fleetwright.dev/nominated-pods").split(',');
    pods.filter_map(|pod| pod.rsplit_once(':')).map(|(_, uid)| uid)
}

/// How many nodes were missed, the pause after them, and since when; `None` as long as there is none. What is seen `now` for the first time
/// may have happened after the NodeClaim was created.
fn pause(launches: &[Launch], now: Duration) -> Option<(usize, Duration, Duration)> {
    let missed = launches.iter().filter(|launch| launch.counts && launch.answered.is_none());
    let missed = missed.filter(|launch| launch.missed.is_some_and(|missed| missed < now));
    let missed: Vec<(Duration, Duration)> =
        missed.filter_map(|launch| Some((launch.at, launch.missed?))).collect();
    let answered: Vec<(Duration, Duration)> =
        launches.iter().filter_map(|launch| Some((launch.at, launch.answered?))).collect();
    let less = |start: Duration| rounds(&missed, start).saturating_sub(rounds(&answered, start));
    let further = missed.iter().map(|(at, _)| less(*at)).max()?.checked_sub(FREE)?;
    let since = missed.iter().map(|(_, end)| *end).max()?;
    let pause = FIRST.saturating_mul(1 << further.min(10)).min(LONGEST);
    Some((missed.len(), pause, since))
}

/// How many times nodes were launched since `start`, by start and end: launches that start before the first end of a round are part of it,
/// also those that are seen together with it, for which of both came first is not known.
fn rounds(launches: &[(Duration, Duration)], start: Duration) -> usize {
    let mut rounds: Vec<Duration> = Vec::new();
    for (at, end) in launches.iter().filter(|(at, _)| *at >= start) {
        match rounds.last_mut().filter(|first| at <= first) {
            Some(first) => *first = (*first).min(*end),
            None => rounds.push(*end),
        }
    }
    rounds.len()
}

/// The owner of a pod, a Deployment by the name of its ReplicaSet, and the resources that it requests.
fn demand(pod: &Value) -> Demand {
    let owners = field(pod, "/metadata/ownerReferences").and_then(Value::as_array);
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    let named = owner.map_or_else(
        || format!("pod {}", text(pod, "/metadata/uid")),
        |owner| {
            let name = owner["name"].as_str().unwrap_or_default();
            let hash = label(pod, "pod-template-hash");
            let name = name.strip_suffix(hash).filter(|_| !hash.is_empty()).unwrap_or(name);
            format!("{} {name}", owner["kind"].as_str().unwrap_or_default())
        },
    );
    let containers = field(pod, "/spec/containers").and_then(Value::as_array);
    let requests = containers.into_iter().flatten().map(|one| one["resources"]["requests"].to_string());
    (named, requests.collect::<Vec<_>>().join("+"))
}

#[cfg(test)]
mod tests {
    //! Which launches make a pause.
    use rstest::rstest;

    use super::*;

    fn launch((at, missed, answered): (u64, Option<u64>, Option<u64>)) -> Launch {
        Launch {
            claim: format!("c{at}"),
            pods: BTreeSet::new(),
            at: Duration::from_secs(at),
            launched: true,
            ended: None,
            missed: missed.map(Duration::from_secs),
            counts: missed.is_some(),
            answered: answered.map(Duration::from_secs),
        }
    }

    #[rstest]
    #[case::once(&[(0, Some(40), None)], None)]
    #[case::twice(&[(0, Some(40), None), (41, Some(80), None)], Some((2, 60, 80)))]
    #[case::three_times(&[(0, Some(40), None), (41, Some(80), None), (150, Some(200), None)], Some((3, 120, 200)))]
    #[case::in_one_step(&[(0, Some(40), None), (40, Some(80), None)], None)]
    #[case::together(&[(0, Some(40), None), (1, Some(80), None)], None)]
    #[case::after_the_first_of_two(&[(0, Some(60), None), (0, Some(40), None), (41, Some(80), None)], Some((3, 60, 80)))]
    #[case::an_answer_makes_up(&[(0, Some(40), None), (41, Some(80), None), (150, None, Some(220))], None)]
    #[case::not_for_later_ones(&[(0, Some(40), None), (41, None, Some(110)), (120, Some(150), None), (151, Some(180), None)], Some((3, 60, 180)))]
    #[case::an_answer_before_does_not(&[(0, None, Some(70)), (75, Some(90), None), (91, Some(99), None)], Some((2, 60, 99)))]
    #[case::a_pod_came_back(&[(0, Some(40), Some(90)), (41, Some(80), None)], None)]
    fn launches_make_a_pause(
        #[case] launches: &[(u64, Option<u64>, Option<u64>)],
        #[case] expected: Option<(usize, u64, u64)>,
    ) {
        let launches: Vec<Launch> = launches.iter().copied().map(launch).collect();
        let found = pause(&launches, Duration::MAX)
            .map(|(missed, pause, since)| (missed, pause.as_secs(), since.as_secs()));
        assert_eq!(found, expected);
    }

    #[test]
    fn pods_of_one_owner_and_size_are_one_demand() {
        let pod = |set: &str, hash: &str, cpu: &str| {
            serde_json::json!({
                "metadata": {"uid": set, "labels": {"pod-template-hash": hash},
                    "ownerReferences": [{"kind": "ReplicaSet", "name": format!("{set}-{hash}"), "controller": true}]},
                "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
            })
        };
        let web = demand(&pod("web", "a", "1"));
        assert_eq!(web, demand(&pod("web", "b", "1")), "after a rollout");
        assert_ne!(web, demand(&pod("api", "a", "1")));
        assert_ne!(web, demand(&pod("web", "a", "2")));
    }
}
