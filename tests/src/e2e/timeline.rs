//! What happens to pods and NodeClaims, as watches tell it: what a price is measured by, and what disruption is judged by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tokio::time::Instant;

use super::fleet::{condition, is_true, name};
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

/// Pods and NodeClaims by UID.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    pub(crate) pods: BTreeMap<String, PodLife>,
    pub(crate) claims: BTreeMap<String, ClaimLife>,
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
        for (path, note) in
            [("/api/v1/pods", note_pod as Note), ("/apis/karpenter.sh/v1/nodeclaims", note_claim)]
        {
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

fn note_pod(state: &mut Timeline, at: Duration, gone: bool, object: &Value) {
    let meta = &object["metadata"];
    let owners = meta["ownerReferences"].as_array();
    let owner = owners.and_then(|owners| owners.iter().find(|owner| owner["controller"] == true));
    let fresh = || PodLife {
        name: name(object),
        owner: owner.map_or_else(String::new, |owner| text(&owner["uid"])),
        created: at,
        ..PodLife::default()
    };
    let pod = state.pods.entry(text(&meta["uid"])).or_insert_with(fresh);
    if let Some(node) = object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        pod.bound.get_or_insert_with(|| (at, node.to_owned()));
    }
    if gone || !meta["deletionTimestamp"].is_null() {
        pod.ended.get_or_insert(at);
        let target = condition(object, "DisruptionTarget");
        if target.is_some_and(|target| target["reason"] == "EvictionByEvictionAPI") {
            pod.evicted.get_or_insert(at);
        }
    }
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
