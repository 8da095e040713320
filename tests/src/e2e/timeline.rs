//! What happens to pods and NodeClaims, as watches tell it: what a price is measured by, and what disruption is judged by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tokio::time::Instant;

use super::fleet::{condition, is_true, name};
use super::ledger::is_tainted;
use super::rest::Rest;
use super::watches::Watches;

/// A pod from its creation on. Times are since the start of the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodLife {
    pub(crate) name: String,
    /// UID of the controller that replaces it; empty without one.
    pub(crate) owner: String,
    pub(crate) created: Duration,
    /// When it was bound, and to which node.
    pub(crate) bound: Option<(Duration, String)>,
    /// When it was evicted, by the eviction API.
    pub(crate) evicted: Option<Duration>,
    /// When it began to terminate, or was gone.
    pub(crate) ended: Option<Duration>,
    /// Whether a DaemonSet created it.
    pub(crate) is_daemon: bool,
    /// What kube-scheduler last said against it: the message of its condition `PodScheduled`.
    pub(crate) refusal: String,
    /// CPU in millicores and memory in bytes.
    pub(crate) requests: [i64; 2],
}

/// A NodeClaim from its creation on.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClaimLife {
    pub(crate) name: String,
    pub(crate) created: Duration,
    pub(crate) initialized: Option<Duration>,
    pub(crate) node: String,
    /// The disruption command that takes it: the last one that was written to it.
    pub(crate) command: Option<String>,
    /// Why: the reason of the condition `DisruptionReason`.
    pub(crate) reason: String,
    /// The disruption command that it is a replacement of.
    pub(crate) replaces: Option<String>,
    /// UIDs of the pods that it was launched for.
    pub(crate) pods: Vec<String>,
}

/// A node from the time on at which it is ready.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeLife {
    pub(crate) ready: Duration,
    /// When it got the taint of disruption, or was deleted.
    pub(crate) ended: Option<Duration>,
    /// Allocatable CPU in millicores and memory in bytes.
    pub(crate) allocatable: [i64; 2],
}

/// Pods and NodeClaims by UID.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    pub(crate) pods: BTreeMap<String, PodLife>,
    pub(crate) claims: BTreeMap<String, ClaimLife>,
    /// Nodes that have been ready, by name.
    pub(crate) nodes: BTreeMap<String, NodeLife>,
    /// The time of the last look.
    pub(crate) now: Duration,
}

/// A record that is being written. Dropping it ends the recording.
pub(crate) struct Recorder {
    state: Arc<Mutex<Timeline>>,
    told: BTreeSet<String>,
    start: Instant,
    watches: Watches,
}

type Note = fn(&mut Timeline, Duration, bool, &Value);

impl Recorder {
    /// Records from now on.
    pub(crate) async fn start(client: kube::Client) -> anyhow::Result<Self> {
        let (state, start) = (Arc::new(Mutex::new(Timeline::default())), Instant::now());
        let mut watches = Watches::default();
        for (path, note) in [
            ("/api/v1/pods", note_pod as Note),
            ("/apis/karpenter.sh/v1/nodeclaims", note_claim),
            ("/api/v1/nodes", note_node),
        ] {
            let list = Rest::new(client.clone()).get(path).await?;
            let list = list.with_context(|| format!("{path} is not served"))?;
            let version = list["metadata"]["resourceVersion"].as_str().context("a list without version")?;
            let state = state.clone();
            watches.add(client.clone(), path, version, move |gone, object: Value| {
                note(&mut lock(&state), start.elapsed(), gone, &object);
                Ok(())
            });
        }
        Ok(Self { state, told: BTreeSet::new(), start, watches })
    }

    /// Time since the start of the record.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// What happened so far.
    ///
    /// # Errors
    /// If a watch has ended: its later events are missing.
    pub(crate) async fn so_far(&mut self) -> anyhow::Result<Timeline> {
        self.watches.check().await?;
        let mut timeline = lock(&self.state).clone();
        timeline.now = self.elapsed();
        Ok(timeline)
    }

    /// The names of pods that were bound and that no earlier call returned.
    pub(crate) fn newly_bound(&mut self) -> Vec<String> {
        let state = lock(&self.state);
        let bound = state.pods.iter().filter(|(_, pod)| pod.bound.is_some());
        let fresh = bound.filter(|(uid, _)| self.told.insert((*uid).clone()));
        fresh.map(|(_, pod)| pod.name.clone()).collect()
    }
}

fn lock(state: &Mutex<Timeline>) -> MutexGuard<'_, Timeline> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The requests of a pod without init containers, which the test clusters do not have.
fn requests(pod: &Value) -> [i64; 2] {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .map(|container| amounts(&container["resources"]["requests"]))
        .fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
}

fn note_pod(state: &mut Timeline, at: Duration, gone: bool, object: &Value) {
    let meta = &object["metadata"];
    let owners = meta["ownerReferences"].as_array();
    let owner = owners.and_then(|owners| owners.iter().find(|owner| owner["controller"] == true));
    let fresh = || PodLife {
        name: name(object),
        owner: owner.map_or_else(String::new, |owner| text(&owner["uid"])),
        created: at,
        requests: requests(object),
        is_daemon: owner.is_some_and(|owner| owner["kind"] == "DaemonSet"),
        ..PodLife::default()
    };
    let pod = state.pods.entry(text(&meta["uid"])).or_insert_with(fresh);
    if let Some(node) = object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        pod.bound.get_or_insert_with(|| (at, node.to_owned()));
    }
    if let Some(refused) = condition(object, "PodScheduled").filter(|refused| refused["status"] == "False") {
        pod.refusal = text(&refused["message"]);
    }
    if gone || !meta["deletionTimestamp"].is_null() {
        pod.ended.get_or_insert(at);
        let target = condition(object, "DisruptionTarget");
        if target.is_some_and(|target| target["reason"] == "EvictionByEvictionAPI") {
            pod.evicted.get_or_insert(at);
        }
    }
}

fn note_node(state: &mut Timeline, at: Duration, gone: bool, object: &Value) {
    let (node, is_ready) = (name(object), is_true(object, "Ready"));
    if is_ready && !gone {
        state.nodes.entry(node.clone()).or_insert_with(|| NodeLife { ready: at, ..NodeLife::default() });
    }
    let Some(life) = state.nodes.get_mut(&node) else { return };
    life.allocatable = amounts(&object["status"]["allocatable"]);
    let is_ending = gone || is_tainted(object) || !object["metadata"]["deletionTimestamp"].is_null();
    // A command that is rolled back takes its taint away.
    life.ended = is_ending.then(|| life.ended.unwrap_or(at));
}

/// CPU in millicores and memory in bytes.
fn amounts(resources: &Value) -> [i64; 2] {
    ["cpu", "memory"].map(|key| amount(resources[key].as_str().unwrap_or_default(), key == "cpu"))
}

/// A quantity as the test clusters write it: in whole units, `m`, `Ki`, `Mi` or `Gi`; zero for any other.
fn amount(text: &str, is_cpu: bool) -> i64 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "" if is_cpu => 1000,
        "" | "m" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => 0,
    };
    number.parse::<i64>().unwrap_or_default().saturating_mul(factor)
}

fn note_claim(state: &mut Timeline, at: Duration, _: bool, object: &Value) {
    let meta = &object["metadata"];
    let fresh = || ClaimLife { name: name(object), created: at, ..ClaimLife::default() };
    let claim = state.claims.entry(text(&meta["uid"])).or_insert_with(fresh);
    if is_true(object, "Initialized") {
        claim.initialized.get_or_insert(at);
    }
    if let Some(node) = object["status"]["nodeName"].as_str() {
        node.clone_into(&mut claim.node);
    }
    if let Some(reason) = condition(object, "DisruptionReason").filter(|reason| reason["status"] == "True") {
        claim.reason = text(&reason["reason"]);
    }
    let annotation = |key: &str| meta["annotations"][key].as_str();
    if let Some(record) = annotation("fleetwright.dev/disruption-command") {
        let record: Value = serde_json::from_str(record).unwrap_or_default();
        claim.command = record["id"].as_str().map(str::to_owned);
    }
    let lineage = annotation("fleetwright.dev/lineage").unwrap_or_default().split(';');
    claim.replaces = lineage.filter_map(|field| field.strip_prefix("command=")).map(str::to_owned).next();
    let pods = annotation("fleetwright.dev/nominated-pods").unwrap_or_default().split(',');
    claim.pods = pods.filter_map(|pod| pod.rsplit_once(':')).map(|(_, uid)| uid.to_owned()).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        let read = |text| amount(text, true);
        assert_eq!(
            [read("2"), read("250m"), amount("512Mi", false), amount("7", false)],
            [2000, 250, 512 << 20, 7]
        );
    }
}
