//! What happens to objects between two looks, in the order in which the API server took it: the lines that `tell` asks for.
//!
//! Lines are sorted by revision, which the API server counts over all kinds, so that a report shows what came before what.

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
use fleetwright_sim::world::World;

/// Delay after a broken watch.
const RETRY: Duration = Duration::from_secs(1);

/// Kinds that can be told of: version, kind, plural.
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

/// Follows the objects of one cluster.
pub(super) struct History {
    changes: Changes,
    names: Names,
    /// What is told: kinds, and of some of them certain words only.
    wanted: BTreeMap<String, BTreeSet<String>>,
    /// Ends the watches when it is dropped.
    _watches: JoinSet<()>,
}

impl History {
    /// Follows the objects of `world` from now on.
    pub(super) fn begin(world: &World) -> Self {
        let (changes, mut names, mut watches) = (Changes::default(), Names::default(), JoinSet::new());
        for (version, kind, plural) in KINDS {
            let mut present: Vec<Value> =
                world.server().list(version, kind, "").iter().map(|object| (**object).clone()).collect();
            present.sort_by_key(|object| {
                let of = |at| text(object, at).to_owned();
                (of("/metadata/creationTimestamp"), of("/metadata/name"))
            });
            present.iter().for_each(|object| names.meet(kind, object));
            let known = present.into_iter().map(|object| (text(&object, "/metadata/uid").to_owned(), object));
            let watch =
                Watch { kind, known: known.collect(), changes: changes.clone(), clock: world.clock() };
            watches.spawn(watch.run(api(world.client(), version, kind, plural)));
        }
        Self { changes, names, wanted: BTreeMap::new(), _watches: watches }
    }

    /// Tells of these from now on: `NodeClaim`, or of that kind certain words only: `NodeClaim Drained`, `Event Evicted`.
    ///
    /// # Errors
    /// A kind that nobody follows.
    pub(super) fn want(&mut self, wanted: &[String]) -> Result<(), String> {
        self.wanted.clear();
        for text in wanted {
            let (kind, word) =
                text.split_once(' ').map_or((text.as_str(), None), |(kind, word)| (kind, Some(word)));
            if !KINDS.iter().any(|(_, known, _)| *known == kind) {
                return Err(format!("tell: {kind} is none of the kinds that can be told of"));
            }
            self.wanted.entry(kind.to_owned()).or_default().extend(word.map(str::to_owned));
        }
        Ok(())
    }

    /// What happened since the last call: when, and a line.
    pub(super) fn take(&mut self) -> Vec<(Timestamp, String)> {
        let mut changes = std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner));
        changes.sort_by_key(|change| change.revision);
        // A Node is named after its claim, which learns of its instance about when the Node joins.
        for change in changes.iter().filter(|change| change.kind != "Node") {
            change.after.iter().for_each(|object| self.names.meet(change.kind, object));
        }
        for change in changes.iter().filter(|change| change.kind == "Node") {
            change.after.iter().for_each(|object| self.names.meet(change.kind, object));
        }
        let mut told = Vec::new();
        for change in &changes {
            let Some(words) = self.wanted.get(change.kind) else { continue };
            for (word, line) in lines::of(change) {
                if words.is_empty() || words.contains(&word) {
                    told.push((change.at, self.names.told(&line)));
                }
            }
        }
        told
    }

    /// The same with the real names in the place of those that reports have: `claim-1`, `node-1`, `instance-1`, `web-1`.
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

    /// The same of `Kind name` or `Kind namespace/name`.
    pub(super) fn real_name(&self, text: &str) -> String {
        let at = text.rfind([' ', '/']).map_or(0, |at| at.saturating_add(1));
        let (before, name) = text.split_at(at);
        format!("{before}{}", self.names.real(name).unwrap_or(name))
    }

    /// The same text with the names that reports have.
    pub(super) fn told(&self, text: &str) -> String {
        self.names.told(text)
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

/// Follows one kind.
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

    /// `last` is the object with the revision of its end, where that is known.
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
