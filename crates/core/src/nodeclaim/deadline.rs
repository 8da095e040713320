//! A deadline for initialization, set by a NodePool or a setting: report what is missing and its owner, replace the node once, then stop
//! launches for the NodePool. The second node is kept for inspection.

use std::time::Duration;

use jiff::Timestamp;

use super::{ClaimView, initialization::first_missing, remaining};
use crate::model::{
    Node, NodeClaim, Str, Taint, labels, nodeclaim::ConditionType, pool::InitializationStanding,
};

/// What to do about a NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing, until something changes.
    Nothing,
    /// Nothing before so long.
    Wait(Duration),
    /// Its node was initialized after the pool's trouble began: the trouble is over.
    Recovered,
    /// Its node was not initialized in time.
    Overdue {
        /// What is missing.
        missing: Missing,
        /// What follows.
        response: OverdueResponse,
    },
}

/// How the controller responds to a node that misses its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverdueResponse {
    /// Say so, and replace the node.
    Replace {
        /// Whether the NodePool has the record of that, so that the replacement is completed after a crash.
        recorded: bool,
    },
    /// Say so, and stop launching for the pool.
    Halt,
    /// Say so.
    Report,
}

/// What a node lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The reason of the condition Initialized.
    pub reason: Str,
    /// The same in a sentence.
    pub message: String,
    /// Who would bring it.
    pub owner: String,
    /// Since when the node waits: since it joined.
    pub since: Timestamp,
}

/// Decides by the deadline of the claim's pool; where that sets none, by `setting`.
#[must_use]
pub fn decide(view: &ClaimView<'_>, setting: Option<Duration>, now: Timestamp) -> Decision {
    let claim = view.claim;
    let Some(pool) = view.pool.filter(|_| claim.deleting.is_none()) else { return Decision::Nothing };
    let (timeout, standing) = (pool.initialization_timeout.or(setting), &pool.initialization);
    if let Some(initialized) = claim.true_since(ConditionType::Initialized) {
        let troubled = match standing {
            InitializationStanding::Healthy => None,
            InitializationStanding::Replaced { since, .. } | InitializationStanding::Halted { since } => {
                Some(*since)
            }
        };
        return if troubled.is_some_and(|since| initialized > since) {
            Decision::Recovered
        } else {
            Decision::Nothing
        };
    }
    let (Some(timeout), Some(joined)) = (timeout, claim.true_since(ConditionType::Registered)) else {
        return Decision::Nothing;
    };
    if let Some(left) = remaining(joined, timeout, now) {
        return Decision::Wait(left);
    }
    let Some(missing) = missing(view, joined) else { return Decision::Nothing };
    let response = match standing {
        InitializationStanding::Healthy => OverdueResponse::Replace { recorded: false },
        InitializationStanding::Replaced { claim: replaced, .. } if *replaced == claim.name => {
            OverdueResponse::Replace { recorded: true }
        }
        InitializationStanding::Replaced { since, .. } if claim.created > *since => OverdueResponse::Halt,
        // It started together with the one that is replaced and proves no more than that one did.
        InitializationStanding::Replaced { .. } => OverdueResponse::Report,
        InitializationStanding::Halted { .. } => OverdueResponse::Report,
    };
    Decision::Overdue { missing, response }
}

fn missing(view: &ClaimView<'_>, since: Timestamp) -> Option<Missing> {
    let claim = view.claim;
    let (reason, message) = match view.node() {
        None => ("NodeNotFound", "Node not registered with cluster".to_owned()),
        Some(node) => first_missing(claim, node)?,
    };
    let owner = view.node().map_or_else(|| "the kubelet".to_owned(), |node| owner(reason, claim, node));
    Some(Missing { reason: reason.into(), message, owner, since })
}

/// Who brings what a node lacks for `reason`.
fn owner(reason: &str, claim: &NodeClaim, node: &Node) -> String {
    let startup = |taint: &&Taint| claim.startup_taints.iter().any(|known| known.matches(taint));
    let named = match reason {
        "StartupTaintsExist" => node.taints.iter().find(startup).map(|taint| owner_of_taint(&taint.key)),
        "KnownEphemeralTaintsExist" => {
            node.taints.iter().find(|taint| taint.is_ephemeral()).map(|taint| owner_of_taint(&taint.key))
        }
        "ResourceNotRegistered" => claim
            .requests
            .iter()
            .find(|(name, amount)| *amount != 0 && node.allocatable.get(name) == 0)
            .map(|(name, _)| owner_of_resource(name.as_str())),
        _ => None,
    };
    named.unwrap_or_else(|| "the kubelet and the network plugin".to_owned())
}

/// The component that removes a taint from a starting node.
fn owner_of_taint(key: &str) -> String {
    let known = match key {
        labels::UNINITIALIZED_TAINT => "the cloud-controller-manager",
        labels::NOT_READY_TAINT | labels::UNREACHABLE_TAINT => {
            "the node lifecycle controller, once the kubelet reports Ready"
        }
        "node.cilium.io/agent-not-ready" => "the agent of Cilium",
        "ebs.csi.aws.com/agent-not-ready" => "the node plugin of the EBS CSI driver",
        "efs.csi.aws.com/agent-not-ready" => "the node plugin of the EFS CSI driver",
        "fsx.csi.aws.com/agent-not-ready" => "the node plugin of the FSx CSI driver",
        _ if key.starts_with(labels::READINESS_TAINT_PREFIX) => "the node readiness controller",
        _ => return format!("the owner of taint {key}"),
    };
    known.to_owned()
}

/// Who registers a resource on a node.
fn owner_of_resource(name: &str) -> String {
    match name.split_once('/') {
        None => "the kubelet".to_owned(),
        Some((domain, _)) => format!("the device plugin of {domain}"),
    }
}

#[cfg(test)]
mod tests {
    //! Which response is next, and who is named.
    use rstest::rstest;

    use super::*;
    use crate::{
        model::{ConditionStatus, Resources, TaintEffect},
        nodeclaim::tests::{Fixture, after},
        testing::{node, now},
    };

    const TIMEOUT: Duration = Duration::from_secs(600);

    fn starting() -> Fixture {
        let taint = Taint::new(labels::UNINITIALIZED_TAINT, "true", TaintEffect::NoSchedule);
        Fixture::of(node("a").uninitialized()).with_node(|node| node.taints.push(taint))
    }

    fn pooled(fixture: Fixture, standing: InitializationStanding) -> Fixture {
        fixture.with_pool(|pool| pool.initialization = standing)
    }

    fn replaced(claim: &str) -> InitializationStanding {
        InitializationStanding::Replaced { claim: claim.into(), since: now() }
    }

    /// Before this node was made.
    fn before(claim: &str) -> InitializationStanding {
        InitializationStanding::Replaced { claim: claim.into(), since: after(-99_999) }
    }

    #[rstest]
    #[case::early(Some(TIMEOUT), InitializationStanding::Healthy, 599, "wait 1")]
    #[case::first(Some(TIMEOUT), InitializationStanding::Healthy, 600, "Replace { recorded: false }")]
    #[case::the_same_again(Some(TIMEOUT), replaced("a"), 600, "Replace { recorded: true }")]
    #[case::second(Some(TIMEOUT), before("b"), 600, "Halt")]
    #[case::late_together(Some(TIMEOUT), replaced("b"), 600, "Report")]
    #[case::further(Some(TIMEOUT), InitializationStanding::Halted { since: now() }, 600, "Report")]
    #[case::off(None, InitializationStanding::Healthy, 99_999, "nothing")]
    fn responses(
        #[case] timeout: Option<Duration>,
        #[case] standing: InitializationStanding,
        #[case] seconds: i64,
        #[case] expected: &str,
    ) {
        let decided = match decide(&pooled(starting(), standing).view(), timeout, after(seconds)) {
            Decision::Nothing => "nothing".to_owned(),
            Decision::Wait(left) => format!("wait {}", left.as_secs()),
            Decision::Recovered => "recovered".to_owned(),
            Decision::Overdue { response, missing } => {
                assert_eq!(missing.owner, "the cloud-controller-manager");
                assert_eq!(&*missing.reason, "KnownEphemeralTaintsExist");
                format!("{response:?}")
            }
        };
        assert_eq!(decided, expected);
    }

    #[test]
    fn success_ends_the_trouble() {
        let grown = |at: i64| {
            Fixture::of(node("a")).condition_since(
                ConditionType::Initialized,
                ConditionStatus::True,
                "Initialized",
                after(at),
            )
        };
        let says = |fixture: Fixture, standing: InitializationStanding| {
            decide(&pooled(fixture, standing).view(), Some(TIMEOUT), after(999))
        };
        assert_eq!(says(grown(1), replaced("b")), Decision::Recovered);
        assert_eq!(says(grown(-1), replaced("b")), Decision::Nothing, "it was there before");
        assert_eq!(says(grown(0), replaced("b")), Decision::Nothing, "it was there by then");
        assert_eq!(says(grown(1), InitializationStanding::Healthy), Decision::Nothing);
    }

    #[rstest]
    #[case("StartupTaintsExist", "node.cilium.io/agent-not-ready", "the agent of Cilium")]
    #[case("StartupTaintsExist", "example.com/agent", "the owner of taint example.com/agent")]
    fn owners_of_startup_taints(#[case] reason: &str, #[case] key: &str, #[case] expected: &str) {
        let taint = Taint::new(key, "", TaintEffect::NoExecute);
        let fixture = Fixture::of(node("a").uninitialized())
            .with(|claim| claim.startup_taints = vec![taint.clone()])
            .with_node(|node| node.taints = vec![taint.clone()]);
        let Decision::Overdue { missing, .. } =
            decide(&pooled(fixture, InitializationStanding::Healthy).view(), Some(TIMEOUT), after(600))
        else {
            unreachable!("overdue")
        };
        assert_eq!((&*missing.reason, &*missing.owner), (reason, expected));
    }

    #[test]
    fn owners_of_resources() {
        let fixture = Fixture::of(node("a").uninitialized())
            .with(|claim| claim.requests = Resources::of(1, 1).with("nvidia.com/gpu", 1));
        let Decision::Overdue { missing, .. } =
            decide(&pooled(fixture, InitializationStanding::Healthy).view(), Some(TIMEOUT), after(600))
        else {
            unreachable!("overdue")
        };
        assert_eq!(missing.owner, "the device plugin of nvidia.com");
        assert!(missing.message.contains("nvidia.com/gpu"), "{}", missing.message);
    }
}
