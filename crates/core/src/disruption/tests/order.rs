//! The order of candidates, blockers, and the use of budgets.

use super::*;
use crate::model::{Snapshot, StateNode, Str, pod::Owner};

fn one_at_a_time() -> impl Into<Arc<NodePool>> {
    with_budget(BudgetNodes::Count(1))
}

#[test]
fn the_most_expensive_empty_node_is_deleted_first() {
    let builder = ClusterBuilder::new()
        .pool(one_at_a_time())
        .node(idle("a").size("small", 2, 4).build())
        .node(idle("b").size("xlarge", 16, 32).build())
        .node(idle("c").size("large", 8, 16).build());
    let proposal = checked(builder, "emptiness: b");
    assert!(proposal.constrained);
}

#[test]
fn a_blocked_drifted_node_does_not_use_the_budget() {
    let drifted = |name: &str, ago: i64, milli: i64| {
        node(name).pod(on(name, &format!("p-{name}"), milli)).condition(ConditionType::Drifted).with_claim(
            move |claim| {
                if let Some(condition) = claim.conditions.get_mut(&ConditionType::Drifted) {
                    condition.since = now() - jiff::SignedDuration::from_secs(ago);
                }
            },
        )
    };
    // No instance type fits the pod of the node that drifted first.
    let builder = ClusterBuilder::new()
        .pool(one_at_a_time())
        .node(drifted("a", 20, 64_000).build())
        .node(drifted("b", 10, 3500).build());
    let proposal = propose(&builder.build(), &Rules::default(), now());
    assert_eq!(summary(&proposal), "drift: b -> medium/spot");
    let held: Vec<&str> = proposal.held.iter().map(|(candidate, _)| candidate.name()).collect();
    assert_eq!((held, reasons(&proposal)), (vec!["a"], Vec::new()));
}

fn owned(kind: &str) -> impl FnOnce(&mut Pod) {
    let owner = Owner { kind: kind.into(), name: "owner".into(), uid: "owner".into() };
    move |pod: &mut Pod| pod.owner = Some(owner)
}

#[test]
fn do_not_disrupt_counts_on_daemonset_and_static_pods() {
    for kind in ["DaemonSet", "Node", "ReplicaSet"] {
        let pod = running("a", pod("p").cpu(100)).with(owned(kind));
        let pod = pod.with(|pod| pod.do_not_disrupt = DoNotDisrupt::Always);
        let builder = ClusterBuilder::with_default_pool().node(idle("a").pod(pod.into()).build());
        let proposal = propose(&builder.build(), &Rules::default(), now());
        assert_eq!(blockers(&proposal).len(), 1, "{kind}");
    }
}

#[test]
fn a_pod_disruption_budget_blocks_only_pods_that_a_drain_evicts() {
    let pdb = PodDisruptionBudget {
        id: crate::model::NamespacedName::new("default", "x"),
        selector: Some(LabelSelector::of("app", "web")),
        disruptions_allowed: 0,
        blocks_always: false,
        always_allow_unhealthy: false,
    };
    let pods: [(&str, PodBuilder, bool); 4] = [
        ("plain", pod("p"), true),
        ("daemon", pod("p").with(owned("DaemonSet")), true),
        ("static", pod("p").with(owned("Node")), false),
        ("tolerates the taint", pod("p").tolerate("karpenter.sh/disrupted"), false),
    ];
    for (what, pod, blocks) in pods {
        let pod = running("a", pod.cpu(100).app("web"));
        let builder =
            ClusterBuilder::with_default_pool().node(idle("a").pod(pod.into()).build()).pdb(pdb.clone());
        let proposal = propose(&builder.build(), &Rules::default(), now());
        assert_eq!(!blockers(&proposal).is_empty(), blocks, "{what}: {:?}", blockers(&proposal));
    }
}

#[test]
fn a_pod_disruption_budget_may_allow_the_eviction_of_pods_that_are_not_ready() {
    for (always_allow_unhealthy, ready, blocks) in
        [(false, false, true), (false, true, true), (true, false, false), (true, true, true)]
    {
        let pdb = PodDisruptionBudget {
            id: crate::model::NamespacedName::new("default", "x"),
            selector: Some(LabelSelector::of("app", "web")),
            disruptions_allowed: 0,
            blocks_always: false,
            always_allow_unhealthy,
        };
        let pod = running("a", pod("p").cpu(100).app("web")).with(|pod| pod.ready = ready);
        let builder = ClusterBuilder::with_default_pool().node(idle("a").pod(pod.into()).build()).pdb(pdb);
        let proposal = propose(&builder.build(), &Rules::default(), now());
        let found = blockers(&proposal);
        assert_eq!(!found.is_empty(), blocks, "{always_allow_unhealthy} {ready}: {found:?}");
    }
}

#[test]
fn pending_pods_may_use_a_node_that_is_not_ready() {
    // The pending pod is placed on the in-flight node; that does not block the other node.
    let too_large_node = || idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).build();
    let builder =
        ClusterBuilder::with_default_pool().node(too_large_node()).node(node("b").launched().build());
    let builder = builder.pending(pod("w").cpu(3900));
    check(builder, "single-node-consolidation: a -> small/spot");
}

#[test]
fn unreached_nodes_come_first_in_the_next_pass() {
    let full =
        |name: &str| idle(name).capacity_type("spot").pod(on(name, &format!("p-{name}"), 3900)).build();
    let snapshot = ["a", "b", "c", "d"]
        .into_iter()
        .fold(ClusterBuilder::new().pool(with_budget(BudgetNodes::Count(4))), |builder, name| {
            builder.node(full(name))
        })
        .build();
    let single = method("single-node-consolidation").unwrap();
    let rules = Rules { simulations_max: 2, ..Rules::default() };
    let pass = |first: BTreeSet<Str>| {
        let mut solver = SimulationSolver::new(&snapshot, &rules.scheduling);
        let carry_over = CarryOver { first, ..CarryOver::default() };
        let proposal = propose_after(&mut solver, &rules, now(), &[single], carry_over);
        let mut simulated: Vec<String> =
            proposal.unconsolidatable.iter().map(|(candidate, _)| candidate.name().to_owned()).collect();
        simulated.sort();
        (simulated.concat(), proposal.unreached)
    };
    let (simulated, unreached) = pass(BTreeSet::new());
    assert_eq!((simulated.as_str(), unreached.len()), ("ab", 2));
    let (simulated, unreached) = pass(unreached.into_iter().collect());
    assert_eq!(simulated, "cd");
    assert_eq!(unreached.iter().map(|name| &**name).collect::<String>(), "ab");
}

#[test]
fn nodes_of_a_method_without_simulations_left_come_first_in_the_next_pass() {
    let snapshot = |node: &dyn Fn(&str) -> Arc<StateNode>| {
        let pool = with_budget(BudgetNodes::Percent(100));
        ClusterBuilder::new().pool(pool).node(node("a")).node(node("b")).build()
    };
    let unreached = |snapshot: &Snapshot, name: &str, simulations_max| {
        let rules = Rules { simulations_max, ..Rules::default() };
        propose_with(snapshot, &rules, now(), &[method(name).expect("a method")]).unreached
    };
    let full = |name: &str| idle(name).pod(on(name, &format!("p-{name}"), 3000)).build();
    assert_eq!(unreached(&snapshot(&full), "multi-node-consolidation", 0).concat(), "ab");
    // The simulation of each node finds that two smaller ones are cheaper; none is left for the split.
    let split = |name: &str| moves::spread_pods(name, 1500).build();
    assert_eq!(unreached(&snapshot(&split), "n-to-m-consolidation", 2).concat(), "ab");
}

#[test]
fn several_nodes_are_merged_by_saving_per_disruption() {
    // All nodes have one price. The budget allows two; those with one pod are disrupted least.
    let with_pods = |name: &str, pods: i64| {
        (0..pods)
            .fold(idle(name), |node, at| node.pod(on(name, &format!("{name}-{at}"), 3500 / pods)))
            .build()
    };
    let merged = crate::testing::instance_type("huge", 16, 32).offer("a", "spot", 200).build();
    let medium = crate::testing::instance_type("medium", 4, 8).offer("a", "on-demand", 240).build();
    let catalog = Arc::new(crate::model::Catalog::new(vec![medium, merged]));
    let builder = ClusterBuilder::new()
        .catalog(Arc::clone(&catalog))
        .pool(with_budget(BudgetNodes::Count(2)))
        .node(with_pods("a", 7))
        .node(with_pods("b", 1))
        .node(with_pods("c", 1));
    check(builder, "multi-node-consolidation: b c -> huge/spot");
    // Four of these pods fit on a node of 16 CPUs.
    let five = ClusterBuilder::new().catalog(catalog).pool(with_budget(BudgetNodes::Percent(100)));
    let five = ["a", "b", "c", "d", "e"].into_iter().fold(five, |five, name| five.node(with_pods(name, 1)));
    check(five, "multi-node-consolidation: a b c d -> huge/spot");
}

#[test]
fn commands_beyond_the_limit_of_a_pass_are_reported() {
    let drifted = |name: String| {
        let pod = on(&name, &format!("p-{name}"), 3500);
        node(&name).pod(pod).condition(ConditionType::Drifted).build()
    };
    let all = pool("default").with(|pool| pool.budgets = vec![budget(BudgetNodes::Percent(100))]);
    let builder = (0..70)
        .fold(ClusterBuilder::new().pool(all), |builder, at| builder.node(drifted(format!("n{at:02}"))));
    let proposal = propose(&builder.build(), &Rules::default(), now());
    assert_eq!((proposal.commands.len(), proposal.unreached.len()), (64, 6));
}

#[test]
fn a_pass_restores_the_solver() {
    let drifted = |name: &str| {
        node(name).pod(on(name, &format!("p-{name}"), 3500)).condition(ConditionType::Drifted).build()
    };
    let snapshot = ClusterBuilder::new()
        .pool(with_budget(BudgetNodes::Count(5)))
        .node(drifted("a"))
        .node(drifted("b"))
        .node(node("c").build())
        .build();
    let rules = Rules::default();
    let mut solver = SimulationSolver::new(&snapshot, &rules.scheduling);
    let first = propose_after(&mut solver, &rules, now(), METHODS, CarryOver::default());
    let second = propose_after(&mut solver, &rules, now(), METHODS, CarryOver::default());
    assert_eq!(summary(&first), "drift: a, b -> medium/spot");
    assert_eq!(summary(&second), summary(&first));
}

#[test]
fn blocked_drifted_nodes_do_not_starve_the_others() {
    let stuck = |name: &str| {
        node(name).pod(on(name, &format!("p-{name}"), 64_000)).condition(ConditionType::Drifted).build()
    };
    let free = node("z").pod(on("z", "p-z", 3500)).condition(ConditionType::Drifted).build();
    let builder = ["a", "b", "c"]
        .into_iter()
        .fold(ClusterBuilder::with_default_pool(), |builder, name| builder.node(stuck(name)));
    let snapshot = builder.node(free).build();
    let rules = Rules { simulations_max: 2, ..Rules::default() };
    let pass = |first: BTreeSet<Str>| {
        let mut solver = SimulationSolver::new(&snapshot, &rules.scheduling);
        let carry_over = CarryOver { first, ..CarryOver::default() };
        propose_after(&mut solver, &rules, now(), &[method("drift").unwrap()], carry_over)
    };
    let proposal = pass(BTreeSet::new());
    assert_eq!((summary(&proposal).as_str(), proposal.unreached.len()), ("nothing", 2));
    assert_eq!(summary(&pass(proposal.unreached.into_iter().collect())), "drift: z -> medium/spot");
}
