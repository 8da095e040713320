//! Plays a trace in a simulator with the production controllers, and measures.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{bail, ensure};
use fleetwright_controllers::runtime::decisions::DecisionQuery;
use fleetwright_core::{decisions::DecisionRecord, model::Price};
use fleetwright_sim::{Overview, Simulator, SimulatorConfig};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    cron_jobs,
    lives::{PodLife, lives},
    objects,
    trace::{Change, Id, Trace},
    view::ReplayView,
};
use crate::{
    input::{select::identity, workloads::MAX_PODS},
    lab::pace::Pace,
};

/// Virtual time between two observations, at most.
const STEP: Duration = Duration::from_secs(5);
/// And at least, where changes follow each other.
const STEP_MIN: Duration = Duration::from_millis(500);

/// How long a replay goes on after the last change of a trace that has no pods of workloads.
const SETTLING: SignedDuration = SignedDuration::from_mins(10);

/// How long the first lists of a recording take at most, and less than a node that is launched needs to join.
const SNAPSHOT: SignedDuration = SignedDuration::from_secs(10);

/// The longest trace that is played as a whole: one wrong time makes a trace of minutes last for centuries.
const LENGTH_MAX: SignedDuration = SignedDuration::from_hours(366 * 24);

/// What is played: the same for every variant.
pub(super) struct Script {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// Objects beside pods, with their times.
    objects: Vec<(Timestamp, Change)>,
    pub(super) lives: Vec<PodLife>,
    namespaces: BTreeSet<String>,
    priorities: BTreeSet<i64>,
    classes: BTreeSet<String>,
    /// What is not played as in a cluster.
    pub(super) notes: Vec<String>,
}

impl Script {
    /// The script of a trace; `None` where it has no time.
    pub(super) fn new(trace: &Trace, until: Option<Duration>) -> Option<Self> {
        let (start, last) = trace.span()?;
        let puts = || {
            trace.changes.iter().filter_map(|(_, change)| match change {
                Change::Put(object) => Some(object),
                Change::Delete(_) => None,
            })
        };
        let has_owned_pods = puts()
            .any(|object| object["kind"] == "Pod" && object.pointer("/metadata/ownerReferences/0").is_some());
        // Nothing follows the last change of a workload, not even its pods.
        let last = if has_owned_pods { last } else { last.checked_add(SETTLING).unwrap_or(last) };
        let end = match until.and_then(|until| SignedDuration::try_from(until).ok()) {
            Some(until) => start.checked_add(until).unwrap_or(last),
            None => last,
        };
        let is_played = |kind: &str| objects::is_played(kind, has_owned_pods);
        let played = trace.changes.iter().filter(|(_, change)| match change {
            Change::Put(object) => object["kind"].as_str().is_some_and(is_played),
            Change::Delete(id) => is_played(&id.1),
        });
        let mut played: Vec<(Timestamp, Change)> = played.cloned().collect();
        let cron_jobs::CronRuns { jobs, notes } = cron_jobs::runs(&played, end);
        played.retain(|(_, change)| !cron_jobs::is_of(change));
        played.extend(jobs);
        played.extend(fleet(trace, start));
        played.sort_by_key(|(at, _)| *at);
        let namespaces = puts().filter_map(|object| object.pointer("/metadata/namespace")?.as_str());
        let of_cluster = ["default", "kube-system", ""];
        Some(Self {
            start,
            end,
            objects: played,
            lives: lives(trace),
            namespaces: namespaces.filter(|name| !of_cluster.contains(name)).map(str::to_owned).collect(),
            priorities: puts().filter_map(objects::priority).collect(),
            classes: objects::classes(puts()),
            notes,
        })
    }
}

impl Script {
    /// Checks that it can be played. A trace that is played `whole` has a maximum length.
    ///
    /// # Errors
    /// If it lasts longer, or a workload wants more pods than a cluster has.
    pub(super) fn check(&self, whole: bool) -> anyhow::Result<()> {
        let length = self.end.duration_since(self.start);
        ensure!(
            !whole || length <= LENGTH_MAX,
            "the trace lasts {} days, from {} to {}: correct what has a wrong time, or give --until",
            length.as_hours() / 24,
            self.start,
            self.end
        );
        for (at, change) in &self.objects {
            let Change::Put(object) = change else { continue };
            let wanted =
                ["/spec/replicas", "/spec/parallelism"].iter().find_map(|at| object.pointer(at)?.as_i64());
            if let Some(pods) = wanted.filter(|pods| *pods > MAX_PODS) {
                let (_, kind, namespace, name) = identity(object);
                bail!(
                    "{kind} {namespace}/{name} wants {pods} pods at {at}: a cluster has {MAX_PODS} at most"
                );
            }
        }
        Ok(())
    }
}

/// The NodeClaims whose nodes were there at the start of a trace.
fn fleet(trace: &Trace, start: Timestamp) -> impl Iterator<Item = (Timestamp, Change)> {
    let at_start = move |(at, _): &&(Timestamp, Change)| at.duration_since(start) <= SNAPSHOT;
    let mut seen = BTreeSet::new();
    trace.changes.iter().take_while(at_start).filter_map(move |(at, change)| match change {
        // One that the trace has without a node before is launched by the variant, if at all.
        Change::Put(object) if seen.insert(identity(object)) => {
            Some((*at, Change::Put(objects::launched_claim(object)?)))
        }
        Change::Put(_) => None,
        Change::Delete(_) => None,
    })
}

/// What a variant did.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    pub(super) end: Overview,
    pub(super) peak_nodes: usize,
    pub(super) peak_hourly: Price,
    /// Nano-dollars per hour times milliseconds.
    spent: i128,
    /// From the creation of each pod to its binding, in order of size.
    pub(super) waits: Vec<Duration>,
    /// Pods that had no node at the end.
    pub(super) unbound: usize,
    /// Pods that were created again because they were evicted.
    pub(super) evicted: u64,
    /// Objects that the API server refused, with the reason.
    pub(super) refused: BTreeMap<String, usize>,
    /// When the view was ended before the script.
    pub(super) stopped: Option<Duration>,
    /// The decisions as they were last, by id.
    decisions: BTreeMap<String, DecisionRecord>,
    /// The last change of a decision that was seen.
    revision: u64,
}

impl Played {
    /// What all nodes cost.
    pub(super) fn spent(&self) -> Price {
        Price::from_nanos(i64::try_from(self.spent / 3_600_000).unwrap_or(i64::MAX))
    }

    /// Notes the state after `time` without a look.
    fn observe(&mut self, overview: Overview, time: Duration) {
        let hourly: Price = overview.nodes.iter().map(|node| node.price).sum();
        self.spent += i128::from(hourly.nanos()) * i128::try_from(time.as_millis()).unwrap_or_default();
        self.peak_nodes = self.peak_nodes.max(overview.nodes.len());
        self.peak_hourly = self.peak_hourly.max(hourly);
        self.end = overview;
    }

    /// The decisions, by id.
    pub(super) fn decisions(&self) -> Vec<DecisionRecord> {
        self.decisions.values().cloned().collect()
    }

    /// Notes the decisions that changed: the controller keeps only the last ones.
    fn decided(&mut self, simulator: &Simulator) {
        let Some(ctx) = simulator.controllers() else { return };
        let ring = ctx.decisions.ring().lock();
        for record in ring.changes(self.revision, &DecisionQuery::default()) {
            self.decisions.insert(record.id.clone(), (*record).clone());
        }
        self.revision = ring.revision();
    }

    fn refuse(&mut self, error: &impl std::fmt::Display) {
        *self.refused.entry(error.to_string()).or_default() += 1;
    }
}

/// Plays the script in one simulator, which the view shows if there is one.
///
/// # Errors
/// If the simulator cannot be started, or the terminal is gone.
pub(super) async fn play(
    script: &Script,
    config: SimulatorConfig,
    pace: Pace,
    view: Option<ReplayView>,
) -> anyhow::Result<Played> {
    let simulator = Simulator::new(config).await?;
    let mut played = Played::default();
    let mut view = view.map(|view| view.on(&simulator)).transpose()?;
    let namespaces = script.namespaces.iter().map(|name| objects::namespace(name));
    let priorities = script.priorities.iter().map(|priority| objects::priority_class(*priority));
    let classes = script.classes.iter().map(|name| objects::class(name));
    for object in namespaces.chain(priorities).chain(classes) {
        simulator.apply_object(object)?;
    }
    let mut load = PlayedLoad::new(script);
    let length = Duration::try_from(script.end.duration_since(script.start)).unwrap_or_default();
    let mut elapsed = Duration::ZERO;
    loop {
        let now = script.start.checked_add(SignedDuration::try_from(elapsed)?)?;
        load.step(&simulator, now, &mut played);
        if elapsed >= length {
            break;
        }
        let next =
            load.next().map_or(STEP, |at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let step = next.clamp(STEP_MIN, STEP).min(length.saturating_sub(elapsed));
        let goes_on = match &mut view {
            Some(view) => view.run_for(&simulator, step, pace).await?,
            None => {
                let never = std::pin::pin!(std::future::pending());
                pace.run_for(&simulator, step, never, async || Ok(true)).await?
            }
        };
        let before = std::mem::replace(&mut elapsed, simulator.elapsed());
        played.observe(simulator.observe(), elapsed.saturating_sub(before));
        played.decided(&simulator);
        if !goes_on {
            played.stopped = Some(elapsed);
            break;
        }
    }
    load.finish(&simulator, &mut played);
    if let Some(view) = view.as_mut().filter(|_| played.stopped.is_none()) {
        view.stay(&simulator).await?;
    }
    Ok(played)
}

/// The load of one variant: what has been applied so far.
struct PlayedLoad<'a> {
    script: &'a Script,
    next_object: usize,
    next_life: usize,
    /// The lives that are wanted, by name.
    wanted: BTreeMap<Id, usize>,
    /// UIDs of pods whose waiting time is known.
    bound: BTreeSet<String>,
    /// Pods that were created, by name.
    created: BTreeSet<Id>,
}

impl<'a> PlayedLoad<'a> {
    fn new(script: &'a Script) -> Self {
        let (wanted, bound, created) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { script, next_object: 0, next_life: 0, wanted, bound, created }
    }

    /// Applies everything that is due.
    fn step(&mut self, simulator: &Simulator, now: Timestamp, played: &mut Played) {
        let script = self.script;
        while let Some((_, change)) = script.objects.get(self.next_object).filter(|(at, _)| *at <= now) {
            self.next_object += 1;
            let done = match change {
                Change::Put(object) => simulator.apply_object(objects::clean(object)).map(|_| ()),
                Change::Delete(id) => simulator.delete_object(&named(id)),
            };
            if let Err(error) = done {
                played.refuse(&error);
            }
        }
        while let Some(life) = script.lives.get(self.next_life).filter(|life| life.from <= now) {
            self.wanted.insert(life.id.clone(), self.next_life);
            self.next_life += 1;
        }
        let pods = self.look(simulator, played);
        let over: Vec<Id> = self
            .wanted
            .iter()
            .filter(|(_, at)| script.lives[**at].until.is_some_and(|until| until <= now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            self.wanted.remove(&id);
            self.created.remove(&id);
            if let Err(error) = simulator.delete_object(&named(&id)) {
                played.refuse(&error);
            }
        }
        let missing: Vec<(Id, usize)> = self
            .wanted
            .iter()
            .filter(|(id, _)| !pods.contains(*id))
            .map(|(id, at)| (id.clone(), *at))
            .collect();
        for (id, at) in missing {
            let life = &script.lives[at];
            match simulator.apply_object(objects::pod(&life.pod, life.runs_for)) {
                Ok(_) if self.created.contains(&id) => played.evicted += 1,
                Ok(_) => {
                    self.created.insert(id);
                }
                Err(error) => {
                    played.refuse(&error);
                    self.wanted.remove(&id);
                }
            }
        }
    }

    /// When the next change of the trace is due.
    fn next(&self) -> Option<Timestamp> {
        let object = self.script.objects.get(self.next_object).map(|(at, _)| *at);
        let life = self.script.lives.get(self.next_life).map(|life| life.from);
        let ends = self.wanted.values().filter_map(|at| self.script.lives[*at].until).min();
        [object, life, ends].into_iter().flatten().min()
    }

    /// The pods that exist, terminating ones too, and the waiting times of those that are bound.
    fn look(&mut self, simulator: &Simulator, played: &mut Played) -> BTreeSet<Id> {
        let pods = simulator.server().list("v1", "Pod", "");
        let mut found = BTreeSet::new();
        for pod in pods {
            if self.is_load(&pod)
                && let Some(wait) = wait(&pod)
                && self.bound.insert(text(&pod, "/metadata/uid").to_owned())
            {
                played.waits.push(wait);
            }
            found.insert(identity(&pod));
        }
        found
    }

    /// Whether a pod is not one of a DaemonSet.
    fn is_load(&self, pod: &Value) -> bool {
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        !owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet")
    }

    fn finish(&mut self, simulator: &Simulator, played: &mut Played) {
        self.look(simulator, played);
        let unbound = |pod: &Value| {
            let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
            self.is_load(pod) && !has_ended && text(pod, "/spec/nodeName").is_empty()
        };
        played.unbound = simulator.server().list("v1", "Pod", "").iter().filter(|pod| unbound(pod)).count();
        played.waits.sort_unstable();
    }
}

/// As [`Simulator::delete_object`] names objects.
fn named((_, kind, namespace, name): &Id) -> String {
    const CLUSTER_SCOPED: [&str; 5] =
        ["NodePool", "NodeOverlay", "StorageClass", "PersistentVolume", "Namespace"];
    if kind.ends_with("NodeClass") {
        // Those of all clouds are played as the simulator's own.
        format!("KWOKNodeClass {name}")
    } else if CLUSTER_SCOPED.contains(&&**kind) {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// From the creation of a pod to its binding.
fn wait(pod: &Value) -> Option<Duration> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let bound =
        conditions.iter().find(|known| known["type"] == "PodScheduled" && known["status"] == "True")?;
    let at: Timestamp = bound["lastTransitionTime"].as_str()?.parse().ok()?;
    let created: Timestamp = text(pod, "/metadata/creationTimestamp").parse().ok()?;
    Some(Duration::try_from(at.duration_since(created)).unwrap_or_default())
}
