//! When a NodeClaim keeps its pods, and what a release records.

use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::{
    model::{Operator, Snapshot},
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

/// A node that shows `gib` of the 8 GiB that its claim was promised.
fn small(gib: i64) -> NodeBuilder {
    node("n").size("medium", 4, 8).with_node(move |node| {
        node.allocatable = node.allocatable.clone().with("memory", gib << 30);
    })
}

#[rstest]
#[case::fits_the_promise_not_the_node(6 << 10, "SmallerThanPredicted")]
#[case::would_not_have_fitted_either_but_it_is_small(9 << 10, "SmallerThanPredicted")]
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
fn a_node_that_starts_is_believed_only_where_it_is_final() {
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
fn a_taint_is_waited_for() {
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
#[case::it_has_just_come_up(271, None)]
#[case::it_stays(
    270,
    Some(
        "nodeclaim/x was made for it, but the node has taint late:NoSchedule; another one may be made in 270s if that \
         stays so"
    )
)]
fn a_pod_hears_why_it_waits(#[case] left: u64, #[case] expected: Option<&str>) {
    let misfit = Misfit::Unwell(Taint::new("late", "", TaintEffect::NoSchedule));
    assert_eq!(why_it_waits("x", &misfit, Duration::from_secs(left)).as_deref(), expected);
}

#[test]
fn how_a_node_is_teaches_nothing_about_others() {
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
    let mut observed = Observed::default();
    let misfit = Misfit::Unwell(Taint::new("agent", "", TaintEffect::NoSchedule));
    assert!(!learn(&mut observed, &node("n").build(), &misfit, now()));
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
fn what_the_plan_puts_there_counts() {
    let (node, asks) = (small(7).build(), pod("p").memory(4 << 10).build());
    let verdict = |planned: Resources| short(&judge(&node, &asks, &planned, &BTreeMap::new(), now()));
    assert_eq!(verdict(Resources::new()), "CapacityTaken");
    assert_eq!(verdict(Resources::of(0, 4 << 30)), "SmallerThanPredicted");
}

#[test]
fn an_observation_is_observed_once() {
    let node = small(5).with_claim(|claim| claim.image_id = Some("image-1".into())).build();
    let mut observed = Observed::default();
    let verdict = judge(&node, &pod("p").memory(6 << 10).build(), &Resources::new(), &BTreeMap::new(), now());
    let Verdict::Release(misfit) = verdict else { unreachable!("{verdict:?}") };
    assert!(learn(&mut observed, &node, &misfit, now()));
    assert!(!learn(&mut observed, &node, &misfit, at(1)));
    let shape = &observed.shapes[0];
    assert_eq!((&*shape.instance_type, shape.image.as_deref()), ("medium", Some("image-1")));
    assert_eq!((shape.found.memory(), shape.promised.memory()), (5 << 30, 8 << 30));
    let taint = Misfit::Taint(Taint::new("late", "", TaintEffect::NoSchedule));
    assert!(learn(&mut observed, &node, &taint, now()) && !learn(&mut observed, &node, &taint, now()));
    assert!(!learn(&mut observed, &node, &Misfit::CapacityTaken, now()));
}

#[test]
fn a_pool_with_an_observed_taint_opens_nothing_for_those_who_do_not_tolerate_it() {
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
    assert!(plan.new_claims[0].taints.is_empty(), "nobody writes the taint");
}
