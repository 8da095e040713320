//! When a NodeClaim keeps its pods.

use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::{
    model::{Observed, ObservedTaint, Operator, Snapshot, labels},
    testing::{ClusterBuilder, NodeBuilder, node, now, pod},
};

fn at(minutes: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_mins(minutes)
}

fn short(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Keep => "keep".to_owned(),
        Verdict::Wait(misfit, left) => format!("wait {} {}", left.as_secs(), misfit.reason()),
        Verdict::Release(misfit) => misfit.reason().to_owned(),
    }
}

fn says(node: NodeBuilder, pod: &Arc<Pod>, builder: ClusterBuilder, minutes: i64) -> String {
    let snapshot: Snapshot = builder.build();
    short(&judge(&node.build(), pod, &Resources::new(), &snapshot.volumes, at(minutes)))
}

/// A node with `gib` of the 8 GiB that were predicted.
fn small(gib: i64) -> NodeBuilder {
    node("n").size("medium", 4, 8).with_node(move |node| {
        node.allocatable = node.allocatable.clone().with("memory", gib << 30);
    })
}

#[rstest]
#[case::fits_the_prediction_not_the_node(6 << 10, "SmallerThanPredicted")]
#[case::fits_neither_and_the_node_is_small(9 << 10, "SmallerThanPredicted")]
#[case::fits(4 << 10, "CapacityTaken")]
fn a_small_node(#[case] mib: i64, #[case] expected: &str) {
    let asks = pod("p").cpu(100).memory(mib).build();
    assert_eq!(says(small(5), &asks, ClusterBuilder::new(), 0), expected);
    assert_eq!(
        says(small(8), &pod("p").cpu(100).memory(9 << 10).build(), ClusterBuilder::new(), 0),
        "CapacityTaken"
    );
}

#[test]
fn a_starting_node_counts_once_its_capacity_is_final() {
    let asks = pod("p").cpu(100).memory(6 << 10).build();
    let early = || small(5).uninitialized();
    assert_eq!(says(early(), &asks, ClusterBuilder::new(), 0), "SmallerThanPredicted");
    let not_ready = early().with_node(|node| node.ready = false);
    assert_eq!(says(not_ready, &asks, ClusterBuilder::new(), 0), "keep");
    let tainted = node("n").uninitialized().taint("late", TaintEffect::NoSchedule);
    assert_eq!(
        says(tainted, &pod("p").build(), ClusterBuilder::new(), 600),
        "keep",
        "whatever taints appear"
    );
    assert_eq!(says(node("n").launched(), &pod("p").build(), ClusterBuilder::new(), 600), "keep");
}

#[test]
fn a_taint_delays_the_release() {
    let tainted = || node("n").taint("late", TaintEffect::NoExecute).condition(ConditionType::Initialized);
    assert_eq!(says(tainted(), &pod("p").build(), ClusterBuilder::new(), 1), "wait 240 UnexpectedTaint");
    assert_eq!(says(tainted(), &pod("p").build(), ClusterBuilder::new(), 5), "UnexpectedTaint");
    assert_eq!(
        says(tainted(), &pod("p").tolerate("late").build(), ClusterBuilder::new(), 5),
        "CapacityTaken"
    );
    let soft = node("n").taint("soft", TaintEffect::PreferNoSchedule);
    assert_eq!(says(soft, &pod("p").build(), ClusterBuilder::new(), 0), "CapacityTaken");
    let cordoned = node("n").with_node(|node| node.cordoned = true);
    assert_eq!(says(cordoned, &pod("p").build(), ClusterBuilder::new(), 0), "Cordoned");
}

#[rstest]
#[case::just_initialized(271, None)]
#[case::it_stays(
    270,
    Some(
        "nodeclaim/x was created for it, but the node has taint late:NoSchedule; another one may be created in 270s if \
         that does not change"
    )
)]
fn the_event_of_a_waiting_pod_names_the_reason(#[case] left: u64, #[case] expected: Option<&str>) {
    let misfit = Misfit::Unhealthy(Taint::new("late", "", TaintEffect::NoSchedule));
    assert_eq!(why_it_waits("x", &misfit, Duration::from_secs(left)).as_deref(), expected);
}

#[test]
fn the_state_of_a_node_is_no_observation() {
    let node =
        |key: &str| node("n").taint(key, TaintEffect::NoSchedule).condition(ConditionType::Initialized);
    let lost = || node("node.kubernetes.io/unreachable");
    assert_eq!(says(lost(), &pod("p").build(), ClusterBuilder::new(), 1), "wait 240 NodeUnhealthy");
    assert_eq!(says(lost(), &pod("p").build(), ClusterBuilder::new(), 5), "NodeUnhealthy");
    let cordoned = node("node.kubernetes.io/unschedulable").with_node(|node| node.cordoned = true);
    assert_eq!(says(cordoned, &pod("p").build(), ClusterBuilder::new(), 0), "Cordoned");
    // A startup taint that is added again is declared.
    let back = node("agent").with_claim(|claim| {
        claim.startup_taints = vec![Taint::new("agent", "", TaintEffect::NoSchedule)];
    });
    assert_eq!(says(back, &pod("p").build(), ClusterBuilder::new(), 5), "NodeUnhealthy");
    // Where both are there, the one that others may have is what counts.
    let both = lost().taint("late", TaintEffect::NoSchedule);
    assert_eq!(says(both, &pod("p").build(), ClusterBuilder::new(), 5), "UnexpectedTaint");
}

#[test]
fn a_volume_that_went_elsewhere_frees_its_pod_at_once() {
    let asks = pod("p").volume("data").build();
    let bound = |zone: &str| ClusterBuilder::new().volume("data", VolumeState::Bound, &[zone]);
    let open = || node("n").unlaunched(&[(labels::ZONE, &["a", "b"])]);
    assert_eq!(says(open(), &asks, bound("b"), 0), "keep");
    assert_eq!(says(open(), &asks, bound("c"), 0), "VolumeBoundElsewhere");
    assert_eq!(says(node("n").zone("a"), &asks, bound("c"), 0), "VolumeBoundElsewhere");
    let waits = ClusterBuilder::new().volume("data", VolumeState::UnboundImmediate, &["c"]);
    assert_eq!(says(open(), &asks, waits, 0), "keep");
}

#[test]
fn planned_pods_count() {
    let (node, asks) = (small(7).build(), pod("p").memory(4 << 10).build());
    let verdict = |planned: Resources| short(&judge(&node, &asks, &planned, &BTreeMap::new(), now()));
    assert_eq!(verdict(Resources::new()), "CapacityTaken");
    assert_eq!(verdict(Resources::of(0, 4 << 30)), "SmallerThanPredicted");
}

#[test]
fn a_pool_with_an_observed_taint_launches_only_for_pods_that_tolerate_it() {
    use crate::scheduling::{self, Effort, Purpose, Request, Rules};
    let taint = Taint::new("late", "", TaintEffect::NoSchedule);
    let mut observed = Observed::default();
    observed.add_taint(ObservedTaint { taint, claim: "c".into(), since: now(), until: at(60) });
    let pool = crate::testing::pool("default").with(|pool| pool.observed = observed);
    let tolerant = pod("q").tolerate("late").require(labels::ZONE, Operator::Exists, &[]).build();
    let snapshot = ClusterBuilder::new().pool(pool).pending(pod("p").build()).pending(tolerant).build();
    let pods = snapshot.pending.clone();
    let request =
        Request { pods: &pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    let plan = scheduling::solve(&snapshot, &request, &Rules::default());
    let names: Vec<_> =
        plan.new_claims.iter().flat_map(|o| &o.pods).map(|pod| pod.id.name.to_string()).collect();
    assert_eq!(names, ["q"]);
    assert!(plan.unplaced[0].1.to_string().contains("late"), "{}", plan.unplaced[0].1);
    assert!(plan.new_claims[0].taints.is_empty(), "the taint is not written to NodeClaims");
}
