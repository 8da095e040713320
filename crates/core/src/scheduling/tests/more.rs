//! Further behaviour: policies of topology, ports, labels, what new NodeClaims say, bad company.

use super::*;

#[test]
fn few_domains_count_as_an_empty_one() {
    let mut spread = spread_over(ZONE, 1, "x");
    spread.min_domains = Some(4);
    let (_, plan) =
        plan(ClusterBuilder::with_default_pool().pending_many(4, &pod("p").app("x").spread(spread)));
    assert_eq!(plan.unplaced.len(), 1, "three zones, one pod each");
}

#[test]
fn a_value_that_nothing_offers_is_no_domain() {
    let size = |name: &str, arch: &str| {
        instance_type(name, 2, 4).label("size", name).label(ARCH, arch).offer("a", ON_DEMAND, 100).build()
    };
    let types = vec![size("small", "amd64"), size("medium", "amd64"), size("large", "arm64")];
    let cluster = |key: &str, values: &[&str]| {
        let pool = pool("default").require(ARCH, Operator::In, &["amd64"]).require(key, Operator::In, values);
        let catalog = Arc::new(crate::model::Catalog::new(types.clone()));
        let p = pod("p").app("x").spread(spread_over(key, 1, "x"));
        plan(ClusterBuilder::new().catalog(catalog).pool(pool).pending_many(4, &p)).1
    };
    // No type of the NodePool's architecture is large, and none is reserved; any node may have a label of the user.
    assert_eq!(cluster("size", &["small", "medium", "large"]).unplaced.len(), 0);
    assert_eq!(cluster(CAPACITY_TYPE, &[ON_DEMAND, "reserved"]).unplaced.len(), 0);
    let custom = cluster("team", &["blue", "green"]);
    assert_eq!((custom.unplaced.len(), custom.new_claims.len()), (0, 2));
}

#[test]
fn match_label_keys_tell_generations_apart() {
    let mut spread = spread_over(ZONE, 1, "x");
    spread.match_label_keys = vec!["hash".into()];
    let old = pod("o").app("x").label("hash", "1");
    let mut node = node("n").zone("b").taint("full", TaintEffect::NoSchedule);
    for index in 0..3 {
        node = node.pod(old.clone().with(|pod| pod.id.name = format!("o{index}").into()).bound("n"));
    }
    let new = pod("p").app("x").label("hash", "2").selector(ZONE, "b").spread(spread);
    let (_, plan) = plan(ClusterBuilder::with_default_pool().node(node).pending(new));
    assert!(plan.unplaced.is_empty());
}

#[test]
fn tainted_nodes_are_domains_unless_taints_are_honoured() {
    let builder = |honor: bool| {
        let mut spread = spread_over("rack", 1, "x");
        spread.honor_node_taints = honor;
        // Rack r2 is out of reach, and empty.
        ClusterBuilder::with_default_pool()
            .node(node("n1").label("rack", "r1").pod(pod("o").app("x").bound("n1")))
            .node(node("n2").label("rack", "r2").taint("team", TaintEffect::NoSchedule))
            .pending(pod("p").app("x").spread(spread))
    };
    assert_eq!(plan(builder(false)).1.unplaced.len(), 1);
    check(builder(true), &["n1: p"]);
}

#[test]
fn soft_spreads_yield() {
    let mut spread = spread_over(ZONE, 1, "x");
    spread.hard = false;
    let p = pod("p").app("x").selector(ZONE, "a").cpu(100).spread(spread);
    assert!(plan(ClusterBuilder::with_default_pool().pending_many(3, &p)).1.unplaced.is_empty());
}

#[test]
fn a_type_that_its_daemons_do_not_fit_is_not_launched() {
    let types = |largest: i64| {
        let small = instance_type("small", 2, 4).offer("a", ON_DEMAND, 100).build();
        let large = instance_type("large", largest, 4).offer("a", ON_DEMAND, 200).build();
        Arc::new(crate::model::Catalog::new(vec![small, large]))
    };
    let cluster = |largest, daemon: PodBuilder| {
        ClusterBuilder::new().catalog(types(largest)).pool(pool("default")).daemon(daemon)
    };
    // The pods request no CPU: the small type would hold them, without its daemon.
    let thirsty = || pod("ds").daemon().cpu(3000).memory(0);
    let p = pod("p").cpu(0).memory(512);
    check(cluster(8, thirsty()).pending_many(2, &p), &["+default large a on-demand: p-0 p-1"]);
    let why = plan(cluster(2, thirsty()).pending(p)).1.unplaced[0].1.to_string();
    assert!(why.contains("daemons alone request 1 more cpu than large has"), "{why}");
    // A resource that no type has keeps the daemon away, and no pod.
    let elsewhere = pod("ds").daemon().cpu(0).memory(0).request("example.com/fuse", 1);
    let (snapshot, plan) = plan(cluster(8, elsewhere).pending(pod("q").cpu(0).memory(512)));
    assert_eq!(report(&snapshot, &plan), ["+default small a on-demand: q"]);
    let requests = &plan.new_claims[0].requests;
    assert!(requests.get(&"example.com/fuse".into()) == 0, "the node would never be initialized: {requests}");
}

#[test]
fn daemons_that_wait_for_a_node_to_be_initialized_count_before() {
    let late = || pod("ds").daemon().cpu(3000).memory(0).require(INITIALIZED, Operator::In, &["true"]);
    let cluster = |starting: NodeBuilder, cpu: i64| {
        ClusterBuilder::with_default_pool().daemon(late()).node(starting).pending(pod("p").cpu(cpu))
    };
    let unlaunched = node("n").unlaunched(&[(INSTANCE_TYPE, &["medium"])]);
    for starting in [node("n").uninitialized(), unlaunched] {
        check(cluster(starting, 2000), &["+default large a spot: p"]);
    }
    check(cluster(node("n").uninitialized().pod(late().bound("n")), 1000), &["n: p"]);
}

#[test]
fn ports_of_daemons_are_taken() {
    let daemon = pod("ds").daemon().cpu(10).host_port(9100);
    let (_, plan) =
        plan(ClusterBuilder::with_default_pool().daemon(daemon).pending(pod("p").host_port(9100)));
    assert!(matches!(
        &plan.unplaced[0].1,
        Unplaced::NoPoolFits(verdicts) if verdicts[0].eliminated == Eliminated::HostPort(9100)
    ));
}

#[test]
fn custom_labels_of_pods_need_a_pool_that_has_them() {
    let builder = || ClusterBuilder::new().pool(pool("default").require("team", Operator::Exists, &[]));
    let (_, plan) = plan(builder().pending(pod("p").selector("team", "red")));
    assert_eq!(plan.new_claims[0].labels.get("team").map(|value| &**value), Some("red"));
    let (_, refused) =
        super::plan(ClusterBuilder::with_default_pool().pending(pod("p").selector("team", "red")));
    let text = refused.unplaced[0].1.to_string();
    assert!(text.contains("label \"team\" does not have known values"), "{text}");
}

#[test]
fn a_new_claim_names_its_instance_types() {
    let (_, plan) = plan(
        ClusterBuilder::new()
            .pool(pool("default").require(CAPACITY_TYPE, Operator::In, &[ON_DEMAND]).taint(
                "t",
                "",
                TaintEffect::NoSchedule,
            ))
            .daemon(pod("ds").daemon().cpu(100).memory(0).tolerate("t"))
            .pending(pod("p").cpu(3000).selector(ZONE, "b").tolerate("t")),
    );
    let new_claim = &plan.new_claims[0];
    let names: Vec<&str> = new_claim.instance_types.iter().map(|t| &*t.name).collect();
    assert_eq!(names, ["medium", "arm", "memory", "large", "xlarge"], "cheapest first");
    assert_eq!(new_claim.requests.cpu(), 3100, "daemons included");
    let single =
        |key: &str| new_claim.requirements.get(key).and_then(|r| r.single()).map(|value| value.to_string());
    assert_eq!((single(ZONE).as_deref(), single(CAPACITY_TYPE).as_deref()), (Some("b"), Some(ON_DEMAND)));
    assert_eq!((single(NODEPOOL).as_deref(), single(HOSTNAME)), (Some("default"), None));
    assert_eq!(new_claim.taints.len(), 1);
    assert_eq!(plan.cost.hourly, new_claim.chosen.price);
}

#[test]
fn one_impossible_pod_does_not_affect_others() {
    let builder = ClusterBuilder::with_default_pool()
        .pending_many(500, &pod("p").cpu(100))
        .pending(pod("x").cpu(500_000));
    let (_, plan) = plan(builder);
    assert_eq!(plan.unplaced.len(), 1);
    let text = plan.unplaced[0].1.to_string();
    assert!(
        text.contains("no instance type has enough resources, 6 instance types: 6 match the requirements"),
        "{text}"
    );
}

#[test]
fn a_cheaper_packing_never_ignores_weight() {
    let builder = ClusterBuilder::new()
        .pool(pool("dear").weight(10).require(INSTANCE_TYPE, Operator::In, &["xlarge"]).limit_nodes(1))
        .pool(pool("cheap"));
    let snapshot = builder.pending_many(4, &pod("p").cpu(3000).memory(100)).build();
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::Iterations(9),
    };
    let plan = solve(&snapshot, &request, &Rules::default());
    assert_eq!(report(&snapshot, &plan), ["+dear xlarge a spot: p-0 p-1 p-2 p-3"]);
}

#[test]
fn claims_are_annotated_with_applied_overlays() {
    let overlay = |price: Option<&str>, capacity| crate::overlay::NodeOverlay {
        name: "o".into(),
        weight: 0,
        requirements: [crate::model::Requirement::is_in(INSTANCE_TYPE, ["large"])].into_iter().collect(),
        price: price.map(|text| crate::overlay::PriceChange::parse_price(text).unwrap()),
        capacity,
    };
    let planned = |overlay, p: PodBuilder| {
        let mut snapshot = ClusterBuilder::with_default_pool().pending(p).build();
        snapshot.catalogs =
            crate::overlay::evaluate(&snapshot.pools, &snapshot.catalogs, &[overlay]).catalogs;
        let plan = plan_with(&snapshot, &Rules::default());
        let keys: Vec<String> = plan.new_claims[0].annotations.keys().map(ToString::to_string).collect();
        (report(&snapshot, &plan), keys)
    };
    let (lines, keys) = planned(overlay(Some("0.001"), Resources::new()), pod("p"));
    assert_eq!(
        (&*lines[0], &*keys.join(" ")),
        ("+default large a on-demand: p", "karpenter.sh/price-overlay-applied")
    );
    let gpus = || Resources::new().with("example.com/gpu", 2);
    let (lines, keys) = planned(overlay(None, gpus()), pod("p").request("example.com/gpu", 2));
    assert_eq!(
        (&*lines[0], &*keys.join(" ")),
        ("+default large a spot: p", "karpenter.sh/capacity-overlay-applied")
    );
    // A claim that does not name the type rests on no overlay.
    let (_, keys) = planned(overlay(Some("9"), gpus()), pod("p").selector(INSTANCE_TYPE, "small"));
    assert!(keys.is_empty(), "{keys:?}");
}

#[test]
fn default_constraints_hold_for_pods_without_their_own() {
    let default = |hard| TopologySpread { selector: None, hard, ..spread_over(ZONE, 1, "") };
    let rules = |hard| Rules { default_spread: vec![default(hard)], ..Rules::default() };
    let builder = |pods: PodBuilder, service: bool| {
        let mut snapshot = ClusterBuilder::with_default_pool().pending_many(3, &pods).build();
        if service {
            let id = crate::model::NamespacedName::new("default", "web");
            Arc::make_mut(&mut snapshot.workloads).services.insert(id, labels_of(&[("app", "web")]));
        }
        snapshot
    };
    let zones = |snapshot: &Snapshot, rules: &Rules| {
        let plan = plan_with(snapshot, rules);
        let request = Request {
            pods: &snapshot.pending,
            without: &[],
            purpose: Purpose::Provisioning,
            effort: Effort::First,
        };
        assert_eq!(validator::violations(snapshot, &request, rules, &plan), Vec::<String>::new());
        let zones: std::collections::BTreeSet<_> =
            plan.new_claims.iter().map(|o| o.chosen.zone.clone()).collect();
        (zones.len(), plan.unplaced.len())
    };
    let web = || pod("p").app("web").cpu(100);
    assert_eq!(zones(&builder(web(), true), &rules(true)), (3, 0));
    assert_eq!(zones(&builder(web(), true), &rules(false)), (3, 0));
    assert_eq!(zones(&builder(web(), false), &rules(true)), (1, 0), "nothing selects them");
    assert_eq!(zones(&builder(web(), true), &Rules::default()), (1, 0));
    let own = web().spread(spread_over(HOSTNAME, 3, "web"));
    assert_eq!(zones(&builder(own, true), &rules(true)), (1, 0), "they have constraints");
    let pinned = web().selector(ZONE, "a");
    assert_eq!(zones(&builder(pinned.clone(), true), &rules(false)), (1, 0), "soft ones yield");
    // The domains that a pod cannot use do not count for it.
    assert_eq!(zones(&builder(pinned, true), &rules(true)), (1, 0));
}

#[test]
fn ephemeral_volumes_are_where_their_class_allows() {
    use crate::model::{StorageClass, volume::VolumeRef};
    let class = |immediate, default: bool| StorageClass {
        immediate,
        default_since: default.then(now),
        topology: vec![
            vec![crate::model::Requirement::is_in(ZONE, ["b"])],
            vec![crate::model::Requirement::is_in(ZONE, ["c"])],
        ],
        driver: "ebs.csi.aws.com".into(),
    };
    let builder = |name: Option<&str>, classes: &[(&str, bool, bool)]| {
        let volume = VolumeRef::Ephemeral { volume: "v".into(), storage_class: name.map(Into::into) };
        let p = pod("p").with_spec(|spec| spec.volumes.push(volume));
        let mut snapshot = ClusterBuilder::with_default_pool()
            .node(node("full").zone("b").volume_limit("ebs.csi.aws.com", 0))
            .pending(p)
            .build();
        let models = Arc::make_mut(&mut snapshot.storage_classes);
        for (name, immediate, default) in classes {
            models.insert((*name).into(), class(*immediate, *default));
        }
        let plan = plan_with(&snapshot, &Rules::default());
        let request = Request {
            pods: &snapshot.pending,
            without: &[],
            purpose: Purpose::Provisioning,
            effort: Effort::First,
        };
        let judged = validator::violations(&snapshot, &request, &Rules::default(), &plan);
        assert_eq!(judged, Vec::<String>::new());
        report(&snapshot, &plan).join("; ")
    };
    assert_eq!(builder(Some("zonal"), &[("zonal", false, false)]), "+default small b spot: p");
    assert_eq!(builder(None, &[("zonal", false, true)]), "+default small b spot: p");
    let waits = builder(Some("now"), &[("now", true, false)]);
    assert_eq!(waits, "-p: waits for persistentvolumeclaim default/p-v to be bound");
    assert!(
        builder(Some("gone"), &[])
            .contains("storageclass gone of ephemeral volume default/p-v does not exist")
    );
    assert!(builder(None, &[("zonal", false, false)]).contains("names no storage class"));
}

#[test]
fn volumes_that_are_being_attached_count() {
    let builder = |attached: &[&str]| {
        let mut node = (*node("n").volume_limit("ebs.csi.aws.com", 2).build()).clone();
        node.attached = attached.iter().map(|handle| ("ebs.csi.aws.com".into(), (*handle).into())).collect();
        ClusterBuilder::with_default_pool()
            .volume("new", VolumeState::Bound, &[])
            .node(node)
            .pending(pod("p").volume("new"))
    };
    check(builder(&["vol-x"]), &["n: p"]);
    check(builder(&["vol-x", "vol-y"]), &["+default small a spot: p"]);
    // Its own volume is there already.
    check(builder(&["vol-new", "vol-x"]), &["n: p"]);
}

#[test]
fn limits_count_claims_that_are_not_launched_as_the_largest_that_they_may_become() {
    let mut node = (*node("claim").unlaunched(&[(INSTANCE_TYPE, &["small", "xlarge"])]).build()).clone();
    node.at_most = Some(Resources::of(16_000, 0));
    let builder = |limit| {
        ClusterBuilder::new()
            .pool(pool("default").limit("cpu", limit))
            .node(node.clone())
            .pending(pod("p").cpu(6000))
    };
    let (snapshot, plan) = plan(builder(20_000));
    assert_eq!(plan.unplaced.len(), 1, "{:?}", report(&snapshot, &plan));
    assert_eq!(snapshot.usage("default").0.cpu(), 16_000);
    assert_eq!(tests::plan(builder(24_000)).1.new_claims.len(), 1);
}

/// Under hard limits a node counts until it is gone; under others it has made room as soon as it is being deleted.
#[test]
fn hard_limits_count_deleting_nodes() {
    let builder = |hard: bool| {
        let pool = pool("default").limit("cpu", 20_000).with(|pool| pool.limits.hard = hard);
        ClusterBuilder::new()
            .pool(pool)
            .node(node("a").size("xlarge", 16, 32).marked())
            .pending(pod("p").cpu(6000))
    };
    assert_eq!(plan(builder(false)).1.new_claims.len(), 1);
    let (snapshot, hard) = plan(builder(true));
    assert_eq!((hard.new_claims.len(), hard.unplaced.len()), (0, 1), "{:?}", report(&snapshot, &hard));
    assert_eq!(snapshot.usage("default").1, 1);
    // Nor does an excluded node make room.
    let (snapshot, _) = plan(builder(true));
    let mut nodes = snapshot.nodes.clone();
    Arc::make_mut(&mut nodes[0]).marked_for_deletion = false;
    for (hard, new_claims) in [(false, 1), (true, 0)] {
        let mut pools = snapshot.pools.clone();
        Arc::make_mut(&mut pools[0]).limits.hard = hard;
        let snapshot = Snapshot { nodes: nodes.clone(), pools, ..snapshot.clone() };
        let pods = [pod("p").cpu(6000).build()];
        let request =
            Request { pods: &pods, without: &[0], purpose: Purpose::Simulation, effort: Effort::First };
        let plan = LeastCost.pack(&mut PreparedSnapshot::on(Arc::new(snapshot), &Rules::default()), &request);
        assert_eq!(plan.new_claims.len(), new_claims, "hard: {hard}");
    }
}

#[test]
fn unschedulable_pods_report_obstacles_on_nodes() {
    let builder = ClusterBuilder::with_default_pool()
        .node(node("a").zone("a").taint("gpu", TaintEffect::NoSchedule))
        .node(node("b").zone("b"))
        .node(node("c").zone("c").pod(pod("r").cpu(3000).bound("c")))
        .node(node("d").zone("c").marked())
        .node(node("e").zone("c").pod(pod("q").host_port(80).bound("e")));
    let asks = |change: fn(PodBuilder) -> PodBuilder| {
        let (_, plan) = plan(builder.clone().pending(change(pod("p").cpu(64_000))));
        plan.nodes.values().map(|nodes| nodes.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        asks(|pod| pod),
        ["5 nodes: 3 too little cpu (most free 4 of 64), 1 taint gpu:NoSchedule, 1 being deleted"]
    );
    assert_eq!(
        asks(|pod| pod.cpu(100).selector(ZONE, "c").selector(ARCH, "riscv").host_port(80)),
        ["5 nodes: 3 other or no label kubernetes.io/arch, 1 taint gpu:NoSchedule, 1 being deleted"]
    );
    let (snapshot, placed) = plan(builder.pending(pod("p").cpu(100)));
    assert!(placed.nodes.is_empty(), "{:?}", report(&snapshot, &placed));
}

/// A pool that was stopped does not count as one that is not there.
#[test]
fn a_halted_pool_reports_the_reason() {
    let stopped = |name: &str| {
        pool(name).with(|pool| {
            (pool.ready, pool.halted) = (false, Some("nothing is launched for this pool".into()))
        })
    };
    let only = plan(ClusterBuilder::new().pool(stopped("a")).pending(pod("p")));
    assert_eq!(
        report(&only.0, &only.1),
        ["-p: incompatible with nodepool \"a\", nothing is launched for this pool"]
    );
    let other = pool("b").taint("team", "red", TaintEffect::NoSchedule);
    let (snapshot, plan) = plan(ClusterBuilder::new().pool(other).pool(stopped("a")).pending(pod("p")));
    let text = report(&snapshot, &plan).join("\n");
    assert!(
        text.contains("nodepool \"b\", did not tolerate taint") && text.contains("nothing is launched"),
        "{text}"
    );
}

/// An event names five of the NodePools that rule a pod out.
#[test]
fn nodepools_that_a_pod_selects_are_reported_first() {
    let of_arch = |arch: &str| {
        let only = instance_type("small", 2, 4).label(ARCH, arch).offer("a", ON_DEMAND, 100).build();
        Arc::new(crate::model::Catalog::new(vec![only]))
    };
    let own = |name: &str| pool(name).label("team", "own").weight(90);
    let excluded = ClusterBuilder::new()
        .catalog(of_arch("amd64"))
        .pool(own("no-type-1"))
        .pool(own("no-type-2"))
        .catalog(of_arch("arm64"))
        .pool(own("other-label-1").label("team", "other"))
        .pool(own("other-label-2").label("team", "other"))
        .pool(own("tainted-1").taint("gpu", "", TaintEffect::NoSchedule))
        .pool(own("tainted-2").taint("gpu", "", TaintEffect::NoSchedule));
    let limited = |name: &str| own(name).weight(10).limit("cpu", 0);
    let selected = excluded.clone().pool(limited("limited-1")).pool(limited("limited-2"));
    let told = |builder: ClusterBuilder| {
        let pod = pod("p").selector("team", "own").selector(ARCH, "arm64");
        let why = plan(builder.pending(pod)).1.unplaced[0].1.clone();
        let Unplaced::NoPoolFits(verdicts) = &why else { panic!("{why}") };
        let names: Vec<String> = verdicts.iter().map(|verdict| verdict.pool.to_string()).collect();
        (names.join(" "), why.to_string())
    };
    // By weight, then by name, as they are tried.
    let others = "tainted-2 tainted-1 other-label-2 other-label-1 no-type-2 no-type-1";
    assert_eq!(told(excluded).0, others);
    let (names, text) = told(selected);
    assert_eq!(names, format!("limited-2 limited-1 {others}"));
    let first = "all available instance types exceed limits for nodepool \"limited-2\"";
    assert!(text.starts_with(first) && text.ends_with("and 3 more nodepools"), "{text}");
}

/// What a pod is told of a NodePool with capacity that starts in `seconds`, and more of it five hours later; beside it there may be a small
/// type on demand.
fn told_of_scheduled(seconds: i64, small: bool, pod: PodBuilder) -> String {
    let mut snapshot = ClusterBuilder::new().pool(pool("default")).pending(pod).build();
    let starts = snapshot.taken_at + jiff::SignedDuration::from_secs(seconds);
    let scheduled = |name: &'static str, later: i64| {
        let starts = starts + jiff::SignedDuration::from_hours(later);
        move |own: &mut Offering| *own = own.clone().starting(format!("capacity block {name}"), starts)
    };
    let block = instance_type("block", 8, 32)
        .offer_with("a", "reserved", 0, scheduled("cr-2", 5))
        .offer_with("a", "reserved", 0, scheduled("cr-1", 0));
    let small = small.then(|| instance_type("small", 1, 1).offer("a", ON_DEMAND, 100).build());
    let catalog = crate::model::Catalog::new(std::iter::once(block.build()).chain(small).collect());
    snapshot.catalogs = [("default".into(), Arc::new(catalog))].into();
    plan_with(&snapshot, &Rules::default()).unplaced[0].1.to_string()
}

#[test]
fn a_pod_is_told_when_the_capacity_starts_that_alone_can_run_it() {
    let big = || pod("p").cpu(4000);
    for (seconds, expected) in [
        (3 * 3600, "capacity block cr-1 starts in 3h ("),
        (2 * 3600 + 1, "capacity block cr-1 starts in 3h ("),
        (3600, "capacity block cr-1 starts in 1h ("),
        (3599, "capacity block cr-1 starts in 1h ("),
        (3000, "capacity block cr-1 starts in 50m ("),
        (1, "capacity block cr-1 starts in 10m ("),
        // The next one, where one that should have started is not available yet.
        (0, "capacity block cr-2 starts in 5h ("),
    ] {
        let told = told_of_scheduled(seconds, true, big());
        assert!(
            told.contains("no instance type has the required offering, ") && told.contains(expected),
            "{told}"
        );
    }
    for pod in [pod("p").cpu(9000), big().selector(ZONE, "b")] {
        let told = told_of_scheduled(3600, true, pod);
        assert!(!told.contains("starts in"), "it is too small, or elsewhere: {told}");
    }
    let reserved = told_of_scheduled(3600, true, pod("p").selector(CAPACITY_TYPE, "reserved"));
    assert!(reserved.contains("capacity block cr-1 starts in 1h ("), "{reserved}");
    let alone = told_of_scheduled(3 * 3600, false, pod("p"));
    let expected = "nodepool \"default\" has no available instance types: capacity block cr-1 starts in 3h (";
    assert!(alone.starts_with(expected), "{alone}");
}
