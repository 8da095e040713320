//! What a stage sees.

use std::sync::Arc;

use crate::{
    cloud::ProviderInfo,
    model::{Node, NodeClaim, NodePool, Pod, PodDisruptionBudget, Str, labels::REGISTERED},
};

/// A NodeClaim with what belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct ClaimView<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Nodes with the claim's provider id, by name. More than one is a contradiction.
    pub nodes: &'a [Arc<Node>],
    /// Its NodePool, if it exists.
    pub pool: Option<&'a NodePool>,
    /// The pods bound to those nodes.
    pub pods: &'a [Arc<Pod>],
    /// The disruption budgets that cover one of those pods.
    pub budgets: &'a [Arc<PodDisruptionBudget>],
    /// Drivers that have published a whole pool of devices for the node; `None` where resource claims are ignored.
    pub published_drivers: Option<&'a [Str]>,
    /// What the provider is.
    pub provider: &'a ProviderInfo,
}

impl<'a> ClaimView<'a> {
    /// The node, if there is exactly one.
    #[must_use]
    pub fn node(&self) -> Option<&'a Node> {
        match self.nodes {
            [node] => Some(node),
            _ => None,
        }
    }

    /// Whether the node carries the registered label.
    #[must_use]
    pub fn has_registered_label(&self) -> bool {
        self.node().is_some_and(|node| node.labels.get(REGISTERED).is_some_and(|value| &**value == "true"))
    }
}

/// The state of an instance, from a fresh call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InstanceState {
    /// It was not asked, or did not answer.
    #[default]
    Unknown,
    /// It exists.
    Exists,
    /// The instance does not exist.
    Gone,
    /// It has another owner, with the evidence: it is never changed.
    NotOwned(Str),
}
