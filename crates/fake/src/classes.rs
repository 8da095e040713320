//! What the provider knows of the KWOKNodeClasses: filled by a watch, read at every launch.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// What a launch needs to know of a node class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeClass {
    /// Whether its `Ready` condition is True.
    pub ready: bool,
    /// Why it is not, in words.
    pub message: String,
    /// How long nodes stay away after their instance has booted.
    pub registration_delay: Duration,
}

impl NodeClass {
    /// A class that is ready and delays nothing.
    #[must_use]
    pub fn ready() -> Self {
        Self { ready: true, ..Self::default() }
    }
}

/// How a class stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassState {
    /// Nothing has been read yet.
    Unread,
    /// There is no class of that name.
    Missing,
    /// There is.
    Known(NodeClass),
}

/// A shared view of all node classes.
#[derive(Clone, Debug, Default)]
pub struct NodeClasses(Arc<RwLock<Option<BTreeMap<String, NodeClass>>>>);

impl NodeClasses {
    /// A view of which nothing is known yet: launches wait.
    #[must_use]
    pub fn unread() -> Self {
        Self::default()
    }

    /// A view with these classes.
    pub fn with(classes: impl IntoIterator<Item = (String, NodeClass)>) -> Self {
        let view = Self::default();
        view.replace(classes);
        view
    }

    /// Puts a complete list in place of what is known.
    pub fn replace(&self, classes: impl IntoIterator<Item = (String, NodeClass)>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(classes.into_iter().collect());
    }

    /// Takes note of a class.
    pub fn set(&self, name: &str, class: NodeClass) {
        let mut classes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        classes.get_or_insert_default().insert(name.to_owned(), class);
    }

    /// Takes note that a class is gone.
    pub fn remove(&self, name: &str) {
        let mut classes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        classes.get_or_insert_default().remove(name);
    }

    /// How a class stands.
    #[must_use]
    pub fn get(&self, name: &str) -> ClassState {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            None => ClassState::Unread,
            Some(classes) => classes.get(name).cloned().map_or(ClassState::Missing, ClassState::Known),
        }
    }
}
