//! What a watch event or an own write did to the index, for whoever is interested.

use std::sync::Arc;

use fleetwright_api as api;
use fleetwright_core::model;
use k8s_openapi::api::core::v1::Node;

use crate::kind::{Key, Kind};

/// One object that came, changed or went.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: Key,
    /// What it was; `None` where it is new.
    pub before: Option<Object>,
    /// What it is; `None` where it is gone.
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

impl Change {
    /// The object as it is or, where it is gone, as it was.
    #[must_use]
    pub fn latest(&self) -> Option<&Object> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Whether the object is new.
    #[must_use]
    pub fn is_created(&self) -> bool {
        self.before.is_none()
    }

    /// Whether the object is gone.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.after.is_none()
    }

    /// The pod, where it is one, as it is or was.
    #[must_use]
    pub fn pod(&self) -> Option<&Arc<model::Pod>> {
        match self.latest() {
            Some(Object::Pod(pod)) => Some(pod),
            _ => None,
        }
    }

    /// The Node, where it is one, as it is or was.
    #[must_use]
    pub fn node(&self) -> Option<&Arc<Node>> {
        match self.latest() {
            Some(Object::Node(node)) => Some(node),
            _ => None,
        }
    }

    /// The NodeClaim, where it is one, as it is or was.
    #[must_use]
    pub fn claim(&self) -> Option<&Arc<api::NodeClaim>> {
        match self.latest() {
            Some(Object::NodeClaim(claim)) => Some(claim),
            _ => None,
        }
    }

    /// The NodePool, where it is one, as it is or was.
    #[must_use]
    pub fn pool(&self) -> Option<&Arc<api::NodePool>> {
        match self.latest() {
            Some(Object::NodePool(pool)) => Some(pool),
            _ => None,
        }
    }
}
