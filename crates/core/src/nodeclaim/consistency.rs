//! Whether a node has the predicted resources.

use std::time::Duration;

use jiff::Timestamp;

use super::{ClaimStep, ClaimView, ConditionChange, Next, Notice};
use crate::model::{Node, NodeClaim, nodeclaim::ConditionType};

/// How often it is looked at.
pub const INTERVAL: Duration = Duration::from_secs(10 * 60);
/// The share of the promised amount that must be there, in percent.
const ENOUGH_PERCENT: i128 = 90;

/// Compares the capacity of the node with that of the NodeClaim, for the requested resources.
#[derive(Clone, Copy, Debug)]
pub struct Consistency;

impl Consistency {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, _: Timestamp) -> Next {
        let claim = view.claim;
        if claim.deleting.is_some() || !claim.is(ConditionType::Initialized) {
            return Next::nothing();
        }
        let Some(node) = view.node() else { return Next::nothing() };
        let issues = issues(claim, node);
        let condition = ConditionType::ConsistentStateFound;
        if issues.is_empty() {
            return Next::steps(ConditionChange::holds(condition).step(claim)).again(INTERVAL);
        }
        let failed = ConditionChange::fails(condition, "ConsistencyCheckFailed", issues.join(", "));
        let events =
            issues.into_iter().map(|issue| ClaimStep::Publish(Notice::FailedConsistencyCheck(issue)));
        Next::steps(failed.step(claim).into_iter().chain(events)).again(INTERVAL)
    }
}

fn issues(claim: &NodeClaim, node: &Node) -> Vec<String> {
    let mut issues = Vec::new();
    for (name, _) in claim.requests.iter().filter(|(_, wanted)| *wanted != 0) {
        let (found, promised) = (i128::from(node.capacity.get(&name)), i128::from(claim.capacity.get(&name)));
        // What nothing was promised of is missed nowhere.
        if promised > 0 && found * 100 < promised * ENOUGH_PERCENT {
            let tenths = (found * 1000 + promised / 2) / promised;
            issues.push(format!(
                "expected {} of resource {name}, but found {} ({}.{}% of expected)",
                name.quantity(claim.capacity.get(&name)),
                name.quantity(node.capacity.get(&name)),
                tenths / 10,
                tenths % 10,
            ));
        }
    }
    issues
}
