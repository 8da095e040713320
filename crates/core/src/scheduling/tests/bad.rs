//! Bad input: a reason for each pod, no effect on the others, and work that does not explode.

use super::*;
use crate::model::{Catalog, Requirement};

/// The plan of a builder in which `good` must have its place, and the reason of every other pod by name.
fn reasons(builder: ClusterBuilder) -> Vec<(String, String)> {
    let (snapshot, plan) = plan(builder.pending(pod("good")));
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let judged = validator::violations(&snapshot, &request, &Rules::default(), &plan);
    assert_eq!(judged, Vec::<String>::new());
    let opened = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
    let existing = plan.existing.iter().flat_map(|placement| &placement.pods);
    assert!(opened.chain(existing).any(|pod| &*pod.id.name == "good"), "{:?}", report(&snapshot, &plan));
    plan.unplaced.iter().map(|(pod, why)| (pod.id.name.to_string(), why.to_string())).collect()
}

/// The reason of the only pod without a place.
fn reason(builder: ClusterBuilder) -> String {
    let mut reasons = reasons(builder);
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    reasons.remove(0).1
}

fn on_default(pod: PodBuilder) -> String {
    reason(ClusterBuilder::with_default_pool().pending(pod))
}

#[test]
fn contradictions_name_the_key_and_both_sides() {
    let torn = on_default(pod("p").selector(ARCH, "amd64").require(ARCH, Operator::In, &["arm64"]));
    assert!(
        torn.contains(
            "contradict each other (kubernetes.io/arch In [amd64] and kubernetes.io/arch In [arm64])"
        ),
        "{torn}"
    );
    let bounds = on_default(pod("p").with_spec(|spec| {
        let bound = |operator, value| Requirement::new("size", operator, [value]).unwrap();
        spec.required_node_terms = vec![vec![bound(Operator::Gt, "5"), bound(Operator::Lt, "3")]];
    }));
    assert!(bounds.contains("contradict each other (size Exists >=6 and size Exists <=2)"), "{bounds}");
    let host = on_default(pod("p").selector(HOSTNAME, "n1"));
    assert!(host.ends_with("no new node has the name of one that exists"), "{host}");
    let pool = || ClusterBuilder::new().pool(pool("default").require(ZONE, Operator::In, &["a", "b"]));
    let zone = reason(pool().pending(pod("p").selector(ZONE, "c")));
    assert!(zone.contains("zone In [c] not in topology.kubernetes.io/zone In [a b]"), "{zone}");
    assert!(zone.ends_with("require a value that the nodepool allows, or allow more values there"), "{zone}");
}

#[test]
fn misspelt_and_restricted_labels_are_recognised() {
    let typo = on_default(pod("p").selector("topology.kubernetes.io/zome", "a"));
    assert!(typo.contains("did you mean \"topology.kubernetes.io/zone\"?"), "{typo}");
    let custom = on_default(pod("p").selector("colour", "red"));
    assert!(custom.ends_with("add colour to the labels or requirements of the nodepool"), "{custom}");
    let restricted = on_default(pod("p").selector("karpenter.sh/registered", "true"));
    assert!(restricted.contains("label karpenter.sh/registered is restricted"), "{restricted}");
    let field = on_default(pod("p").require("metadata.name", Operator::In, &["n1"]));
    assert!(field.contains("matchFields"), "{field}");
    // A node that has the label is another matter.
    let there = ClusterBuilder::with_default_pool()
        .node(node("n"))
        .pending(pod("p").selector("karpenter.sh/registered", "true"));
    check(there, &["n: p"]);
    // So is asking for its absence, and an old name of a known key.
    let (snapshot, plan) = plan(ClusterBuilder::with_default_pool().pending(pod("p").require(
        "karpenter.sh/registered",
        Operator::NotIn,
        &["x"],
    )));
    assert_eq!(report(&snapshot, &plan), ["+default small a spot: p"]);
    assert!(
        plan.new_claims[0].requirements.get("karpenter.sh/registered").is_none(),
        "no NodeClaim may name it"
    );
    check(
        ClusterBuilder::with_default_pool()
            .pending(pod("q").selector("failure-domain.beta.kubernetes.io/zone", "b")),
        &["+default small b spot: q"],
    );
}

#[test]
fn contradictions_create_no_nodes() {
    // A label that is missing does not satisfy two different values.
    let why = on_default(pod("p").selector("team", "a").require("team", Operator::In, &["b"]));
    assert!(why.contains("contradict each other (team In [a] and team In [b])"), "{why}");
    // Another alternative may hold.
    let either = pod("p").selector(ZONE, "b").require(ZONE, Operator::In, &["a"]).require(
        ARCH,
        Operator::In,
        &["amd64"],
    );
    check(ClusterBuilder::with_default_pool().pending(either), &["+default small b spot: p"]);
    // A preference yields to what is required.
    let builder = ClusterBuilder::new().pool(pool("blank").weight(10)).pool(pool("red").label("team", "red"));
    let torn = pod("p").selector("team", "red").prefer(9, "team", Operator::In, &["blue"]);
    check(builder.pending(torn), &["+red small a spot: p"]);
    // Exclusions do not contradict each other.
    let none = pod("p").with_spec(|spec| {
        let not = |value| Requirement::not_in("team", [value]);
        spec.required_node_terms = vec![vec![not("a"), not("b"), Requirement::does_not_exist("team")]];
    });
    check(ClusterBuilder::with_default_pool().pending(none), &["+default small a spot: p"]);
}

#[test]
fn sizes_name_the_resource_and_the_largest_type() {
    let large = on_default(pod("p").cpu(17_000));
    assert!(
        large.contains(
            "6 instance types: 6 match the requirements, 0 of them have enough resources, resources="
        ) && large.contains("largest matching type: xlarge, 16 cpu for pods"),
        "{large}"
    );
    let both = on_default(
        pod("p").cpu(15_000).memory(32 * 1024).request("pods", 1).selector(INSTANCE_TYPE, "memory"),
    );
    assert!(both.contains("largest matching type: memory, 4 cpu for pods"), "{both}");
    let combination = reason(ClusterBuilder::with_default_pool().pending(
        pod("p").cpu(8000).memory(20 * 1024).require(INSTANCE_TYPE, Operator::In, &["large", "memory"]),
    ));
    assert!(combination.contains("no allowed type has enough of all resources at once"), "{combination}");
    // Each of both requirements can be met, and no type meets both.
    let types = [("intel", "amd64"), ("graviton", "arm64")];
    let types =
        types.map(|(name, arch)| instance_type(name, 4, 8).label(ARCH, arch).offer("a", SPOT, 9).build());
    let apart = pod("p").selector(ZONE, "a").selector(INSTANCE_TYPE, "intel").selector(ARCH, "arm64");
    let catalog = Arc::new(Catalog::new(types.to_vec()));
    let apart = reason(ClusterBuilder::new().catalog(catalog).pool(pool("default")).pending(apart));
    let expected =
        "no type has kubernetes.io/arch In [arm64] and node.kubernetes.io/instance-type In [intel] together";
    assert!(apart.contains(expected), "{apart}");
    let device = on_default(pod("p").request("example.com/gpu", 1));
    assert!(device.contains("no allowed type has example.com/gpu"), "{device}");
    let giant = on_default(pod("p").cpu(i64::MAX).memory(i64::MAX / MIB));
    assert!(giant.contains("m vs M typo?"), "{giant}");
    let negative = on_default(pod("p").cpu(-1));
    assert!(negative.contains("request of cpu is negative"), "{negative}");
}

#[test]
fn limits_report_reservations_before_launch() {
    let apart = |name: &str| {
        let keeps_away = affinity_to(HOSTNAME, "web");
        pod(name).app("web").cpu(1_000).anti_affinity(keeps_away)
    };
    let refused = |builder: ClusterBuilder| {
        let builder = ["a", "b", "c"].into_iter().fold(builder, |builder, name| builder.pending(apart(name)));
        let (snapshot, plan) = plan(builder);
        report(&snapshot, &plan).join("\n")
    };
    let limited = |milli| ClusterBuilder::new().pool(pool("default").limit("cpu", milli));
    let text = refused(limited(10_000));
    let reserved =
        "(cpu: 10 of 10 reserved by 2 NodeClaims not launched yet (largest candidate types)): raise";
    assert!(text.contains(reserved), "{text}");
    let node = node("n").size("medium", 4, 8).pod(apart("d").bound("n"));
    let text = refused(limited(14_000).node(node));
    let reserved = "(cpu: 14 of 14 in use, 10 of it reserved by 2 NodeClaims not launched yet (largest candidate types))";
    assert!(text.contains(reserved), "{text}");
}

#[test]
fn limits_report_the_excess() {
    let limited = || ClusterBuilder::new().pool(pool("default").limit("cpu", 6_000));
    let by = reason(limited().pending(pod("p").cpu(7_000)));
    let good = "(cpu: 4 of 6 reserved by 1 NodeClaim not launched yet (largest candidate types))";
    assert!(by.contains(&format!("{good}: raise spec.limits.cpu by 6")), "{by}");
    // What no type could hold is no matter of limits.
    let never = reason(limited().pending(pod("p").cpu(70_000)));
    assert!(never.contains("largest matching type: xlarge, 16 cpu for pods"), "{never}");
    let nodes =
        ClusterBuilder::new().pool(pool("default").limit_nodes(1)).pending(pod("p").cpu(16_000).memory(1));
    let (snapshot, plan) = plan(nodes.pending(pod("q").cpu(16_000).memory(1)));
    let text = report(&snapshot, &plan).join("\n");
    assert!(text.contains("(1 of 1 nodes): raise spec.limits.nodes by 1"), "{text}");
}

#[test]
fn pods_that_wait_for_each_other_report_it() {
    let near = |name: &str, app: &str, other: &str| pod(name).app(app).affinity(affinity_to(ZONE, other));
    let reasons = reasons(
        ClusterBuilder::with_default_pool()
            .pending(near("a", "a", "b"))
            .pending(near("b", "b", "c"))
            .pending(near("c", "c", "a")),
    );
    let nowhere = on_default(pod("p").app("x").spread(spread_over("rack", 1, "x")));
    assert!(nowhere.contains("key=rack: no node and no nodepool has this label"), "{nowhere}");
    let names: Vec<&str> = reasons.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(reasons.iter().all(|(_, why)| why.contains("if such pods are pending too")), "{reasons:?}");
    let mut crowded =
        ClusterBuilder::with_default_pool().pending(pod("p").app("x").anti_affinity(affinity_to(ZONE, "x")));
    for zone in ["a", "b", "c"] {
        let resident = pod(&format!("r-{zone}")).app("x").bound(&format!("n-{zone}"));
        crowded = crowded.node(node(&format!("n-{zone}")).zone(zone).pod(resident));
    }
    let why = reason(crowded);
    assert!(why.contains("key=topology.kubernetes.io/zone: every domain has a pod that it avoids"), "{why}");
}

#[test]
fn volumes_out_of_reach_are_named() {
    let builder = ClusterBuilder::new()
        .pool(pool("default").require(ZONE, Operator::In, &["a", "b"]))
        .volume("data", VolumeState::Bound, &["c"])
        .pending(pod("p").volume("data"));
    let why = reason(builder);
    assert!(why.contains("incompatible volumes") && why.contains("[c]"), "{why}");
    let apart = ClusterBuilder::with_default_pool()
        .volume("one", VolumeState::Bound, &["a"])
        .volume("two", VolumeState::Bound, &["b"])
        .pending(pod("p").volume("one").volume("two"));
    assert!(reason(apart).contains("cannot be reached from one place"));
    let nowhere = ClusterBuilder::with_default_pool()
        .volume("data", VolumeState::Bound, &["z"])
        .pending(pod("p").volume("data"));
    assert!(reason(nowhere).contains("no type has topology.kubernetes.io/zone In [z]"));
}

#[test]
fn pools_without_types_and_unknown_zones() {
    let bare = ClusterBuilder::new().pool(pool("a")).pool(pool("bare")).without_catalog("bare");
    let (snapshot, plan) = plan(bare.pending(pod("p").selector(ZONE, "nowhere")));
    let text = report(&snapshot, &plan).join("\n");
    assert!(text.contains("nodepool \"bare\" has no available instance types"), "{text}");
    assert!(text.contains("no type has topology.kubernetes.io/zone In [nowhere]"), "{text}");
    let empty =
        ClusterBuilder::new().catalog(Arc::new(Catalog::default())).pool(pool("default")).pending(pod("p"));
    assert_eq!(tests::plan(empty).1.unplaced.len(), 1);
    let sold_out = ClusterBuilder::new()
        .catalog(Arc::new(Catalog::new(vec![
            instance_type("small", 2, 4)
                .offer_with("a", SPOT, 1, |offering| offering.available = false)
                .build(),
        ])))
        .pool(pool("default"))
        .pending(pod("p"));
    assert_eq!(tests::plan(sold_out).1.unplaced.len(), 1);
}

#[test]
fn ten_thousand_labels_selectors_and_terms() {
    let wide = (0..10_000).fold(pod("wide"), |pod, index| pod.label(&format!("label-{index}"), "x"));
    let spread = spread_over(HOSTNAME, 1, "x");
    let choosy = (0..10_000).fold(pod("choosy"), |pod, index| pod.selector(&format!("key-{index}"), "x"));
    let picky =
        (0..10_000).fold(pod("picky"), |pod, index| pod.require(ZONE, Operator::In, &[&format!("z{index}")]));
    let reasons = reasons(
        ClusterBuilder::with_default_pool()
            .pending(wide.spread(spread).anti_affinity(affinity_to(ZONE, "x")))
            .pending(choosy)
            .pending(picky),
    );
    let names: Vec<&str> = reasons.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["choosy", "picky"]);
    assert!(reasons.iter().all(|(_, why)| why.len() < 1000), "an event has a size");
}

#[test]
fn ten_thousand_pools() {
    let mut builder = ClusterBuilder::new();
    let catalog = Arc::new(Catalog::new(vec![instance_type("small", 2, 4).offer("a", SPOT, 20).build()]));
    builder = builder.catalog(catalog);
    let mut snapshot =
        builder.pending(pod("p").selector("team", "t777")).pending(pod("q").selector("team", "none")).build();
    let types = Arc::new(Catalog::new(vec![instance_type("small", 2, 4).offer("a", SPOT, 20).build()]));
    for index in 0..10_000 {
        let pool = pool(&format!("pool-{index:05}")).label("team", &format!("t{index}")).build();
        snapshot.catalogs.insert(pool.name.clone(), Arc::clone(&types));
        snapshot.pools.push(pool);
    }
    let plan = plan_with(&snapshot, &Rules::default());
    assert_eq!(report(&snapshot, &plan)[0], "+pool-00777 small a spot: p");
    let Unplaced::NoPoolFits(verdicts) = &plan.unplaced[0].1 else { panic!("{:?}", plan.unplaced) };
    assert_eq!(verdicts.len(), 10_000);
    let text = plan.unplaced[0].1.to_string();
    assert!(text.ends_with("and 9995 more nodepools") && text.len() < 2000, "{text}");
}

#[test]
fn one_impossible_pod_among_ten_thousand() {
    let many = pod("p").cpu(100).memory(64).replicas(10_000);
    let mut snapshot = ClusterBuilder::with_default_pool().pending(pod("zz").cpu(500_000)).build();
    snapshot.pending.extend(many);
    let plan = plan_with(&snapshot, &Rules::default());
    let unplaced: Vec<&str> = plan.unplaced.iter().map(|(pod, _)| &*pod.id.name).collect();
    assert_eq!((unplaced, plan.partial), (vec!["zz"], false));
    assert_eq!(plan.new_claims.iter().map(|new_claim| new_claim.pods.len()).sum::<usize>(), 10_000);
}

#[test]
fn old_and_small_pods_are_not_starved() {
    // Each of a different size, so that none is settled by another's verdict, and none with a place.
    let giants = (0..40).map(|index| pod(&format!("giant-{index:02}")).cpu(50_000 + index));
    let builder = giants.fold(ClusterBuilder::with_default_pool(), ClusterBuilder::pending);
    let hour = jiff::SignedDuration::from_hours(1);
    let small = |name: &str, created| pod(name).cpu(100).created(created).build();
    let mut snapshot = builder.pending(small("young", now())).pending(small("old", now() - hour)).build();
    let rules = Rules { max_probes: 60, ..Rules::default() };
    let placed = |plan: &Plan| -> Vec<String> {
        let pods = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
        pods.map(|pod| pod.id.name.to_string()).collect()
    };
    let first = plan_with(&snapshot, &rules);
    let left: Vec<_> = first.unplaced.iter().filter(|(_, why)| *why == Unplaced::NotReached).collect();
    assert!(first.partial && placed(&first).is_empty() && left.len() > 2, "the giants took it all");
    assert!(first.unplaced.len() > left.len(), "what was reached has its reason");
    snapshot.deferred = Arc::new(left.iter().map(|(pod, _)| pod.uid.clone()).collect());
    let second = plan_with(&snapshot, &rules);
    assert_eq!(placed(&second), ["old", "young"]);
    // Nobody waits for more than a few passes.
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let plan = plan_with(&snapshot, &rules);
        let (left, seen): (Vec<_>, Vec<_>) =
            plan.unplaced.iter().partition(|(_, why)| *why == Unplaced::NotReached);
        reached.extend(seen.into_iter().map(|(pod, _)| pod.uid.clone()));
        snapshot.deferred = Arc::new(left.into_iter().map(|(pod, _)| pod.uid.clone()).collect());
    }
    assert_eq!(reached.len(), 40);
}
