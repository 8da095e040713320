//! The index, and the queues that its changes reach.

use std::sync::{Arc, MutexGuard};

use fleetwright_core::model::NodeClassRef;
use fleetwright_state::{Change, Index, Key, Refusal, Tracked, WatchedKind};

use super::{clocks::Clocks, hub::Hub, shared::Shared};

/// The index and the queues of the controllers. Clones share both.
#[derive(Clone)]
pub struct Cluster {
    index: Shared<Index>,
    hub: Arc<Hub>,
    clocks: Clocks,
}

impl Cluster {
    pub(super) fn new(index: Index, clocks: Clocks) -> Self {
        Self { index: Shared::new(index), hub: Arc::default(), clocks }
    }

    /// The index, locked. Never hold the guard across an await.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    /// Applies an object from a watch or from the response to our own write, and enqueues the interested controllers.
    pub fn observe<T: Tracked>(&self, object: T) {
        let mut index = self.index();
        let change = index.apply(object);
        self.notify(&index, change);
    }

    /// Applies the deletion of an object.
    pub fn forget<T: Tracked>(&self, object: &T) {
        let mut index = self.index();
        let change = index.delete(object);
        self.notify(&index, change);
    }

    /// Applies a complete list, as of `version`; with `class`, the list of one kind of NodeClass.
    pub fn reset<T: Tracked>(&self, objects: Vec<T>, version: &str, class: Option<&NodeClassRef>) {
        let now = self.clocks.steady();
        let mut index = self.index();
        let changes = match class {
            Some(class) => index.reset_class(class, objects, version, now),
            None => index.reset(objects, version, now),
        };
        self.notify(&index, changes);
    }

    /// Records that the API server refuses a kind, see [`Index::refuse`].
    pub(super) fn refuse<T: Tracked>(&self, refusal: Refusal) {
        let mut index = self.index();
        let changes = index.refuse::<T>(refusal);
        self.notify(&index, changes);
    }

    /// Records that the watch of a kind is alive; with `class`, that of one kind of NodeClass.
    pub fn progress(&self, kind: WatchedKind, class: Option<&NodeClassRef>) {
        let now = self.clocks.steady();
        match class {
            Some(class) => self.index().class_progress(class, now),
            None => self.index().progress(kind, now),
        }
    }

    fn notify(&self, index: &Index, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.hub.notify(&change, index);
        }
    }

    /// Enqueues a key of another controller, by that controller's name.
    pub fn enqueue(&self, controller: &str, key: Key) {
        self.hub.enqueue(controller, key);
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.hub
    }
}
