//! Shared values as keys, by identity: what snapshots share is found without comparing its content.

use std::{hash, sync::Arc};

/// A shared value: equal to itself alone. The key keeps the value alive, so that no other takes its identity.
#[derive(Debug)]
pub(crate) struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// The key of a value.
    pub(crate) fn new(value: &Arc<T>) -> Self {
        Self(Arc::clone(value))
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Shared<T> {}

impl<T> hash::Hash for Shared<T> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
