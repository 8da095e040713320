//! The changes of objects between two steps, in the order of the API server: the lines that `report-changes` requests.
//!
//! Lines are sorted by resource version, which the API server counts across all kinds, so that a report shows the order of changes.

mod lines;
mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fleetwright_core::clock::SharedClock;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event},
};
use serde_json::Value;
use tokio::task::JoinSet;

use self::names::Names;
use fleetwright_sim::simulator::Simulator;

/// Delay after a broken watch.
const RETRY: Duration = Duration::from_secs(1);

/// The supported kinds: version, kind, plural.
const KINDS: [(&str, &str, &str); 8] = [
    ("karpenter.sh/v1", "NodePool", "nodepools"),
    ("karpenter.sh/v1", "NodeClaim", "nodeclaims"),
    ("v1", "Node", "nodes"),
    ("v1", "Pod", "pods"),
    ("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments"),
    ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "capacitybuffers"),
    ("karpenter.sh/v1alpha1", "NodeOverlay", "nodeoverlays"),
    ("v1", "Event", "events"),
];

/// An object before and after one change.
struct Change {
    revision: u64,
    at: Timestamp,
    kind: &'static str,
    before: Option<Value>,
    after: Option<Value>,
}

type Changes = Arc<Mutex<Vec<Change>>>;

/// Watches the objects of one cluster.
pub(super) struct History {
    changes: Changes,
    names: Names,
    /// The reported kinds; for some of them, certain changes only.
    wanted: BTreeMap<String, BTreeSet<String>>,
    /// Aborts the watches when dropped.
    _watches: JoinSet<()>,
}

impl History {
    /// Watches the objects of `simulator` from now on.
    pub(super) fn begin(simulator: &Simulator) -> Self {
        let (changes, mut names, mut watches) = (Changes::default(), Names::default(), JoinSet::new());
        for (version, kind, plural) in KINDS {
            let mut present: Vec<Value> =
                simulator.server().list(version, kind, "").iter().map(|object| (**object).clone()).collect();
            present.sort_by_key(|object| {
                let of = |at| text(object, at).to_owned();
                (of("/metadata/creationTimestamp"), of("/metadata/name"))
            });
            present.iter().for_each(|object| names.register(kind, object));
            let known = present.into_iter().map(|object| (text(&object, "/metadata/uid").to_owned(), object));
            let watch =
                Watch { kind, known: known.collect(), changes: changes.clone(), clock: simulator.clock() };
            watches.spawn(watch.run(api(simulator.client(), version, kind, plural)));
        }
        Self { changes, names, wanted: BTreeMap::new(), _watches: watches }
    }

    /// Reports these kinds from now on: `NodeClaim`, or certain changes of a kind only: `NodeClaim Drained`, `Event Evicted`.
    ///
    /// # Errors
    /// If a kind is not supported.
    pub(super) fn select(&mut self, wanted: &[String]) -> Result<(), String> {
        self.wanted.clear();
        for text in wanted {
            let (kind, word) =
                text.split_once(' ').map_or((text.as_str(), None), |(kind, word)| (kind, Some(word)));
            if !KINDS.iter().any(|(_, known, _)| *known == kind) {
                return Err(format!("tell: {kind} is not a supported kind"));
            }
            self.wanted.entry(kind.to_owned()).or_default().extend(word.map(str::to_owned));
        }
        Ok(())
    }

    /// The changes since the last call: time and line.
    pub(super) fn take(&mut self) -> Vec<(Timestamp, String)> {
        let mut changes = std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner));
        changes.sort_by_key(|change| change.revision);
        // A Node is named after its claim, whose status names the instance at about the time when the Node joins.
        for change in changes.iter().filter(|change| change.kind != "Node") {
            change.after.iter().for_each(|object| self.names.register(change.kind, object));
        }
        for change in changes.iter().filter(|change| change.kind == "Node") {
            change.after.iter().for_each(|object| self.names.register(change.kind, object));
        }
        let mut lines = Vec::new();
        for change in &changes {
            let Some(words) = self.wanted.get(change.kind) else { continue };
            for (word, line) in lines::of(change) {
                if words.is_empty() || words.contains(&word) {
                    lines.push((change.at, self.names.with_report_names(&line)));
                }
            }
        }
        lines
    }

    /// Replaces the names of reports by real names: `claim-1`, `node-1`, `instance-1`, `web-1`.
    pub(super) fn real(&self, object: Value) -> Value {
        match object {
            Value::String(text) => {
                Value::String(self.names.real(&text).map_or_else(|| text.clone(), str::to_owned))
            }
            Value::Array(items) => items.into_iter().map(|item| self.real(item)).collect(),
            Value::Object(map) => {
                Value::Object(map.into_iter().map(|(key, value)| (key, self.real(value))).collect())
            }
            other => other,
        }
    }

    /// Replaces them in `WatchedKind name` or `WatchedKind namespace/name`.
    pub(super) fn real_name(&self, text: &str) -> String {
        let at = text.rfind([' ', '/']).map_or(0, |at| at.saturating_add(1));
        let (before, name) = text.split_at(at);
        format!("{before}{}", self.names.real(name).unwrap_or(name))
    }

    /// Replaces real names in a text by the names of reports.
    pub(super) fn with_report_names(&self, text: &str) -> String {
        self.names.with_report_names(text)
    }
}

fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

fn api(client: Client, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, plural))
}

/// A watch of one kind.
struct Watch {
    kind: &'static str,
    /// Objects by UID.
    known: BTreeMap<String, Value>,
    changes: Changes,
    clock: SharedClock,
}

impl Watch {
    async fn run(mut self, api: Api<DynamicObject>) {
        let mut events = pin!(watcher::watcher(api, watcher::Config::default()));
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(object.metadata.uid.clone().unwrap_or_default());
                    self.present(&object);
                }
                Ok(Event::InitDone) => {
                    let gone: Vec<Value> = self
                        .known
                        .iter()
                        .filter(|(uid, _)| !listed.contains(*uid))
                        .map(|(_, o)| o.clone())
                        .collect();
                    gone.iter().for_each(|object| self.gone(object));
                }
                Ok(Event::Apply(object)) => self.present(&object),
                Ok(Event::Delete(object)) => {
                    if let Ok(object) = serde_json::to_value(&object) {
                        self.gone(&object);
                    }
                }
                Err(_) => self.clock.sleep(RETRY).await,
            }
        }
    }

    fn present(&mut self, object: &DynamicObject) {
        let Ok(object) = serde_json::to_value(object) else { return };
        let before = self.known.insert(text(&object, "/metadata/uid").to_owned(), object.clone());
        if before.as_ref().map(revision) != Some(revision(&object)) {
            self.note(revision(&object), before, Some(object));
        }
    }

    /// `last` is the object with the resource version of its deletion, if known.
    fn gone(&mut self, last: &Value) {
        if let Some(before) = self.known.remove(text(last, "/metadata/uid")) {
            self.note(revision(last), Some(before), None);
        }
    }

    fn note(&self, revision: u64, before: Option<Value>, after: Option<Value>) {
        let change = Change { revision, at: self.clock.now(), kind: self.kind, before, after };
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }
}

fn revision(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or(0)
}
