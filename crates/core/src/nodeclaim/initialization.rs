//! Initialization of a registered node.

use jiff::Timestamp;

use super::{ClaimStep, ClaimView, ConditionChange, Next, NodeChange};
use crate::model::{
    Labels, Node, NodeClaim,
    labels::{INITIALIZED, REQUESTED_DRA_DRIVERS},
    nodeclaim::ConditionType,
};

/// Initializes the node of a registered claim.
#[derive(Clone, Copy, Debug)]
pub struct Initialization;

impl Initialization {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, _: Timestamp) -> Next {
        let claim = view.claim;
        if claim.deleting.is_some()
            || !claim.is(ConditionType::Registered)
            || claim.is(ConditionType::Initialized)
        {
            return Next::nothing();
        }
        let missing = match view.node() {
            None => Some(("NodeNotFound", "Node not registered with cluster".to_owned())),
            Some(node) => first_missing(claim, node).or_else(|| missing_driver(view)),
        };
        if let Some((reason, message)) = missing {
            let change = ConditionChange::unknown(ConditionType::Initialized, reason, message);
            return Next::steps(change.step(claim));
        }
        let labelled = |node: &Node| node.labels.get(INITIALIZED).is_some_and(|value| &**value == "true");
        let label = view.node().filter(|node| !labelled(node)).map(|node| {
            let labels: Labels = [(INITIALIZED.into(), "true".into())].into();
            ClaimStep::ChangeNode(Box::new(NodeChange {
                node: Some(node.name.clone()),
                labels,
                ..NodeChange::default()
            }))
        });
        let done = ClaimStep::Condition(ConditionChange::holds(ConditionType::Initialized));
        Next::steps(label.into_iter().chain([done]))
    }
}

/// The first driver of those that the claim's pods need that has not published its devices on the node.
fn missing_driver(view: &ClaimView<'_>) -> Option<(&'static str, String)> {
    let published = view.published_drivers?;
    let requested = view.claim.annotations.get(REQUESTED_DRA_DRIVERS)?;
    let mut requested = requested.split(',').map(str::trim).filter(|driver| !driver.is_empty());
    let driver = requested.find(|driver| !published.iter().any(|known| **known == **driver))?;
    let message = format!("DRA driver {driver:?} has not published a complete resource pool");
    Some(("DRADriverPoolsNotPublished", message))
}

/// The first thing that the node still lacks: reason and message.
pub(super) fn first_missing(claim: &NodeClaim, node: &Node) -> Option<(&'static str, String)> {
    if !node.ready {
        return Some(("NodeNotReady", "Node status is NotReady".to_owned()));
    }
    let startup = node.taints.iter().find(|taint| claim.startup_taints.iter().any(|s| s.matches(taint)));
    if let Some(taint) = startup {
        return Some(("StartupTaintsExist", format!("StartupTaint \"{taint}\" still exists")));
    }
    if let Some(taint) = node.taints.iter().find(|taint| taint.is_ephemeral()) {
        return Some(("KnownEphemeralTaintsExist", format!("KnownEphemeralTaint \"{taint}\" still exists")));
    }
    let (name, _) =
        claim.requests.iter().find(|(name, amount)| *amount != 0 && node.allocatable.get(name) == 0)?;
    Some(("ResourceNotRegistered", format!("Resource \"{name}\" was requested but not registered")))
}
