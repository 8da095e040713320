//! Behaviour of scheduling, one small cluster per case.

mod bad;
mod claims;
mod devices;
mod effective;
mod follow;
mod golden;
mod more;
mod packing;
mod random;
mod removals;

use std::sync::Arc;

use super::*;
use crate::{
    model::{
        ClaimSource, Offering, Operator, Pod, PodAffinityTerm, PodClaim, Resources, TaintEffect,
        TopologySpread, VolumeState, labels::*,
    },
    testing::*,
};

fn plan_with(snapshot: &Snapshot, rules: &Rules) -> Plan {
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    solve(snapshot, &request, rules)
}

fn plan(builder: ClusterBuilder) -> (Snapshot, Plan) {
    let snapshot = builder.build();
    let plan = plan_with(&snapshot, &Rules::default());
    (snapshot, plan)
}

/// One line per placement: `default:medium@a pods`, `existing name pods`, `unplaced name: reason`.
fn report(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let names =
        |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.id.name.to_string()).collect::<Vec<_>>().join(" ");
    let mut lines = Vec::new();
    let here = |name: &str| snapshot.nodes.iter().any(|node| node.name() == name);
    for placement in &plan.existing {
        assert!(here(placement.node.name()), "a node of another snapshot");
        lines.push(format!("{}: {}", placement.node.name(), names(&placement.pods)));
    }
    for new_claim in &plan.new_claims {
        let chosen = &new_claim.chosen;
        lines.push(format!(
            "+{} {} {} {}: {}",
            new_claim.pool.name,
            chosen.instance_type,
            chosen.zone,
            chosen.capacity_type,
            names(&new_claim.pods)
        ));
    }
    lines.extend(plan.unplaced.iter().map(|(pod, why)| format!("-{}: {why}", pod.id.name)));
    lines
}

fn check(builder: ClusterBuilder, expected: &[&str]) {
    let (snapshot, plan) = plan(builder);
    assert_eq!(report(&snapshot, &plan), expected);
}

#[test]
fn the_cheapest_type_that_holds_the_pods() {
    check(
        ClusterBuilder::with_default_pool()
            .pending(pod("p").cpu(1500).memory(1024))
            .pending(pod("q").cpu(1500).memory(1024)),
        &["+default medium a spot: p q"],
    );
}

#[test]
fn existing_nodes_are_tried_first_initialized_before_others() {
    check(
        ClusterBuilder::with_default_pool()
            .node(node("a").uninitialized())
            .node(node("b"))
            .pending(pod("p").cpu(4000))
            .pending(pod("q").cpu(3000)),
        &["a: q", "b: p"],
    );
}

#[test]
fn an_unlaunched_claim_keeps_its_choice_open() {
    let builder = || {
        ClusterBuilder::with_default_pool().node(
            node("claim")
                .unlaunched(&[(ZONE, &["a", "b"]), (INSTANCE_TYPE, &["medium", "large"])])
                .with_claim(|claim| {
                    (claim.capacity, claim.allocatable) = (Resources::new(), Resources::new())
                }),
        )
    };
    check(builder().pending(pod("p").selector(ZONE, "b").cpu(3000)), &["claim: p"]);
    check(builder().pending(pod("p").selector(ZONE, "c").cpu(3000)), &["+default medium c spot: p"]);
    check(builder().pending(pod("p").cpu(5000)), &["+default large a spot: p"]);
}

#[test]
fn nominated_pods_stay_on_their_claim() {
    check(
        ClusterBuilder::with_default_pool()
            .node(node("b"))
            .node(node("z").uninitialized())
            .pending(pod("p").cpu(500))
            .pending(pod("q").cpu(4000))
            .nominated("p", "z"),
        &["b: q", "z: p"],
    );
}

#[test]
fn deleting_nodes_take_no_pods() {
    check(
        ClusterBuilder::with_default_pool().node(node("a").marked()).pending(pod("p")),
        &["+default small a spot: p"],
    );
}

#[test]
fn weight_is_strict_priority_and_ties_go_by_name_descending() {
    let builder = ClusterBuilder::new()
        .pool(pool("dear").weight(10).require(CAPACITY_TYPE, Operator::In, &[ON_DEMAND]))
        .pool(pool("aaa"))
        .pool(pool("bbb"));
    check(builder.clone().pending(pod("p")), &["+dear small a on-demand: p"]);
    check(builder.pending(pod("p").selector(CAPACITY_TYPE, SPOT)), &["+bbb small a spot: p"]);
}

#[test]
fn taints_and_preferences_of_taints() {
    let builder = || ClusterBuilder::new().pool(pool("default").taint("team", "x", TaintEffect::NoSchedule));
    check(builder().pending(pod("p").tolerate("team")), &["+default small a spot: p"]);
    let (_, refused) = plan(builder().pending(pod("p")));
    assert!(matches!(
        &refused.unplaced[0].1,
        Unplaced::NoPoolFits(verdicts) if matches!(verdicts[0].eliminated, Eliminated::Taint(_))
    ));
    let soft = ClusterBuilder::new().pool(pool("default").taint("team", "x", TaintEffect::PreferNoSchedule));
    check(soft.pending(pod("p")), &["+default small a spot: p"]);
}

#[test]
fn required_terms_are_alternatives_in_order() {
    let p = pod("p").require(ZONE, Operator::In, &["nowhere"]).require(ZONE, Operator::In, &["c"]);
    check(ClusterBuilder::with_default_pool().pending(p), &["+default small c spot: p"]);
}

#[test]
fn preferences_hold_until_relaxation() {
    let p = || pod("p").prefer(1, ZONE, Operator::In, &["c"]).prefer(50, ZONE, Operator::In, &["nowhere"]);
    check(ClusterBuilder::with_default_pool().pending(p()), &["+default small c spot: p"]);
    let snapshot = ClusterBuilder::with_default_pool().pending(p()).build();
    let rules = Rules { preferences: PreferencePolicy::Ignore, ..Rules::default() };
    assert_eq!(report(&snapshot, &plan_with(&snapshot, &rules)), ["+default small a spot: p"]);
}

#[test]
fn daemons_take_room_where_they_run() {
    let daemon = || pod("ds").daemon().cpu(1000).memory(100);
    check(
        ClusterBuilder::with_default_pool().daemon(daemon()).pending(pod("p").cpu(1500)),
        &["+default medium a spot: p"],
    );
    let elsewhere = daemon().selector(ARCH, "arm64");
    check(
        ClusterBuilder::with_default_pool().daemon(elsewhere).pending(pod("p").cpu(1500)),
        &["+default small a spot: p"],
    );
    // On a node that has it already, it takes nothing more.
    check(
        ClusterBuilder::with_default_pool()
            .daemon(daemon())
            .node(node("a").pod(daemon().bound("a")))
            .node(node("b"))
            .pending(pod("p").cpu(3000))
            .pending(pod("q").cpu(3500)),
        &["a: p", "+default large a spot: q"],
    );
}

#[test]
fn limits_count_within_a_pass() {
    let builder = ClusterBuilder::new().pool(pool("default").limit_nodes(2)).node(node("a"));
    let (snapshot, plan) = plan(builder.pending_many(3, &pod("p").cpu(15_000)));
    assert_eq!(plan.new_claims.len(), 1);
    assert_eq!(plan.unplaced.len(), 2);
    assert!(report(&snapshot, &plan)[1].contains("nodes"), "{:?}", report(&snapshot, &plan));
    let cpu = ClusterBuilder::new().pool(pool("default").limit("cpu", 20_000)).node(node("a"));
    let (_, plan) = tests::plan(cpu.pending_many(2, &pod("p").cpu(9_000)));
    assert_eq!((plan.new_claims.len(), plan.unplaced.len()), (1, 1), "the first is charged with 16 CPUs");
}

/// Node affinity terms are alternatives: a zone of any of them is a domain of the spread.
#[test]
fn zones_of_all_required_terms_are_balanced() {
    let p = pod("p").app("x").cpu(1800).spread(spread_over(ZONE, 1, "x"));
    let p = p.require(ZONE, Operator::In, &["b"]).require(ZONE, Operator::In, &["c"]);
    let (_, plan) = plan(ClusterBuilder::with_default_pool().pending_many(4, &p));
    let mut zones: Vec<&str> = plan.new_claims.iter().map(|new_claim| &*new_claim.chosen.zone).collect();
    zones.sort_unstable();
    assert!(plan.unplaced.is_empty());
    assert_eq!(zones, ["b", "c"], "two pods each");
}

#[test]
fn zones_are_balanced() {
    let p = pod("p").app("x").cpu(1800).spread(spread_over(ZONE, 1, "x"));
    let (_, plan) = plan(
        ClusterBuilder::with_default_pool()
            .node(node("n").pod(pod("o").app("x").bound("n")))
            .pending_many(5, &p),
    );
    let mut zones: Vec<&str> = plan.new_claims.iter().map(|new_claim| &*new_claim.chosen.zone).collect();
    zones.sort_unstable();
    zones.dedup();
    assert!(plan.unplaced.is_empty());
    assert_eq!(zones, ["b", "c"], "zone a gets its second on the node that exists: {:?}", plan.existing);
}

#[test]
fn hosts_are_kept_apart_and_together() {
    let apart = pod("p").app("x").cpu(100).anti_affinity(affinity_to(HOSTNAME, "x"));
    assert_eq!(plan(ClusterBuilder::with_default_pool().pending_many(3, &apart)).1.new_claims.len(), 3);
    let near = pod("p").app("x").cpu(100).affinity(affinity_to(ZONE, "x"));
    let (_, together) = plan(ClusterBuilder::with_default_pool().pending_many(3, &near));
    assert_eq!((together.new_claims.len(), together.unplaced.len()), (1, 0));
}

#[test]
fn exclusive_pods_share_no_node() {
    let hermit = pod("h").app("hermit").anti_affinity(affinity_to(ZONE, "x")).bound("n");
    check(
        ClusterBuilder::with_default_pool().node(node("n").pod(hermit)).pending(pod("p").app("x")),
        &["+default small b spot: p"],
    );
}

#[test]
fn affinity_waits_for_those_that_come_later_in_the_queue() {
    let follower = pod("f").cpu(1900).affinity(affinity_to(ZONE, "x"));
    let leader = pod("l").app("x").cpu(100).selector(ZONE, "c");
    let (_, plan) = plan(ClusterBuilder::with_default_pool().pending(follower).pending(leader));
    assert!(plan.unplaced.is_empty());
    assert!(plan.new_claims.iter().all(|new_claim| &*new_claim.chosen.zone == "c"));
}

#[test]
fn namespaces_are_selected_by_label() {
    let term = PodAffinityTerm {
        namespace_selector: Some(crate::model::LabelSelector::of("team", "red")),
        ..affinity_to(HOSTNAME, "x")
    };
    let builder = |namespace: &str| {
        ClusterBuilder::with_default_pool()
            .namespace("red", &[("team", "red")])
            .namespace("blue", &[("team", "blue")])
            .node(node("n").pod(pod("o").namespace(namespace).app("x").bound("n")))
            .pending(pod("p").anti_affinity(term.clone()))
    };
    check(builder("red"), &["+default small a spot: p"]);
    check(builder("blue"), &["n: p"]);
}

#[test]
fn host_ports_collide() {
    let p = pod("p").cpu(100).host_port(80);
    check(
        ClusterBuilder::with_default_pool()
            .node(node("n").pod(pod("o").host_port(80).bound("n")))
            .pending_many(2, &p),
        &["+default small a spot: p-0", "+default small a spot: p-1"],
    );
}

#[test]
fn min_values_keep_the_choice_wide() {
    let builder = || ClusterBuilder::new().pool(pool("default").min_values(INSTANCE_TYPE, 3));
    let (_, wide) = plan(builder().pending(pod("p").cpu(1000)));
    assert!(wide.new_claims[0].instance_types.len() >= 3);
    let snapshot = builder().pending(pod("p").cpu(7000)).build();
    let strict = plan_with(&snapshot, &Rules::default());
    assert!(strict.new_claims.is_empty());
    assert!(
        strict.unplaced[0].1.to_string().contains("minValues requirement is not met"),
        "{}",
        strict.unplaced[0].1
    );
    let rules = Rules { min_values: MinValuesPolicy::BestEffort, ..Rules::default() };
    let relaxed = plan_with(&snapshot, &rules);
    assert_eq!(relaxed.new_claims[0].annotations.len(), 1);
}

#[test]
fn volumes_decide_zones_or_hold_pods_back() {
    let builder = |state| {
        ClusterBuilder::with_default_pool().volume("data", state, &["c"]).pending(pod("p").volume("data"))
    };
    check(builder(VolumeState::Bound), &["+default small c spot: p"]);
    check(builder(VolumeState::WaitsForConsumer), &["+default small c spot: p"]);
    let (_, waiting) = plan(builder(VolumeState::UnboundImmediate));
    assert!(matches!(&waiting.unplaced[0].1, Unplaced::Waiting(what) if what.contains("default/data")));
    let (_, broken) = plan(builder(VolumeState::Broken("persistentvolume pv-1 not found".into())));
    assert!(matches!(&broken.unplaced[0].1, Unplaced::Invalid(_)));
}

#[test]
fn volumes_are_attached_up_to_the_limit() {
    let builder = |limit| {
        ClusterBuilder::with_default_pool()
            .volume("old", VolumeState::Bound, &[])
            .volume("new", VolumeState::Bound, &[])
            .node(node("n").volume_limit("ebs.csi.aws.com", limit).pod(pod("o").volume("old").bound("n")))
            .pending(pod("p").volume("new"))
            .pending(pod("q").volume("old"))
    };
    check(builder(2), &["n: p q"]);
    check(builder(1), &["n: q", "+default small a spot: p"]);
}

#[test]
fn reserved_capacity_is_taken_first_and_strictly() {
    let key = "example.com/reservation";
    let builder = || {
        ClusterBuilder::new()
            .schema(|schema| schema.reservation_id = Some(key.into()))
            .catalog(Arc::new(crate::model::Catalog::new(vec![
                instance_type("small", 2, 4).offer("a", ON_DEMAND, 100).reserve("a", key, "r-1", 1).build(),
            ])))
            .pool(pool("default"))
            .pending_many(2, &pod("p").cpu(1500))
    };
    let (snapshot, strict) = plan(builder());
    assert_eq!(report(&snapshot, &strict)[..1], ["+default small a reserved: p-0"],);
    assert_eq!(strict.unplaced[0].1, Unplaced::ReservedCapacityTaken);
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Simulation,
        effort: Effort::First,
    };
    let fallback = solve(&snapshot, &request, &Rules::default());
    assert_eq!(
        report(&snapshot, &fallback),
        ["+default small a reserved: p-0", "+default small a on-demand: p-1"],
    );
}

/// Two more instances fit on the host, whatever their types: the cheaper zone is full for the third node.
#[test]
fn offerings_that_share_capacity_are_counted_together() {
    let on_host =
        |left| move |offering: &mut Offering| *offering = offering.clone().with_shared_capacity("host", left);
    let builder = |left, elsewhere| {
        let large = instance_type("large", 8, 16).offer_with("a", ON_DEMAND, 300, on_host(left));
        let small = instance_type("small", 2, 4).offer_with("a", ON_DEMAND, 100, on_host(left));
        let small = if elsewhere { small.offer("b", ON_DEMAND, 150) } else { small };
        let catalog = crate::model::Catalog::new(vec![large.build(), small.build()]);
        let pods = ClusterBuilder::new().catalog(Arc::new(catalog)).pool(pool("default"));
        pods.pending_many(2, &pod("p").cpu(7000)).pending(pod("q").cpu(1900))
    };
    let large = ["+default large a on-demand: p-0", "+default large a on-demand: p-1"];
    let (snapshot, full) = plan(builder(2, false));
    assert_eq!(report(&snapshot, &full)[..2], large);
    let why = full.unplaced[0].1.to_string();
    assert!(why.contains("is taken by other new nodeclaims"), "{why}");
    check(builder(2, true), &[large[0], large[1], "+default small b on-demand: q"]);
    check(builder(3, true), &[large[0], large[1], "+default small a on-demand: q"]);
    let (_, none) = plan(builder(0, false));
    assert_eq!(none.unplaced.len(), 3);
}

#[test]
fn nodes_within_consolidate_after_take_only_unschedulable_pods() {
    let builder = ClusterBuilder::new()
        .pool(pool("default").with(|pool| pool.consolidate_after = Some(std::time::Duration::from_secs(300))))
        .node(node("a").with_claim(|claim| claim.last_pod_event = Some(now())))
        .node(node("b").pod(pod("p").bound("b")).with_claim(|claim| claim.last_pod_event = None));
    let snapshot = builder.build();
    let moved = [Arc::clone(&snapshot.nodes[1].pods[0])];
    let request =
        Request { pods: &moved, without: &[1], purpose: Purpose::Consolidation, effort: Effort::First };
    assert_eq!(
        report(&snapshot, &solve(&snapshot, &request, &Rules::default())),
        ["+default small a spot: p"]
    );
    // What has to go uses the room that exists.
    let has_to_go = Request { purpose: Purpose::Simulation, ..request.clone() };
    assert_eq!(report(&snapshot, &solve(&snapshot, &has_to_go, &Rules::default())), ["a: p"]);
    let pending = [pod("p").build()];
    let request = Request { pods: &pending, ..request };
    assert_eq!(report(&snapshot, &solve(&snapshot, &request, &Rules::default())), ["a: p"]);
}

#[test]
fn requests_are_independent() {
    let p = pod("p").app("x").cpu(300).spread(spread_over(ZONE, 1, "x"));
    let builder =
        ClusterBuilder::with_default_pool().node(node("n").pod(p.clone().bound("n"))).pending_many(7, &p);
    let snapshot = builder.build();
    let mut prepared = PreparedSnapshot::new(&snapshot, &Rules::default());
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let first = report(&snapshot, &LeastCost.pack(&mut prepared, &request));
    let moved = [Arc::clone(&snapshot.nodes[0].pods[0])];
    let simulation =
        Request { pods: &moved, without: &[0], purpose: Purpose::Simulation, effort: Effort::First };
    assert_eq!(report(&snapshot, &LeastCost.pack(&mut prepared, &simulation)), ["+default small a spot: p"]);
    assert_eq!(report(&snapshot, &LeastCost.pack(&mut prepared, &request)), first);
}

#[test]
fn bad_input_gets_a_reason_and_does_not_affect_others() {
    let builder = ClusterBuilder::with_default_pool()
        .pending(pod("good"))
        .pending(pod("negative").cpu(-5))
        .pending(pod("giant").cpu(i64::MAX))
        .pending(pod("torn").selector(ARCH, "amd64").require(ARCH, Operator::In, &["arm64"]))
        .pending(pod("device").request("example.com/gpu", 1))
        .pending(pod("dra").with_spec(|spec| {
            spec.resource_claims
                .push(PodClaim { name: "gpu".into(), source: ClaimSource::Claim("gpu".into()) })
        }))
        .pending(pod("lost").volume("missing"))
        .pending(pod("host").selector(HOSTNAME, "n1"))
        .pending(pod("lonely").affinity(affinity_to(ZONE, "nobody")));
    let (snapshot, plan) = plan(builder);
    assert_eq!(report(&snapshot, &plan)[0], "+default small a spot: good");
    assert_eq!(plan.unplaced.len(), 8);
    for (pod, why) in &plan.unplaced {
        assert!(!why.to_string().is_empty(), "{}", pod.id);
    }
}

#[test]
fn without_pools_all_pods_report_it() {
    let builder = ClusterBuilder::new()
        .pool(pool("off").not_ready())
        .pool(pool("static").replicas(3))
        .pending(pod("p"));
    check(builder, &["-p: no dynamic nodepools found: create a NodePool, or see why none is ready"]);
}
