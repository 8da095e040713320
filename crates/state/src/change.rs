//! What a watch event or our own write changed in the index.

use std::sync::Arc;

use fleetwright_api as api;
use fleetwright_core::model;
use k8s_openapi::api::core::v1::Node;

use crate::kind::{Key, WatchedKind};

/// One object that was created, changed or deleted.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its kind.
    pub kind: WatchedKind,
    /// Its key.
    pub key: Key,
    /// The previous object; `None` if it is new.
    pub before: Option<Object>,
    /// The new object; `None` if it was deleted.
    pub after: Option<Object>,
}

/// An object as the index holds it.
#[derive(Clone, Debug)]
pub enum Object {
    /// A pod, lowered.
    Pod(Arc<model::Pod>),
    /// A Node as read.
    Node(Arc<Node>),
    /// A NodeClaim as read.
    NodeClaim(Arc<api::NodeClaim>),
    /// A NodePool as read.
    NodePool(Arc<api::NodePool>),
    /// Of a kind that is looked up in the index by its key.
    Other,
}

/// An object in its table before and after a change.
pub(crate) type Put = (Option<Object>, Option<Object>);

/// A change of a kind that is looked up in the index by its key.
pub(crate) fn by_key(existed: bool, exists: bool) -> Put {
    (existed.then_some(Object::Other), exists.then_some(Object::Other))
}

impl Change {
    /// The object, or the last version of a deleted one.
    #[must_use]
    pub fn latest(&self) -> Option<&Object> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Whether the object is new.
    #[must_use]
    pub fn is_created(&self) -> bool {
        self.before.is_none()
    }

    /// Whether the object was deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.after.is_none()
    }

    /// [`Self::latest`], if it is a pod.
    #[must_use]
    pub fn pod(&self) -> Option<&Arc<model::Pod>> {
        match self.latest() {
            Some(Object::Pod(pod)) => Some(pod),
            _ => None,
        }
    }

    /// [`Self::latest`], if it is a Node.
    #[must_use]
    pub fn node(&self) -> Option<&Arc<Node>> {
        match self.latest() {
            Some(Object::Node(node)) => Some(node),
            _ => None,
        }
    }

    /// [`Self::latest`], if it is a NodeClaim.
    #[must_use]
    pub fn claim(&self) -> Option<&Arc<api::NodeClaim>> {
        match self.latest() {
            Some(Object::NodeClaim(claim)) => Some(claim),
            _ => None,
        }
    }

    /// [`Self::latest`], if it is a NodePool.
    #[must_use]
    pub fn pool(&self) -> Option<&Arc<api::NodePool>> {
        match self.latest() {
            Some(Object::NodePool(pool)) => Some(pool),
            _ => None,
        }
    }
}
