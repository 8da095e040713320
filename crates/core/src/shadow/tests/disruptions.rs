//! Commands beside each other.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::super::*;
use crate::{
    disruption::{Rules, survey},
    model::{
        ClaimName, Snapshot, StateNode,
        nodeclaim::{Condition, ConditionStatus, ConditionType},
    },
    testing::{ClusterBuilder, NodeBuilder, node, now},
};

fn second(seconds: u64) -> Timestamp {
    now() + Duration::from_secs(seconds)
}

/// An empty node whose NodePool consolidates it: both controllers may disrupt it.
fn empty(name: &str) -> NodeBuilder {
    node(name).condition(ConditionType::Consolidatable)
}

/// A node that Karpenter has marked.
fn marked(node: NodeBuilder, reason: &str) -> Arc<StateNode> {
    let condition = Condition {
        status: ConditionStatus::True,
        reason: reason.into(),
        message: reason.into(),
        since: now(),
    };
    node.with_claim(|claim| {
        claim.conditions.insert(ConditionType::DisruptionReason, condition);
    })
    .build()
}

fn cluster(nodes: Vec<Arc<StateNode>>) -> Snapshot {
    nodes.into_iter().fold(ClusterBuilder::with_default_pool(), ClusterBuilder::node).build()
}

/// A pass of ours.
fn pass(tracker: &mut DisruptionTracker, snapshot: &Snapshot, seconds: u64) -> Vec<DisruptionComparison> {
    let survey = survey(snapshot, &Rules::default(), second(seconds), crate::disruption::METHODS);
    tracker.propose(snapshot, second(seconds), &survey.commands, &survey.nodes)
}

#[test]
fn a_command_is_compared_with_what_we_proposed_shortly_before() {
    let mut tracker = DisruptionTracker::default();
    let before = cluster(vec![empty("a").build()]);
    assert!(tracker.observe(&before, second(0), Vec::new()).is_empty());
    assert!(pass(&mut tracker, &before, 0).is_empty());
    let proposed: Vec<ClaimName> = tracker.standing().iter().flat_map(|ours| ours.claims.clone()).collect();
    assert_eq!(proposed, ["a".into()], "an empty node is proposed");
    // Karpenter disrupts it and another node, which does not consolidate.
    let after = || vec![marked(empty("a"), "Empty"), marked(node("b"), "Empty")];
    assert!(tracker.observe(&cluster(after()), second(10), Vec::new()).is_empty());
    assert!(tracker.is_active(second(11)) && !tracker.is_active(second(50)));
    let done = tracker.observe(&cluster(Vec::new()), second(80), Vec::new());
    let [comparison] = &done[..] else { panic!("{done:?}") };
    assert_eq!(comparison.agreement, DisruptionAgreement::SomeNodes);
    let karpenter = comparison.karpenter.as_ref().unwrap();
    assert_eq!((&*karpenter.reason, karpenter.claims.len(), karpenter.nodes[0].count), ("Empty", 2, 2));
    assert_eq!(comparison.ours[0].claims, proposed.into_iter().collect());
    assert_eq!(comparison.reasons, [("b".into(), "not proposed".into())]);
}

#[test]
fn replacements_of_a_command_are_its_new_node_claims() {
    let mut tracker = DisruptionTracker::default();
    tracker.observe(&cluster(vec![node("a").build()]), second(0), Vec::new());
    pass(&mut tracker, &cluster(vec![node("a").build()]), 0);
    let drifted = || marked(node("a"), "Drifted");
    tracker.observe(&cluster(vec![drifted()]), second(10), Vec::new());
    let open = [("node.kubernetes.io/instance-type", &["medium"][..])];
    let created = cluster(vec![drifted(), node("r").unlaunched(&open).build()]);
    tracker.observe(&created, second(12), vec!["r".into()]);
    let launched = cluster(vec![drifted(), node("r").build()]);
    assert!(tracker.observe(&launched, second(30), Vec::new()).is_empty(), "it may get further replacements");
    let done = tracker.observe(&launched, second(71), Vec::new());
    assert_eq!(done[0].agreement, DisruptionAgreement::OnlyKarpenter);
    assert_eq!(done[0].karpenter.as_ref().unwrap().replacements[0].count, 1);
    assert!(done[0].ours.is_empty() && done[0].reasons.len() == 1);
    assert!(tracker.observe(&launched, second(99), Vec::new()).is_empty(), "a command is compared once");
}

#[test]
fn nodes_disrupted_before_the_start_are_not_compared() {
    let mut tracker = DisruptionTracker::default();
    let snapshot = cluster(vec![marked(node("a"), "Drifted")]);
    tracker.observe(&snapshot, second(0), Vec::new());
    assert!(tracker.observe(&snapshot, second(1000), Vec::new()).is_empty());
}

#[test]
fn old_proposals_are_compared_once() {
    let mut tracker = DisruptionTracker::default();
    let snapshot = cluster(vec![empty("a").build()]);
    tracker.observe(&snapshot, second(0), Vec::new());
    let mut done = Vec::new();
    for seconds in (0..1300).step_by(10) {
        done.extend(pass(&mut tracker, &snapshot, seconds).into_iter().map(|one| (seconds, one)));
    }
    let [(second, comparison)] = &done[..] else { panic!("{done:?}") };
    assert_eq!((*second, comparison.agreement), (610, DisruptionAgreement::OnlyOurs));
    assert!(comparison.karpenter.is_none() && comparison.ours[0].claims.len() == 1);
    // A proposal that was missing for a minute begins again.
    pass(&mut tracker, &cluster(Vec::new()), 1400);
    assert!(tracker.standing().is_empty());
}
