//! The launch-loop breaker: nodes that are launched for a demand whose pods never run on them.
//!
//! A pod that is preempted, evicted or created again by its controller has another UID and is the same [`Demand`]. Whatever
//! keeps its pods off their nodes, a demand that has missed its nodes [`FREE`] times gets the next one only after a pause, which
//! doubles each further time. A launch is missed once its NodeClaim ends, or has an initialized node and lost all the pods that it was
//! created for. It is answered once one of these pods has run anywhere for [`RAN`] or has completed, or any pod of the demand has on its
//! node. Pods of the demand that run elsewhere answer nothing, so that a loop within a large workload shows; each time that launches are
//! answered makes up for one missed time before.
//!
//! A restart continues from two records: what is missed is on the NodePool ([`LoopRecord`]), and NodeClaims name the demands that they were
//! created for ([`Demand::key`]).

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
/// How often old launches are forgotten.
const SWEPT_EVERY: Duration = Duration::from_secs(60);
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

    /// A hash of owner and pod class, by which a NodeClaim names the demands that it was created for.
    #[must_use]
    pub fn key(&self) -> u64 {
        fnv1a_64(format!("{} {:016x}", self.owner, self.class()).into_bytes())
    }

    /// Whether a pod belongs to it.
    #[must_use]
    pub fn includes(&self, pod: &Pod) -> bool {
        (Arc::ptr_eq(&self.spec, &pod.spec) || self.spec == pod.spec) && self.owner == DemandOwner::of(pod)
    }
}

/// Values of demands, found by a pod: among thousands of demands most differ in their owner.
#[derive(Clone, Debug)]
pub struct ByDemand<T>(BTreeMap<DemandOwner, Vec<(Demand, T)>>);

impl<T> Default for ByDemand<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> ByDemand<T> {
    /// The value of the demand that a pod belongs to; a new one is the result of `new`.
    pub fn get_or_insert_with(&mut self, pod: &Pod, new: impl FnOnce() -> T) -> &mut T {
        let demands = self.0.entry(DemandOwner::of(pod)).or_default();
        let known = demands.iter().position(|(demand, _)| demand.includes(pod));
        let at = known.unwrap_or(demands.len());
        if known.is_none() {
            demands.push((Demand::of(pod), new()));
        }
        &mut demands[at].1
    }
}

impl<T> IntoIterator for ByDemand<T> {
    type Item = (Demand, T);
    type IntoIter =
        std::iter::Flatten<std::collections::btree_map::IntoValues<DemandOwner, Vec<(Demand, T)>>>;

    /// By owner.
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_values().flatten()
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
    /// Whether an earlier process created it: `pods` are then all that the NodeClaim names, of other demands and with a node too.
    pub is_restored: bool,
    /// When the NodeClaim was deleted, if it was launched by then.
    pub ended: Option<Timestamp>,
    /// Since when it is missed, by the first count that found it so. It counts until it is answered: a pod that comes to the node later has
    /// to run there first, for the next one may be preempted too.
    missed: Option<Timestamp>,
    /// When it was found to be answered.
    answered: Option<Timestamp>,
}

impl Launch {
    fn new(claim: ClaimName, pods: BTreeSet<PodUid>, at: Timestamp) -> Self {
        Self { claim, pods, at, is_restored: false, ended: None, missed: None, answered: None }
    }

    /// Since when it counts as missed.
    fn missed(&self) -> Option<Timestamp> {
        self.missed.filter(|_| self.answered.is_none())
    }
}

/// What became of a launch, as far as its NodeClaim and pods show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchOutcome {
    /// Pods may still run on its node.
    Open,
    /// No pod of its demand ran on its node.
    Missed,
    /// A pod that it was created for ran, or another pod of its demand on its node.
    Answered,
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
    /// How many times nodes were launched of which all were missed, less those that were answered since.
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
    /// NodeClaims that this process created.
    own: BTreeSet<ClaimName>,
    /// Launches of an earlier process whose demands no pod has shown yet.
    unclaimed: UnclaimedLaunches,
    swept: Option<Timestamp>,
}

/// Launches by NodeClaim, with the keys of the demands that they were for.
#[derive(Clone, Debug, Default)]
struct UnclaimedLaunches {
    by_claim: BTreeMap<ClaimName, (Launch, BTreeSet<u64>)>,
    by_key: BTreeMap<u64, BTreeSet<ClaimName>>,
}

impl UnclaimedLaunches {
    fn insert(&mut self, launch: Launch, keys: BTreeSet<u64>) {
        for key in &keys {
            self.by_key.entry(*key).or_default().insert(launch.claim.clone());
        }
        self.by_claim.insert(launch.claim.clone(), (launch, keys));
    }

    fn remove(&mut self, claim: &ClaimName) {
        let Some((_, keys)) = self.by_claim.remove(claim) else { return };
        for key in keys {
            if let Some(claims) = self.by_key.get_mut(&key) {
                claims.remove(claim);
                if claims.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    /// Whether there is a launch for the demand of a pod. Without launches it costs nothing: a key takes longer than an owner.
    fn knows(&self, pod: &Pod) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(&Demand::of(pod).key())
    }

    /// Takes the launches for a demand.
    fn take(&mut self, key: u64) -> Vec<Launch> {
        let claims = self.by_key.remove(&key).unwrap_or_default();
        let mut launches = Vec::new();
        for claim in claims {
            let Some((launch, keys)) = self.by_claim.get_mut(&claim) else { continue };
            launches.push(launch.clone());
            keys.remove(&key);
            if keys.is_empty() {
                self.by_claim.remove(&claim);
            }
        }
        launches
    }
}

impl LaunchHistory {
    /// Records that a NodeClaim was created for `pods`. Those that have a node are not counted: they ran, and another one replaces it.
    pub fn launched(&mut self, claim: &ClaimName, pods: &[Arc<Pod>], now: Timestamp) {
        self.sweep(now);
        self.unclaimed.remove(claim);
        self.own.insert(claim.clone());
        for pod in pods.iter().filter(|pod| is_launched_for(pod)) {
            if self.count >= BOUND {
                return;
            }
            let launches = self.launches_of(Demand::of(pod));
            match launches.last_mut().filter(|launch| launch.claim == *claim) {
                Some(launch) => drop(launch.pods.insert(pod.uid.clone())),
                None => {
                    launches.push(Launch::new(claim.clone(), BTreeSet::from([pod.uid.clone()]), now));
                    self.count += 1;
                }
            }
        }
    }

    /// The launches for a demand, to add to.
    fn launches_of(&mut self, demand: Demand) -> &mut Vec<Launch> {
        let demands = self.by_owner.entry(demand.owner.clone()).or_default();
        let same = |known: &Demand| Arc::ptr_eq(&known.spec, &demand.spec) || known.spec == demand.spec;
        let position = demands.iter().position(|(known, _)| same(known)).unwrap_or(demands.len());
        if position == demands.len() {
            demands.push((demand, Vec::new()));
        }
        &mut demands[position].1
    }

    /// Forgets what is older than an hour, once a minute.
    fn sweep(&mut self, now: Timestamp) {
        if self.swept.is_some_and(|swept| !is_over(swept, SWEPT_EVERY, now) && swept <= now) {
            return;
        }
        self.swept = Some(now);
        self.retain(|launch| !is_over(launch.at, REMEMBERED, now));
        self.restored.retain(|_, record| !record.is_over(now));
        let launches = self.by_owner.values().flatten().flat_map(|(_, launches)| launches);
        let remembered: BTreeSet<&ClaimName> = launches.map(|launch| &launch.claim).collect();
        self.own.retain(|claim| remembered.contains(claim));
        let old = |(launch, _): &&(Launch, BTreeSet<u64>)| is_over(launch.at, REMEMBERED, now);
        let old: Vec<ClaimName> =
            self.unclaimed.by_claim.values().filter(old).map(|(launch, _)| launch.claim.clone()).collect();
        old.iter().for_each(|claim| self.unclaimed.remove(claim));
    }

    /// Records that a NodeClaim is deleted. One that was never launched is no node: it is forgotten.
    pub fn ended(&mut self, claim: &ClaimName, was_launched: bool, at: Timestamp) {
        if was_launched {
            let all = self.by_owner.values_mut().flatten().flat_map(|(_, launches)| launches);
            let unclaimed = self.unclaimed.by_claim.get_mut(claim).map(|(launch, _)| launch);
            for launch in all.filter(|launch| launch.claim == *claim).chain(unclaimed) {
                launch.ended.get_or_insert(at);
            }
        } else {
            self.unclaimed.remove(claim);
            self.retain(|launch| launch.claim != *claim);
        }
    }

    /// Records that a pod ran, on the node of `claim` if that has one: it answers the launches for itself and, for its demand, that of the
    /// node.
    pub fn ran(&mut self, pod: &Pod, claim: Option<&ClaimName>, now: Timestamp) {
        self.adopt(pod);
        let Some(demands) = self.by_owner.get_mut(&DemandOwner::of(pod)) else { return };
        let launches = demands.iter_mut().filter(|(demand, _)| demand.includes(pod)).flat_map(|(_, all)| all);
        for launch in launches.filter(|launch| launch.pods.contains(&pod.uid) || claim == Some(&launch.claim))
        {
            launch.answered.get_or_insert(now);
        }
    }

    /// Whether launches for the demand of this pod are remembered.
    #[must_use]
    pub fn knows(&self, pod: &Pod) -> bool {
        (!self.by_owner.is_empty() && self.by_owner.contains_key(&DemandOwner::of(pod)))
            || self.restored_key(pod).is_some()
            || self.unclaimed.knows(pod)
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

    /// Takes over a NodeClaim that an earlier process created for `pods` of the demands with these keys.
    pub fn restore_launch(
        &mut self,
        claim: &ClaimName,
        keys: BTreeSet<u64>,
        pods: BTreeSet<PodUid>,
        at: Timestamp,
    ) {
        let known = self.own.contains(claim) || self.unclaimed.by_claim.contains_key(claim);
        if keys.is_empty() || known || self.unclaimed.by_claim.len() >= BOUND {
            return;
        }
        let launch = Launch { is_restored: true, ..Launch::new(claim.clone(), pods, at) };
        self.unclaimed.insert(launch, keys);
    }

    /// Moves the launches of an earlier process for the demand of a pod to those of this process. Those that its record includes stay out.
    fn adopt(&mut self, pod: &Pod) {
        if !self.unclaimed.knows(pod) {
            return;
        }
        let demand = Demand::of(pod);
        let adopted = self.unclaimed.take(demand.key());
        let record = self.restored.get(&(demand.owner.clone(), demand.class()));
        // The time of a NodeClaim has whole seconds.
        let counted = record.map(|record| record.launched.as_second());
        let launches = self.launches_of(demand);
        let before = launches.len();
        for launch in
            adopted.into_iter().filter(|launch| counted.is_none_or(|last| launch.at.as_second() > last))
        {
            if !launches.iter().any(|known| known.claim == launch.claim) {
                launches.push(launch);
            }
        }
        let added = launches.len() - before;
        self.count = self.count.saturating_add(added);
    }

    /// Whether a record is still true: its launches are remembered, and no later ones made up for them.
    #[must_use]
    pub fn holds(&self, record: &LoopRecord, now: Timestamp) -> bool {
        let demands = self.by_owner.get(&record.owner).into_iter().flatten();
        match demands.into_iter().find(|(demand, _)| demand.class() == record.class) {
            Some((_, launches)) => self.balance(&record.owner, record.class, launches, now).is_some(),
            None => self.restored.contains_key(&(record.owner.clone(), record.class)),
        }
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

    /// Judges the launches for the demand of a pod that are not answered yet.
    pub fn judge(&mut self, pod: &Pod, now: Timestamp, outcome: impl Fn(&Demand, &Launch) -> LaunchOutcome) {
        self.adopt(pod);
        let Some(demands) = self.by_owner.get_mut(&DemandOwner::of(pod)) else { return };
        let Some((demand, launches)) = demands.iter_mut().find(|(demand, _)| demand.includes(pod)) else {
            return;
        };
        for launch in launches.iter_mut().filter(|launch| launch.answered.is_none()) {
            match outcome(demand, launch) {
                LaunchOutcome::Open => {}
                LaunchOutcome::Missed => launch.missed = launch.missed.or(launch.ended).or(Some(now)),
                LaunchOutcome::Answered => launch.answered = Some(now),
            }
        }
    }

    /// The pause of the demand of a pod, by the launches that were judged last.
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

    /// What is to be recorded of the demand of a pod, by the launches that were judged last; `None` where none is missed.
    #[must_use]
    pub fn record(&self, pod: &Pod, now: Timestamp) -> Option<LoopRecord> {
        let owner = DemandOwner::of(pod);
        let demands = self.by_owner.get(&owner).into_iter().flatten();
        let launches: &[Launch] = demands
            .into_iter()
            .find(|(demand, _)| demand.includes(pod))
            .map_or(&[], |(_, all)| all.as_slice());
        if self.restored.is_empty() && launches.iter().all(|launch| launch.missed().is_none()) {
            return None;
        }
        self.balance(&owner, Demand::of(pod).class(), launches, now)
    }

    /// What is missed of `launches` and of the record of an earlier process, less what was answered since, for the missed launch since which
    /// that is most: answered launches do not make up for those that are missed later.
    fn balance(
        &self,
        owner: &DemandOwner,
        class: u64,
        launches: &[Launch],
        now: Timestamp,
    ) -> Option<LoopRecord> {
        let remembered = || launches.iter().filter(|launch| !is_over(launch.at, REMEMBERED, now));
        let mut missed: Vec<(Timestamp, &Launch)> =
            remembered().filter_map(|launch| Some((launch.missed()?, launch))).collect();
        missed.sort_by_key(|(_, launch)| launch.at);
        let mut answered: Vec<(Timestamp, &Launch)> =
            remembered().filter_map(|launch| Some((launch.answered?, launch))).collect();
        answered.sort_by_key(|(_, launch)| launch.at);
        let earlier =
            self.restored.get(&(owner.clone(), class)).filter(|record| !record.is_over(now)).cloned();
        let less = |missed: usize, start: Timestamp| missed.saturating_sub(rounds(from(&answered, start)));
        let recorded = earlier
            .as_ref()
            .map(|record| less(record.rounds.saturating_add(rounds(&missed)), record.launched));
        let mut starts: Vec<Timestamp> = missed.iter().map(|(_, launch)| launch.at).collect();
        starts.dedup();
        let own = starts.into_iter().map(|start| less(rounds(from(&missed, start)), start));
        let rounds = own.chain(recorded).max().filter(|rounds| *rounds > 0)?;
        Some(match missed.iter().max_by_key(|(at, _)| *at) {
            None => LoopRecord { rounds, ..earlier? },
            Some((since, launch)) => LoopRecord {
                owner: owner.clone(),
                class,
                rounds,
                missed: missed.len().saturating_add(earlier.as_ref().map_or(0, |record| record.missed)),
                claim: launch.claim.clone(),
                launched: launch.at,
                since: *since,
            },
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

/// The launches since a time; `launches` are sorted by their creation.
fn from<'a, 'l>(launches: &'l [(Timestamp, &'a Launch)], start: Timestamp) -> &'l [(Timestamp, &'a Launch)] {
    &launches[launches.partition_point(|(_, launch)| launch.at < start)..]
}

/// How many times nodes were launched that all had this end: launches before the first end of a round are part of it. `launches` are
/// sorted by their creation; which of those of one second comes first does not matter.
fn rounds(launches: &[(Timestamp, &Launch)]) -> usize {
    let mut first_end: Option<Timestamp> = None;
    let mut rounds = 0;
    for (end, launch) in launches {
        first_end = match first_end.filter(|first| launch.at < *first) {
            Some(first) => Some(first.min(*end)),
            None => {
                rounds += 1;
                Some(*end)
            }
        };
    }
    rounds
}

/// Whether a NodeClaim for this pod is a launch for its demand: it waits for a node.
#[must_use]
pub fn is_launched_for(pod: &Pod) -> bool {
    !pod.is_virtual && pod.node.is_none()
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
mod tests;
