//! Which version of each object the index holds, so that late news never undoes newer news.
//!
//! Watch events, lists and answers to own writes arrive in any order; resource versions (monotonic numbers per kind,
//! Kubernetes 1.35) say which is newer. What was deleted is remembered for a while, for the same reason.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kind::Key;

/// Deleted objects that are remembered per kind.
const TOMBSTONES: usize = 4096;

/// Versions of the objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    live: BTreeMap<Key, u64>,
    dead: BTreeMap<Key, u64>,
    /// The members of `dead`, oldest first.
    order: VecDeque<Key>,
}

impl Ledger {
    /// Notes a version of an object; false where as new or newer news was there already.
    pub(crate) fn is_news(&mut self, key: &Key, version: u64) -> bool {
        // Version zero is of an object that never was at an API server: always news.
        let known = self.live.get(key).into_iter().chain(self.dead.get(key)).max();
        if version != 0 && known.is_some_and(|known| version <= *known) {
            return false;
        }
        self.live.insert(key.clone(), version);
        true
    }

    /// Notes that an object was deleted at `version`; false where it is known to have come back since.
    pub(crate) fn bury(&mut self, key: &Key, version: u64) -> bool {
        if self.live.get(key).is_some_and(|live| *live > version && version != 0) {
            return false;
        }
        let was = self.live.remove(key);
        let version = version.max(was.unwrap_or(0));
        if self.dead.insert(key.clone(), version.max(self.dead.get(key).copied().unwrap_or(0))).is_none() {
            self.order.push_back(key.clone());
        }
        while self.order.len() > TOMBSTONES {
            if let Some(oldest) = self.order.pop_front() {
                self.dead.remove(&oldest);
            }
        }
        was.is_some()
    }

    /// Objects that a complete list as of `version` does not have, but for those that are newer than it.
    pub(crate) fn missing_from(&self, listed: &std::collections::BTreeSet<Key>, version: u64) -> Vec<Key> {
        let old = |live: u64| version == 0 || live <= version;
        self.live
            .iter()
            .filter(|(key, live)| !listed.contains(key) && old(**live))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

/// The key in an object's metadata.
pub(crate) fn key(meta: &ObjectMeta) -> Key {
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// A resource version as a number; zero where it is none.
pub(crate) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
