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
        let message = issues.join(", ");
        let failed = ConditionChange::fails(condition, "ConsistencyCheckFailed", message.clone());
        let publish = ClaimStep::Publish(Notice::FailedConsistencyCheck(message));
        Next::steps(failed.step(claim).into_iter().chain([publish])).again(INTERVAL)
    }
}

fn issues(claim: &NodeClaim, node: &Node) -> Vec<String> {
    let mut issues = Vec::new();
    for (name, wanted) in claim.requests.iter().filter(|(_, wanted)| *wanted != 0) {
        let (found, promised) = (node.capacity.get(&name), claim.capacity.get(&name));
        if found == 0 && wanted > 0 {
            issues.push(format!("expected resource \"{name}\" not found"));
        } else if promised > 0 && i128::from(found) * 100 < i128::from(promised) * ENOUGH_PERCENT {
            let percent = i128::from(found) * 100 / i128::from(promised);
            issues.push(format!(
                "expected {} of resource {name}, but found {} ({percent}% of expected)",
                name.quantity(promised),
                name.quantity(found),
            ));
        }
    }
    issues
}
