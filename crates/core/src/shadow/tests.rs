//! Batches beside each other, from our plan to the last pod.

mod disruptions;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::*;
use crate::{
    model::{Pod, PodUid, Price, Requirement, Snapshot, StateNode, labels},
    scheduling::{Effort, Purpose, Request, Rules, solve},
    testing::{ClusterBuilder, NodeBuilder, node, now, pod, uid_of},
};

fn second(seconds: u64) -> Timestamp {
    now() + Duration::from_secs(seconds)
}

/// A NodeClaim of pool `default` in zone `a` on demand.
fn group(instance_type: &str, dollars: f64, count: usize) -> ClaimGroup {
    ClaimGroup {
        pool: "default".into(),
        instance_type: instance_type.into(),
        zone: "a".into(),
        capacity_type: "on-demand".into(),
        price: Price::from_dollars(dollars).ok(),
        count,
        pods: count,
    }
}

fn launched(groups: &[ClaimGroup], allowed: &[&str]) -> Vec<LaunchedClaim> {
    let mut requirements = crate::model::Requirements::new();
    requirements.add(Requirement::is_in(labels::INSTANCE_TYPE, allowed.iter().copied()));
    let one = |group: &ClaimGroup| LaunchedClaim { group: group.clone(), requirements: requirements.clone() };
    groups.iter().map(one).collect()
}

/// The verdict in words: agreement, then reasons.
fn verdict(karpenter: &[ClaimGroup], ours: &[ClaimGroup]) -> String {
    let sides = BatchSides {
        karpenter: launched(karpenter, &["m", "l"]),
        ours: ours.to_vec(),
        ..BatchSides::default()
    };
    let (agreement, reasons) = compare(&sides);
    let reasons: Vec<&str> = reasons.iter().map(|why| why.as_str()).collect();
    format!("{}: {}", agreement.as_str(), reasons.join(" "))
}

#[test]
fn verdicts() {
    let (m, l) = (group("m", 0.1, 1), group("l", 0.2, 1));
    let in_b = ClaimGroup { zone: "b".into(), ..m.clone() };
    let spot =
        ClaimGroup { capacity_type: "spot".into(), price: Price::from_dollars(0.03).ok(), ..m.clone() };
    let other_pool = ClaimGroup { pool: "other".into(), ..m.clone() };
    let unpriced = ClaimGroup { price: None, ..l.clone() };
    for (karpenter, ours, expected) in [
        (vec![], vec![], "same: "),
        (vec![m.clone()], vec![m.clone()], "same: "),
        (vec![l.clone()], vec![m.clone()], "ours-cheaper: cloud-choice"),
        (vec![m.clone()], vec![group("x", 0.05, 1)], "ours-cheaper: instance-type"),
        (vec![m.clone()], vec![l.clone()], "karpenter-cheaper: cloud-choice"),
        (vec![l.clone()], vec![group("m", 0.1, 2)], "same-price: more-nodeclaims cloud-choice"),
        (vec![m.clone()], vec![in_b], "same-price: zone"),
        (vec![m.clone()], vec![spot], "ours-cheaper: capacity-type"),
        (vec![m.clone()], vec![other_pool], "same-price: nodepool"),
        (vec![m.clone(), l.clone()], vec![l], "ours-cheaper: fewer-nodeclaims cloud-choice"),
        (vec![m.clone()], vec![], "only-karpenter: fewer-nodeclaims"),
        (vec![], vec![m.clone()], "only-ours: more-nodeclaims"),
        (vec![unpriced], vec![m], "unpriced: cloud-choice unknown-price"),
    ] {
        assert_eq!(verdict(&karpenter, &ours), expected, "{karpenter:?} {ours:?}");
    }
}

#[test]
fn pods_and_claims_without_an_outcome_are_reasons() {
    let outcomes = |new, existing, none, gone| PodOutcomes { new, existing, none, gone };
    let sides = BatchSides {
        karpenter: launched(&[group("l", 0.2, 1)], &["l"]),
        never_launched: 2,
        karpenter_pods: outcomes(4, 0, 1, 3),
        ours: vec![group("m", 0.1, 1)],
        our_pods: outcomes(1, 3, 4, 0),
        partial: true,
    };
    let reasons: Vec<String> = compare(&sides).1.iter().map(ToString::to_string).collect();
    assert_eq!(
        reasons,
        [
            "3 more pods fit existing nodes in our plan",
            "instance types that Karpenter's NodeClaims do not allow",
            "our plan has no node for 4 pods",
            "1 pods had no node when the comparison ended",
            "3 pods were deleted before they had a node",
            "2 NodeClaims of Karpenter were deleted or not launched in time",
            "our plan was cut short by the bound on its work",
        ]
    );
}

#[test]
fn prices_of_groups_are_sums() {
    let dollars = |groups: &[ClaimGroup]| hourly(groups).map(|price| price.to_string());
    assert_eq!(dollars(&[group("m", 0.1, 3), group("l", 0.2, 1)]).as_deref(), Some("0.5"));
    assert_eq!(dollars(&[ClaimGroup { price: None, ..group("m", 0.1, 1) }]), None);
    assert_eq!(ClaimGroup::join([group("m", 0.1, 1), group("m", 0.1, 2)]), [group("m", 0.1, 3)]);
}

/// Pods of 3 CPUs: two fit a `large`, one a `medium`.
fn pending(count: usize) -> Vec<Arc<Pod>> {
    (0..count).map(|n| pod(&format!("p{n}")).cpu(3000).build()).collect()
}

fn cluster(pods: &[Arc<Pod>], nodes: Vec<Arc<StateNode>>) -> Snapshot {
    let cluster = nodes.into_iter().fold(ClusterBuilder::with_default_pool(), ClusterBuilder::node);
    pods.iter().fold(cluster, |cluster, pod| cluster.pending(pod.clone())).build()
}

/// A NodeClaim of Karpenter: `medium`, on demand, in zone `a`.
fn karpenter_node(name: &str) -> NodeBuilder {
    node(name)
}

/// Our plan for the pods of a cluster, at second 1.
fn planned(cluster: &Snapshot) -> PlannedBatch {
    let request = Request {
        pods: &cluster.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let plan = solve(cluster, &request, &Rules::default());
    let pods: BTreeSet<PodUid> = cluster.pending.iter().map(|pod| pod.uid.clone()).collect();
    PlannedBatch::of(&plan, pods, (second(0), second(1)))
}

/// A tracker that has decided on `pods` in an empty cluster.
fn begun(pods: &[Arc<Pod>]) -> BatchTracker {
    let mut tracker = BatchTracker::default();
    let before = cluster(pods, Vec::new());
    assert!(tracker.observe(&before, second(0), false).0.is_empty());
    tracker.decide(planned(&before));
    tracker
}

#[test]
fn a_batch_ends_when_all_pods_have_a_node() {
    let pods = pending(2);
    let mut tracker = begun(&pods);
    // Karpenter creates two NodeClaims; they are launched, and the pods are bound one after the other.
    let open = [("node.kubernetes.io/instance-type", &["medium", "large"][..])];
    let created = |name| karpenter_node(name).unlaunched(&open).build();
    let (done, others) =
        tracker.observe(&cluster(&pods, vec![created("k1"), created("k2")]), second(3), false);
    assert!(done.is_empty() && others.is_empty());
    let bound = |name, pod: &Arc<Pod>| karpenter_node(name).pod(pod.clone()).build();
    let half = cluster(&pods[1..], vec![bound("k1", &pods[0]), karpenter_node("k2").build()]);
    assert!(tracker.observe(&half, second(60), false).0.is_empty(), "one pod waits");
    let all = cluster(&[], vec![bound("k1", &pods[0]), bound("k2", &pods[1])]);
    let (done, _) = tracker.observe(&all, second(61), false);
    let [batch] = &done[..] else { panic!("{done:?}") };
    assert_eq!((batch.number, batch.pods, tracker.open()), (1, 2, 0));
    let PodOutcomes { new: 2, existing: 0, none: 0, gone: 0 } = batch.karpenter_pods else {
        panic!("{batch:?}")
    };
    let [group] = &batch.karpenter[..] else { panic!("{batch:?}") };
    assert_eq!((&*group.instance_type, group.count, group.pods), ("medium", 2, 2));
    assert!(group.price.is_some_and(|price| price > Price::ZERO));
    assert_eq!(batch.our_pods.new, 2);
}

#[test]
fn the_plan_of_a_later_batch_counts_only_its_own_pods() {
    let pods = pending(2);
    let first = planned(&cluster(&pods, Vec::new()));
    assert_eq!(first.outcomes.new, 2);
    let whole = cluster(&pods, Vec::new());
    let request =
        Request { pods: &whole.pending, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    let plan = solve(&whole, &request, &Rules::default());
    let second =
        PlannedBatch::of(&plan, BTreeSet::from([uid_of("default", "p1").into()]), (second(0), second(1)));
    let pods: usize = second.ours.iter().map(|group| group.pods).sum();
    assert_eq!((second.outcomes.new, pods), (1, 1));
}

#[test]
fn a_batch_without_an_answer_ends_after_a_timeout() {
    let pods = pending(1);
    let mut tracker = begun(&pods);
    let waiting = cluster(&pods, Vec::new());
    assert!(tracker.observe(&waiting, second(14 * 60), false).0.is_empty());
    let (done, _) = tracker.observe(&waiting, second(15 * 60 + 1), false);
    assert_eq!(done[0].agreement, Agreement::OnlyOurs);
    assert!(done[0].reasons.contains(&DifferenceReason::StillPending(1)), "{:?}", done[0].reasons);
}

#[test]
fn pods_on_existing_nodes_and_deleted_pods_have_an_outcome() {
    let pods = pending(2);
    let mut tracker = begun(&pods);
    // One is bound to a node without a NodeClaim, the other is deleted.
    let all = cluster(&[], vec![karpenter_node("own").unmanaged().pod(pods[0].clone()).build()]);
    assert!(tracker.observe(&all, second(10), false).0.is_empty(), "Karpenter's window may be open");
    let (done, _) = tracker.observe(&all, second(17), false);
    assert_eq!(done[0].karpenter_pods, PodOutcomes { new: 0, existing: 1, none: 0, gone: 1 });
    assert_eq!(done[0].agreement, Agreement::OnlyOurs);
}

#[test]
fn replacements_of_a_disruption_are_not_part_of_a_batch() {
    let pods = pending(1);
    let mut tracker = begun(&pods);
    let bound = karpenter_node("k1").pod(pods[0].clone()).build();
    let create = |name| karpenter_node(name).build();
    tracker.observe(&cluster(&pods, vec![create("k1"), create("replacement")]), second(3), true);
    let all = cluster(&[], vec![bound.clone(), create("replacement")]);
    let (done, _) = tracker.observe(&all, second(60), false);
    assert_eq!(done[0].karpenter.iter().map(|group| group.count).sum::<usize>(), 1);
    // With no batch open, NodeClaims are handed back.
    let (_, others) =
        tracker.observe(&cluster(&[], vec![bound, create("replacement"), create("z")]), second(70), true);
    assert_eq!(others, ["z".into()]);
}

#[test]
fn the_successor_of_a_claim_that_was_never_launched_counts() {
    let pods = pending(1);
    let mut tracker = begun(&pods);
    let open = [("node.kubernetes.io/instance-type", &["medium"][..])];
    tracker.observe(&cluster(&pods, vec![karpenter_node("k1").unlaunched(&open).build()]), second(3), false);
    tracker.observe(&cluster(&pods, vec![]), second(20), false);
    tracker.observe(&cluster(&pods, vec![karpenter_node("k2").zone("b").build()]), second(30), false);
    let all = cluster(&[], vec![karpenter_node("k2").zone("b").pod(pods[0].clone()).build()]);
    let (done, _) = tracker.observe(&all, second(60), false);
    assert_eq!((done[0].karpenter_pods.new, done[0].karpenter[0].count), (1, 1));
    assert!(done[0].reasons.contains(&DifferenceReason::NeverLaunched(1)), "{:?}", done[0]);
}

#[test]
fn late_claims_belong_to_the_batch_that_waits_for_its_first() {
    let pods = pending(2);
    let mut tracker = begun(&pods[..1]);
    assert!(tracker.awaits_claims());
    let both = cluster(&pods, Vec::new());
    tracker.decide(PlannedBatch { pods: BTreeSet::from([pods[1].uid.clone()]), ..planned(&both) });
    tracker.observe(&cluster(&pods, vec![karpenter_node("k1").build()]), second(8), false);
    tracker.observe(
        &cluster(&pods, vec![karpenter_node("k1").build(), karpenter_node("k2").build()]),
        second(12),
        false,
    );
    assert!(!tracker.awaits_claims());
    // The pods say otherwise.
    let bound = |name, pod: &Arc<Pod>| karpenter_node(name).pod(pod.clone()).build();
    let all = cluster(&[], vec![bound("k2", &pods[0]), bound("k1", &pods[1])]);
    let (done, _) = tracker.observe(&all, second(60), false);
    let new: Vec<usize> = done.iter().map(|batch| batch.karpenter_pods.new).collect();
    let claims: Vec<usize> = done.iter().map(|batch| batch.karpenter.len()).collect();
    assert_eq!((new, claims), (vec![1, 1], vec![1, 1]));
}

#[test]
fn the_number_of_open_batches_is_bounded() {
    let mut tracker = BatchTracker::default();
    let pods = pending(1);
    let waiting = cluster(&pods, Vec::new());
    tracker.observe(&waiting, second(0), false);
    for _ in 0..70 {
        tracker.decide(planned(&waiting));
    }
    let (done, _) = tracker.observe(&waiting, second(2), false);
    assert_eq!((done.len(), tracker.open()), (6, 64));
}
