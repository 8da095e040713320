//! Nodes whose pods cost less when packed by price than in Karpenter's order.

use proptest::prelude::*;

use super::*;
use crate::{
    model::{Catalog, InstanceType, Price, Requirements, Snapshot, StateNode, labels::CAPACITY_TYPE},
    testing::{Numbers, instance_type},
};

/// A NodePool of on-demand nodes without budgets.
fn on_demand(change: impl FnOnce(&mut NodePool)) -> Arc<NodePool> {
    use crate::model::Requirement;
    let pool = pool("default").with(|pool| {
        pool.template.requirements.add(Requirement::is_in(CAPACITY_TYPE, ["on-demand"]));
        pool.budgets = vec![budget(BudgetNodes::Percent(100))];
    });
    pool.with(change).into()
}

/// A node of 16 CPUs with pods of these sizes.
fn node_with_pods(name: &str, sizes: &[i64]) -> NodeBuilder {
    let node = idle(name).size("xlarge", 16, 32);
    sizes
        .iter()
        .enumerate()
        .fold(node, |node, (at, milli)| node.pod(on(name, &format!("p-{name}-{at}"), *milli)))
}

#[test]
fn a_node_is_split_by_price_if_two_cost_less_than_one() {
    let builder =
        ClusterBuilder::new().pool(on_demand(|_| {})).node(node_with_pods("a", &[7_000, 1_500]).build());
    let proposal = checked(builder, "n-to-m-consolidation: a -> large/on-demand -> small/on-demand");
    let [command] = proposal.commands.as_slice() else { panic!() };
    let pods: Vec<usize> = command.replacements.iter().map(|new_claim| new_claim.pods.len()).collect();
    assert_eq!(pods, [1, 1]);
    assert!(command.savings().times(10) >= command.price_before());
}

#[test]
fn the_overhead_of_nodes_counts_against_a_split() {
    let builder = |overhead| {
        let split = node_with_pods("a", &[7_000, 1_500]).build();
        ClusterBuilder::new().node_overhead(overhead).pool(on_demand(|_| {})).node(split)
    };
    let _ = checked(builder(100), "n-to-m-consolidation: a -> large/on-demand -> small/on-demand");
    // One more node costs more than the $0.36 that smaller types save.
    let _ = checked(builder(400), "nothing");
}

#[test]
fn pods_use_existing_nodes_first_and_the_others_are_repacked() {
    // The small pods fill the neighbouring node.
    let next = node("z").size("medium", 4, 8).pod(on("z", "q", 2_000)).build();
    let builder = ClusterBuilder::new()
        .pool(on_demand(|_| {}))
        .node(node_with_pods("a", &[7_000, 1_800, 1_500]).build())
        .node(next);
    let proposal = checked(builder, "n-to-m-consolidation: a -> large/on-demand -> small/on-demand");
    let pods: usize = proposal.commands[0].replacements.iter().map(|new_claim| new_claim.pods.len()).sum();
    assert_eq!(pods, 2);
}

#[test]
fn repacked_claims_respect_limits() {
    let limited = |nodes: i64| move |pool: &mut NodePool| pool.limits.nodes = Some(nodes);
    let builder = |nodes| {
        ClusterBuilder::new()
            .pool(on_demand(limited(nodes)))
            .node(node_with_pods("a", &[7_000, 1_500]).build())
    };
    check(builder(2), "n-to-m-consolidation: a -> large/on-demand -> small/on-demand");
    let proposal = checked(builder(1), "nothing");
    let reasons = reasons(&proposal);
    assert!(
        reasons.iter().any(|why| why.contains("would exceed its limit of nodes (2 of 1)")),
        "{reasons:?}"
    );
}

/// One pass with the state of the previous one.
fn after(snapshot: &Snapshot, carry_over: CarryOver) -> Proposal {
    let rules = Rules::default();
    let mut solver = SimulationSolver::new(snapshot, &rules.scheduling);
    propose_after(&mut solver, &rules, now(), METHODS, carry_over)
}

#[test]
fn refused_sets_are_not_repacked_until_they_change() {
    // Two nodes of 8 CPUs cost as much as one of 16.
    let builder = |sizes: &[i64]| {
        ClusterBuilder::new().pool(on_demand(|_| {})).node(node_with_pods("a", sizes).build()).build()
    };
    let (stuck, other) = (builder(&[4_500, 4_500]), builder(&[4_600, 4_500]));
    let first = after(&stuck, CarryOver::default());
    assert_eq!((summary(&first).as_str(), first.unreached.len()), ("nothing", 0));
    let again = after(&stuck, first.carry_over());
    assert_eq!(again.simulations, first.simulations - 1, "a refused set is not tried again");
    assert_eq!(again.refused, first.refused);
    assert_eq!(after(&other, first.carry_over()).simulations, first.simulations, "the set has changed");
    let rules = Rules::default();
    let later = now() + jiff::SignedDuration::from_hours(1);
    let mut solver = SimulationSolver::new(&stuck, &rules.scheduling);
    let late = propose_after(&mut solver, &rules, later, METHODS, first.carry_over());
    assert_eq!(late.simulations, first.simulations, "refusals expire");
}

#[test]
fn unreached_sets_are_reported_and_come_first_in_the_next_pass() {
    // No two of these pods fit on a node of 8 CPUs, and none fits elsewhere.
    let stuck = (0..60).fold(ClusterBuilder::new().pool(on_demand(|_| {})), |builder, at| {
        builder.node(node_with_pods(&format!("m{at:02}"), &[4_500, 4_500, 4_500]).build())
    });
    let snapshot = stuck.build();
    let mut last = after(&snapshot, CarryOver::default());
    assert_eq!(summary(&last), "nothing");
    assert!(!last.unreached.is_empty());
    let simulations = |proposal: &Proposal| proposal.simulations;
    let plain_simulations = simulations(&last) - 32;
    for _ in 0..3 {
        last = after(&snapshot, last.carry_over());
        assert!(simulations(&last) <= plain_simulations + 32 && summary(&last) == "nothing");
    }
    assert_eq!(last.unreached, Vec::<Str>::new(), "all sets were tried");
    assert_eq!(simulations(&after(&snapshot, last.carry_over())), plain_simulations, "no set is tried again");
}

/// Instance types for CPU, for memory, and general ones, which cost more.
fn families() -> Arc<Catalog> {
    let sizes = [
        ("c-4", 4, 8, 170),
        ("c-8", 8, 16, 340),
        ("r-8", 8, 64, 500),
        ("g-8", 8, 32, 480),
        ("g-16", 16, 64, 960),
    ];
    let offered = sizes.map(|(name, cpus, gib, price)| {
        let known = instance_type(name, cpus, gib);
        known.offer("a", "on-demand", price).offer("b", "on-demand", price).build()
    });
    Arc::new(Catalog::new(offered.to_vec()))
}

/// A general node of 8 CPUs with a CPU-intensive and a memory-intensive pod.
fn mixed(name: &str) -> Arc<StateNode> {
    let hungry =
        |kind: &str, milli, mib| running(name, pod(&format!("{kind}-{name}")).cpu(milli).memory(mib)).into();
    let node = idle(name).size("g-8", 8, 32).zone("a");
    node.pod(hungry("cpu", 3_600, 4_096)).pod(hungry("memory", 500, 26_000)).build()
}

#[test]
fn several_nodes_are_replaced_by_several_others() {
    let builder = |nodes: &[&str]| {
        let builder = ClusterBuilder::new().catalog(families()).pool(on_demand(|_| {}));
        nodes.iter().fold(builder, |builder, name| builder.node(mixed(name)))
    };
    // One node alone would need two that cost more; two nodes share two replacements.
    check(builder(&["m"]), "nothing");
    let proposal =
        checked(builder(&["m", "n"]), "n-to-m-consolidation: m n -> r-8/on-demand -> c-4/on-demand");
    assert_eq!(proposal.commands[0].savings(), Price::from_nanos(960_000_000 - 670_000_000));
}

/// A few random nodes with random pods.
fn random(seed: u64) -> Snapshot {
    let mut numbers = Numbers::new(seed);
    if numbers.below(3) == 0 {
        return random_families(&mut numbers);
    }
    let limited = numbers.below(3) == 0;
    let most = 24_000 + 8_000 * i64::try_from(numbers.below(6)).unwrap();
    let pool = on_demand(|pool| {
        if limited {
            pool.limits.resources = vec![(crate::model::ResourceName::Cpu, most)];
        }
    });
    let sizes = [("medium", 4), ("large", 8), ("xlarge", 16), ("memory", 4)];
    let count = 1 + numbers.below(6);
    let nodes = (0..count).map(|at| {
        let (kind, cpus) = sizes[numbers.below(4)];
        let name = format!("m{at}");
        let gib = if kind == "memory" { 32 } else { 2 * cpus };
        let mut node = idle(&name).size(kind, cpus, gib).zone(["a", "b"][numbers.below(2)]);
        let mut left = cpus * 1000 - 300;
        for index in 0..1 + numbers.below(4) {
            let milli = [300, 1_000, 1_700, 3_300, 6_500][numbers.below(5)];
            if milli > left {
                break;
            }
            left -= milli;
            let mut template = pod(&format!("p{at}-{index}")).app(["x", "y"][numbers.below(2)]).cpu(milli);
            template = match numbers.below(5) {
                0 => template.spread(crate::testing::spread_over(crate::model::labels::ZONE, 1, "x")),
                1 => template.anti_affinity(crate::testing::affinity_to(crate::model::labels::HOSTNAME, "y")),
                _ => template,
            };
            node = node.pod(Arc::<Pod>::from(running(&name, template)));
        }
        node.build()
    });
    nodes.fold(ClusterBuilder::new().pool(pool), ClusterBuilder::node).build()
}

/// A few nodes of three families.
fn random_families(numbers: &mut Numbers) -> Snapshot {
    let nodes = (0..2 + numbers.below(6)).map(|at| {
        let name = format!("m{at}");
        let cpus = [8, 16][numbers.below(2)];
        let mut node = idle(&name).size(&format!("g-{cpus}"), cpus, 4 * cpus).zone("a");
        let mut left = (cpus * 1000 - 300, cpus * 4 * 1024 - 1024);
        for index in 0..2 + numbers.below(3) {
            let (milli, mib) =
                [(3_600, 4_096), (500, 26_000), (3_300, 2_000), (700, 22_000)][numbers.below(4)];
            if milli > left.0 || mib > left.1 {
                break;
            }
            left = (left.0 - milli, left.1 - mib);
            let template = pod(&format!("p{at}-{index}")).cpu(milli).memory(mib);
            node = node.pod(Arc::<Pod>::from(running(&name, template)));
        }
        node.build()
    });
    nodes
        .fold(ClusterBuilder::new().catalog(families()).pool(on_demand(|_| {})), ClusterBuilder::node)
        .build()
}

/// A pass of the consolidation methods.
fn one_pass(snapshot: &Snapshot) -> Proposal {
    let methods = ["multi-node-consolidation", "single-node-consolidation", "n-to-m-consolidation"];
    let proposal =
        propose_with(snapshot, &Rules::default(), now(), &methods.map(|name| method(name).unwrap()));
    if proposal.method == Some("n-to-m-consolidation") { proposal } else { Proposal::default() }
}

/// The maximum launch price of an instance type, computed independently.
fn max_launch_price(known: &InstanceType, requirements: &Requirements) -> Price {
    let offered = known
        .offerings
        .iter()
        .filter(|offering| offering.available && requirements.overlaps(&offering.requirements));
    offered.map(|offering| offering.price).max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commands_are_cheaper_and_within_limits(seed in any::<u64>()) {
        let snapshot = random(seed);
        let proposal = one_pass(&snapshot);
        let mut usage = snapshot.usage("default").0.cpu();
        let mut removed: Vec<usize> = Vec::new();
        for command in &proposal.commands {
            let mut expensive = Price::ZERO;
            for new_claim in &command.replacements {
                let each = new_claim.instance_types.iter().map(|known| max_launch_price(known, &new_claim.requirements));
                expensive = expensive + each.max().unwrap();
                usage += new_claim.instance_types.iter().map(|known| known.capacity.cpu()).max().unwrap();
            }
            prop_assert!(expensive < command.price_before(), "{command:?}: may cost {expensive}");
            prop_assert!(command.savings().times(10) >= command.price_before(), "{command:?}");
            for candidate in &command.candidates {
                prop_assert!(!removed.contains(&candidate.index), "{command:?}: a node is in two commands");
                removed.push(candidate.index);
                usage -= candidate.node.capacity().cpu();
            }
            let limits = &snapshot.pools[0].limits.resources;
            prop_assert!(limits.iter().all(|(_, limit)| usage <= *limit), "{command:?}: {usage} of {limits:?}");
        }
        if let Some(first) = proposal.commands.first() {
            prop_assert!(validate(first, &snapshot, &Rules::default(), now()).is_ok());
        }
    }
}

/// The property above is not vacuous.
#[test]
fn random_clusters_have_nodes_to_repack() {
    let commands = (0..300).flat_map(|seed| one_pass(&random(seed)).commands);
    let sizes: Vec<(usize, usize)> =
        commands.map(|command| (command.candidates.len(), command.replacements.len())).collect();
    let several_to_several = sizes.iter().filter(|(from, to)| *from > 1 && *to > 1).count();
    assert!(sizes.len() >= 10 && several_to_several >= 3, "{sizes:?}");
}
