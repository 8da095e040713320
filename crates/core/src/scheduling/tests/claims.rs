//! What becomes of claims and domains where pool and pods leave a choice open.

use super::*;
use crate::model::{Catalog, Requirement};

#[test]
fn open_requirements_of_a_pool_get_a_label() {
    let builder = || {
        let open = pool("default").require("team", Operator::Exists, &[]);
        ClusterBuilder::new().pool(open.require("rack", Operator::NotIn, &["r0", "0"]))
    };
    let labels = |p: PodBuilder| {
        let snapshot = builder().pending(p).build();
        let plan = plan_with(&snapshot, &Rules::default());
        let request = Request {
            pods: &snapshot.pending,
            without: &[],
            purpose: Purpose::Provisioning,
            effort: Effort::First,
        };
        let judged = validator::violations(&snapshot, &request, &Rules::default(), &plan);
        assert_eq!(judged, Vec::<String>::new());
        let label = |key: &str| plan.new_claims[0].labels.get(key).map(ToString::to_string);
        (label("team"), label("rack"), label("other"))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(labels(pod("p")), (some("0"), some("1"), None));
    let wanted = pod("p").require("team", Operator::Exists, &[]);
    assert_eq!(labels(wanted), (some("0"), some("1"), None));
    let both = pod("p").with_spec(|spec| {
        let exists = Requirement::exists("rack");
        let not = Requirement::not_in("other", ["x"]);
        spec.required_node_terms = vec![vec![exists, Requirement::not_in("team", ["0"]), not]];
    });
    assert_eq!(labels(both), (some("1"), some("1"), None), "what is merely ruled out needs no label");
}

#[test]
fn zones_of_pools_that_a_pod_cannot_use_are_no_domains() {
    let of = |name: &str, zones: &[&str]| pool(name).label("team", name).require(ZONE, Operator::In, zones);
    let builder = |p: PodBuilder| {
        let pools = ClusterBuilder::new().pool(of("blue", &["b", "c"])).pool(of("red", &["a"]));
        pools.pending_many(3, &p.app("x").cpu(100).spread(spread_over(ZONE, 1, "x")))
    };
    check(builder(pod("p").selector("team", "red")), &["+red small a spot: p-0 p-1 p-2"]);
    assert_eq!(plan(builder(pod("p"))).1.new_claims.len(), 3);
    // Types are asked as well: arm64 is sold in zone b alone.
    let types = vec![
        instance_type("x86", 4, 8).offer("a", SPOT, 10).offer("b", SPOT, 10).build(),
        instance_type("arm", 4, 8).label(ARCH, "arm64").offer("b", SPOT, 9).build(),
    ];
    let p = pod("p").app("x").cpu(100).selector(ARCH, "arm64").spread(spread_over(ZONE, 1, "x"));
    let builder = ClusterBuilder::new().catalog(Arc::new(Catalog::new(types))).pool(pool("default"));
    check(builder.pending_many(2, &p), &["+default arm b spot: p-0 p-1"]);
}

#[test]
fn a_zone_without_capacity_stays_a_domain_of_pods_that_ask_for_nodes() {
    let types = |has_b: bool| {
        let x86 = instance_type("x86", 4, 8).offer("a", SPOT, 10);
        let x86 = x86.offer_with("b", SPOT, 10, |offering| offering.available = false);
        let arm = instance_type("arm", 4, 8).label(ARCH, "arm64").offer("a", SPOT, 9).offer("b", SPOT, 9);
        let only_a = instance_type("x86", 4, 8).offer("a", SPOT, 10);
        vec![if has_b { x86 } else { only_a }.build(), arm.build()]
    };
    let p = pod("p").app("x").cpu(100).selector(ARCH, "amd64").spread(spread_over(ZONE, 1, "x"));
    let placed = |has_b: bool| {
        let catalog = Arc::new(Catalog::new(types(has_b)));
        let builder = ClusterBuilder::new().catalog(catalog).pool(pool("default")).pending_many(2, &p);
        plan(builder).1.new_claims.iter().map(|new_claim| new_claim.pods.len()).sum::<usize>()
    };
    assert_eq!(placed(false), 2, "zone b has no such type");
    assert_eq!(placed(true), 1, "zone b has it, although not now");
}

#[test]
fn what_undoes_a_zone_that_kube_scheduler_chose_is_named() {
    let tied = |name: &str| pod(name).app("x").cpu(100).affinity(affinity_to(ZONE, "x"));
    let builder = ClusterBuilder::with_default_pool().node(node("n").zone("b").pod(tied("free").bound("n")));
    let (_, plan) = plan(builder.pending(tied("late").selector(ZONE, "c")));
    let why = plan.unplaced[0].1.to_string();
    assert!(why.contains("b:1") && why.contains("evict those pods"), "{why}");
}

#[test]
fn ports_of_daemons_are_named_where_the_pool_has_other_types_too() {
    let types = vec![
        instance_type("x86", 4, 8).offer("a", SPOT, 10).build(),
        instance_type("arm", 4, 8).label(ARCH, "arm64").offer("a", SPOT, 9).build(),
    ];
    let pool = pool("default").require(ARCH, Operator::In, &["amd64"]);
    let builder = ClusterBuilder::new().catalog(Arc::new(Catalog::new(types))).pool(pool);
    let builder = builder.daemon(pod("ds").daemon().host_port(9100)).pending(pod("p").host_port(9100));
    let why = plan(builder).1.unplaced[0].1.to_string();
    assert!(why.contains("host port 9100 is taken by a daemon on every instance type"), "{why}");
}

#[test]
fn min_values_count_what_the_claim_may_still_be() {
    let builder = |p: PodBuilder| {
        ClusterBuilder::new()
            .pool(pool("default").require(ZONE, Operator::Exists, &[]).min_values(ZONE, 2))
            .pending(p)
    };
    let (_, free) = plan(builder(pod("p")));
    assert_eq!(free.new_claims.len(), 1);
    // A claim that names one zone and demands two is refused by the API server.
    let (_, torn) = plan(builder(pod("p").selector(ZONE, "a")));
    assert!(torn.unplaced[0].1.to_string().contains("1 of 2 values"), "{}", torn.unplaced[0].1);
}

#[test]
fn soft_spreads_yield_in_karpenters_order() {
    // The first goes, and the last, a hard one, takes its place: then the second.
    let soft = |key: &str| TopologySpread { hard: false, ..spread_over(key, 1, "x") };
    let p = pod("p").app("x").spread(soft("r1")).spread(soft(ZONE)).spread(soft("r3"));
    let p = p.spread(spread_over(HOSTNAME, 1, "x")).cpu(100);
    let builder =
        ClusterBuilder::with_default_pool().node(node("n").zone("a").pod(pod("o").app("x").bound("n")));
    // r1 is unknown, so is r3: both yield, and the zones with them, in between.
    let (_, plan) = plan(builder.pending(p));
    assert_eq!(&*plan.new_claims[0].chosen.zone, "a");
}

#[test]
fn a_nodeclaim_names_as_many_types_as_the_rules_allow() {
    let snapshot = ClusterBuilder::with_default_pool().pending(pod("p").cpu(100)).build();
    for max_instance_types in [1, 2, 3] {
        let plan = plan_with(&snapshot, &Rules { max_instance_types, ..Rules::default() });
        assert_eq!(plan.new_claims[0].instance_types.len(), max_instance_types);
    }
}
