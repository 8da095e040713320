//! The KWOKNodeClasses as the provider knows them: written by a watch, read at every launch.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// The fields of a KWOKNodeClass that a launch needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeClass {
    /// Whether its `Ready` condition is True.
    pub ready: bool,
    /// The message of a condition that is not True.
    pub message: String,
    /// Delay between the boot of an instance and the registration of its node.
    pub registration_delay: Duration,
}

impl NodeClass {
    /// A class that is ready, without delay.
    #[must_use]
    pub fn ready() -> Self {
        Self { ready: true, ..Self::default() }
    }
}

/// The state of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassState {
    /// The classes have not been listed yet.
    Unread,
    /// There is no class with that name.
    Missing,
    /// The class exists.
    Known(NodeClass),
}

/// A shared view of all node classes.
#[derive(Clone, Debug, Default)]
pub struct NodeClasses(Arc<RwLock<Option<BTreeMap<String, NodeClass>>>>);

impl NodeClasses {
    /// A view that has not been filled yet: launches wait.
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

    /// Replaces all classes.
    pub fn replace(&self, classes: impl IntoIterator<Item = (String, NodeClass)>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(classes.into_iter().collect());
    }

    /// Adds or replaces a class.
    pub fn set(&self, name: &str, class: NodeClass) {
        let mut classes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        classes.get_or_insert_default().insert(name.to_owned(), class);
    }

    /// Removes a class.
    pub fn remove(&self, name: &str) {
        let mut classes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        classes.get_or_insert_default().remove(name);
    }

    /// The state of a class.
    #[must_use]
    pub fn get(&self, name: &str) -> ClassState {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            None => ClassState::Unread,
            Some(classes) => classes.get(name).cloned().map_or(ClassState::Missing, ClassState::Known),
        }
    }
}
