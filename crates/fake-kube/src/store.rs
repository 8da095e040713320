//! The objects of one resource and the bounded history of their changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;

use crate::status::ApiError;

/// The key of an object in its store; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
}

impl Key {
    /// The key of a namespace and a name.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// A change: an addition has no `before`, a deletion no `after`.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The revision of the change.
    pub(crate) revision: u64,
    /// Object before the change.
    pub(crate) before: Option<Arc<Value>>,
    /// Object after the change.
    pub(crate) after: Option<Arc<Value>>,
    /// The last version of a deleted object, with the revision of its deletion.
    pub(crate) last: Option<Arc<Value>>,
    /// Key of the object.
    pub(crate) key: Key,
}

/// Objects and history of one resource.
#[derive(Debug)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Change>,
    /// Changes up to this revision have been dropped.
    forgotten: u64,
    bound: usize,
    /// Wakes watches in the order of their arrival, so that a run is repeatable (tokio's watch channel does not).
    wake: Arc<Notify>,
}

impl Store {
    /// An empty store with a history of `bound` changes that starts at `revision`.
    pub(crate) fn new(bound: usize, revision: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            forgotten: revision,
            bound: bound.max(1),
            wake: Arc::default(),
        }
    }

    /// The object at a key.
    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// All objects of a namespace, or of all if it is empty, in order.
    pub(crate) fn scan<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        let start = Key::new(namespace, "");
        self.objects
            .range(start..)
            .take_while(move |(key, _)| namespace.is_empty() || key.namespace == namespace)
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects as of `revision`.
    ///
    /// # Errors
    /// 410 if the history is shorter.
    pub(crate) fn as_of(&self, revision: u64) -> Result<BTreeMap<Key, Arc<Value>>, ApiError> {
        if revision < self.forgotten {
            return Err(ApiError::expired(revision, self.forgotten));
        }
        let mut objects = self.objects.clone();
        for change in self.history.iter().rev().take_while(|change| change.revision > revision) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Ok(objects)
    }

    /// Records a change and applies it.
    pub(crate) fn apply(&mut self, change: Change) {
        match &change.after {
            Some(after) => self.objects.insert(change.key.clone(), after.clone()),
            None => self.objects.remove(&change.key),
        };
        self.history.push_back(change);
        while self.history.len() > self.bound {
            if let Some(oldest) = self.history.pop_front() {
                self.forgotten = oldest.revision;
            }
        }
        self.wake.notify_waiters();
    }

    /// The first change after `revision`.
    ///
    /// # Errors
    /// 410 if changes after `revision` have been dropped.
    pub(crate) fn after(&self, revision: u64) -> Result<Option<&Change>, ApiError> {
        if revision < self.forgotten {
            return Err(ApiError::expired(revision, self.forgotten));
        }
        let index = self.history.partition_point(|change| change.revision <= revision);
        Ok(self.history.get(index))
    }

    /// Drops the history, as a compaction of etcd does.
    pub(crate) fn compact(&mut self) {
        if let Some(last) = self.history.back() {
            self.forgotten = last.revision;
        }
        self.history.clear();
    }

    /// Notified at every change.
    pub(crate) fn subscribe(&self) -> Arc<Notify> {
        self.wake.clone()
    }
}
