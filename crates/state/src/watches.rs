//! What watches delivered, per kind: the version of each object, and when the watch last showed a sign of life.
//!
//! Watch events, lists and responses to our own writes arrive in any order. Resource versions (monotonic numbers per kind, Kubernetes
//! 1.35) determine which is newer, so that a late event never reverts a newer one. Deleted objects are remembered for the same reason.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fleetwright_core::model::NodeClassRef;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{
    feature::Refusal,
    kind::{Key, WatchedKind},
};

/// Deleted objects that are remembered per kind.
const TOMBSTONES: usize = 4096;

/// Versions of the objects of one kind.
#[derive(Debug, Default)]
struct Versions {
    live: BTreeMap<Key, u64>,
    deleted: BTreeMap<Key, u64>,
    /// The members of `deleted`, oldest first.
    order: VecDeque<Key>,
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    versions: BTreeMap<WatchedKind, Versions>,
    /// Kinds that are followed beside [`WatchedKind::ALL`].
    optional: BTreeSet<WatchedKind>,
    progress: BTreeMap<WatchedKind, Timestamp>,
    /// The progress of each kind of NodeClass.
    class_progress: BTreeMap<NodeClassRef, Timestamp>,
    /// The kinds that the API server refuses.
    refused: BTreeMap<WatchedKind, Refusal>,
}

impl Watches {
    /// Records a version of an object; false where that version or a newer one was recorded before.
    pub(crate) fn is_newer(&mut self, kind: WatchedKind, key: &Key, version: u64) -> bool {
        let versions = self.versions.entry(kind).or_default();
        // Version zero is of an object that never was at an API server: always newer.
        let latest = versions.live.get(key).into_iter().chain(versions.deleted.get(key)).max();
        if version != 0 && latest.is_some_and(|latest| version <= *latest) {
            return false;
        }
        versions.live.insert(key.clone(), version);
        true
    }

    /// Records that an object was deleted at `version`; false if it is not stored, or was recreated since.
    pub(crate) fn is_deleted(&mut self, kind: WatchedKind, key: &Key, version: u64) -> bool {
        let versions = self.versions.entry(kind).or_default();
        if versions.live.get(key).is_some_and(|live| *live > version && version != 0) {
            return false;
        }
        let live = versions.live.remove(key);
        let earlier = versions.deleted.get(key).copied().unwrap_or(0);
        let version = version.max(live.unwrap_or(0)).max(earlier);
        if versions.deleted.insert(key.clone(), version).is_none() {
            versions.order.push_back(key.clone());
        }
        while versions.order.len() > TOMBSTONES {
            if let Some(oldest) = versions.order.pop_front() {
                versions.deleted.remove(&oldest);
            }
        }
        live.is_some()
    }

    /// Objects that a complete list as of `version` does not contain, except those that are newer than it.
    pub(crate) fn missing_from(&self, kind: WatchedKind, listed: &BTreeSet<Key>, version: u64) -> Vec<Key> {
        let old = |live: u64| version == 0 || live <= version;
        let live = self.versions.get(&kind).into_iter().flat_map(|versions| &versions.live);
        live.filter(|(key, live)| !listed.contains(key) && old(**live)).map(|(key, _)| key.clone()).collect()
    }

    /// Records a sign of life of a kind's watch at `now`.
    pub(crate) fn progressed(&mut self, kind: WatchedKind, now: Timestamp) {
        let last = self.progress.entry(kind).or_insert(now);
        *last = now.max(*last);
    }

    /// When a kind's watch last showed a sign of life; `None` before its first list.
    pub(crate) fn last_progress(&self, kind: WatchedKind) -> Option<Timestamp> {
        self.progress.get(&kind).copied()
    }

    /// Records a sign of life of the watch of one kind of NodeClass at `now`.
    pub(crate) fn class_progressed(&mut self, class: NodeClassRef, now: Timestamp) {
        let last = self.class_progress.entry(class).or_insert(now);
        *last = now.max(*last);
    }

    /// The oldest of the last signs of life of the watches of these kinds of NodeClass; `None` until each was listed.
    pub(crate) fn last_progress_of_classes(&self, kinds: &[NodeClassRef]) -> Option<Timestamp> {
        let last: Option<Vec<Timestamp>> =
            kinds.iter().map(|class| self.class_progress.get(class).copied()).collect();
        last?.into_iter().min()
    }

    /// Records that the API server refuses a kind.
    pub(crate) fn refuse(&mut self, kind: WatchedKind, refusal: Refusal) {
        self.refused.insert(kind, refusal);
    }

    /// Records that the API server serves a kind.
    pub(crate) fn serve(&mut self, kind: WatchedKind) {
        self.refused.remove(&kind);
    }

    /// Why the API server refuses a kind.
    pub(crate) fn refusal(&self, kind: WatchedKind) -> Option<&Refusal> {
        self.refused.get(&kind)
    }

    /// Forgets a kind, deleted objects too: the same version of an object may come again. Returns the keys that were there.
    pub(crate) fn forget(&mut self, kind: WatchedKind) -> Vec<Key> {
        self.progress.remove(&kind);
        self.versions.remove(&kind).into_iter().flat_map(|versions| versions.live.into_keys()).collect()
    }

    /// Follows another kind beside [`WatchedKind::ALL`].
    pub(crate) fn follow(&mut self, kind: WatchedKind) {
        self.optional.insert(kind);
    }

    /// All kinds that are followed.
    pub(crate) fn followed(&self) -> impl Iterator<Item = WatchedKind> + '_ {
        WatchedKind::ALL.into_iter().chain(self.optional.iter().copied())
    }
}

/// The key in an object's metadata.
pub(crate) fn key(meta: &ObjectMeta) -> Key {
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// A resource version as a number; zero if it is not a number.
pub(crate) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
