//! Nodes whose pods cost less when they are packed by price than when they are laid as Karpenter does.

use proptest::prelude::*;

use super::*;
use crate::{
    model::{Catalog, InstanceType, Price, Requirements, Snapshot, StateNode, labels::CAPACITY_TYPE},
    testing::{Numbers, instance_type},
};

/// A pool of on-demand nodes, any number of which may go.
fn on_demand(change: impl FnOnce(&mut NodePool)) -> Arc<NodePool> {
    use crate::model::Requirement;
    let pool = pool("default").with(|pool| {
        pool.template.requirements.add(Requirement::is_in(CAPACITY_TYPE, ["on-demand"]));
        pool.budgets = vec![budget(BudgetNodes::Percent(100))];
    });
    pool.with(change).into()
}

/// A node of 16 CPUs with pods of these sizes.
fn roomy(name: &str, sizes: &[i64]) -> NodeBuilder {
    let node = idle(name).size("xlarge", 16, 32);
    sizes
        .iter()
        .enumerate()
        .fold(node, |node, (at, milli)| node.pod(on(name, &format!("p-{name}-{at}"), *milli)))
}

#[test]
fn a_node_is_split_by_price_where_one_would_hold_all() {
    let builder = ClusterBuilder::new().pool(on_demand(|_| {})).node(roomy("a", &[7_000, 1_500]).build());
    let proposal = checked(builder, "n-to-m-consolidation: a -> large/on-demand -> small/on-demand");
    let [command] = proposal.commands.as_slice() else { panic!() };
    let pods: Vec<usize> = command.replacements.iter().map(|new_claim| new_claim.pods.len()).collect();
    assert_eq!(pods, [1, 1]);
    assert!(command.savings().times(10) >= command.price_now());
}

#[test]
fn pods_stay_on_nodes_that_have_room_and_the_rest_is_packed() {
    // The small pods go to the neighbour, which is full then.
    let neighbour = node("z").size("medium", 4, 8).pod(on("z", "q", 2_000)).build();
    let builder = ClusterBuilder::new()
        .pool(on_demand(|_| {}))
        .node(roomy("a", &[7_000, 1_800, 1_500]).build())
        .node(neighbour);
    let proposal = checked(builder, "n-to-m-consolidation: a -> large/on-demand -> small/on-demand");
    let pods: usize = proposal.commands[0].replacements.iter().map(|new_claim| new_claim.pods.len()).sum();
    assert_eq!(pods, 2);
}

#[test]
fn limits_hold_for_what_is_packed_by_price() {
    let limited = |nodes: i64| move |pool: &mut NodePool| pool.limits.nodes = Some(nodes);
    let builder = |nodes| {
        ClusterBuilder::new().pool(on_demand(limited(nodes))).node(roomy("a", &[7_000, 1_500]).build())
    };
    check(builder(2), "n-to-m-consolidation: a -> large/on-demand -> small/on-demand");
    let proposal = checked(builder(1), "nothing");
    let reasons = reasons(&proposal);
    assert!(
        reasons.iter().any(|why| why.contains("would exceed its limit of nodes (2 of 1)")),
        "{reasons:?}"
    );
}

/// One pass after what `recall` has of the last one.
fn after(snapshot: &Snapshot, recall: Recall) -> Proposal {
    let rules = Rules::default();
    let mut solver = SimulationSolver::new(snapshot, &rules.scheduling);
    propose_after(&mut solver, &rules, now(), METHODS, recall)
}

#[test]
fn what_was_packed_in_vain_is_left_alone_while_it_stays_as_it_is() {
    // Two of 8 CPUs would cost what one of 16 does.
    let builder =
        |sizes: &[i64]| ClusterBuilder::new().pool(on_demand(|_| {})).node(roomy("a", sizes).build()).build();
    let (stuck, other) = (builder(&[4_500, 4_500]), builder(&[4_600, 4_500]));
    let first = after(&stuck, Recall::default());
    assert_eq!((summary(&first).as_str(), first.unreached.len()), ("nothing", 0));
    let again = after(&stuck, first.recall());
    assert_eq!(again.simulations, first.simulations - 1, "it is not tried again");
    assert_eq!(again.refused, first.refused);
    assert_eq!(after(&other, first.recall()).simulations, first.simulations, "it is another one now");
    let rules = Rules::default();
    let later = now() + jiff::SignedDuration::from_hours(1);
    let mut solver = SimulationSolver::new(&stuck, &rules.scheduling);
    let late = propose_after(&mut solver, &rules, later, METHODS, first.recall());
    assert_eq!(late.simulations, first.simulations, "things change with time alone");
}

#[test]
fn what_a_pass_does_not_reach_is_told_and_reached_next() {
    // No two of these pods share a node of 8 CPUs, and none has room elsewhere.
    let stuck = (0..60).fold(ClusterBuilder::new().pool(on_demand(|_| {})), |builder, at| {
        builder.node(roomy(&format!("m{at:02}"), &[4_700, 4_700, 4_700]).build())
    });
    let snapshot = stuck.build();
    let mut last = after(&snapshot, Recall::default());
    assert_eq!(summary(&last), "nothing");
    assert!(!last.unreached.is_empty());
    let trials = |proposal: &Proposal| proposal.simulations;
    let looks = trials(&last) - 32;
    for _ in 0..3 {
        last = after(&snapshot, last.recall());
        assert!(trials(&last) <= looks + 32 && summary(&last) == "nothing");
    }
    assert_eq!(last.unreached, Vec::<Str>::new(), "all were tried, alone and together");
    assert_eq!(trials(&after(&snapshot, last.recall())), looks, "and none is tried again");
}

/// Nodes for CPUs, for memory, and for both, which are bad value.
fn families() -> Arc<Catalog> {
    let sizes = [
        ("c-4", 4, 8, 170),
        ("c-8", 8, 16, 340),
        ("r-8", 8, 64, 500),
        ("g-8", 8, 32, 480),
        ("g-16", 16, 64, 960),
    ];
    let sold = sizes.map(|(name, cpus, gib, price)| {
        let known = instance_type(name, cpus, gib);
        known.offer("a", "on-demand", price).offer("b", "on-demand", price).build()
    });
    Arc::new(Catalog::new(sold.to_vec()))
}

/// A general node of 8 CPUs with a pod that wants CPUs and one that wants memory.
fn mixed(name: &str) -> Arc<StateNode> {
    let hungry =
        |kind: &str, milli, mib| running(name, pod(&format!("{kind}-{name}")).cpu(milli).memory(mib)).into();
    let node = idle(name).size("g-8", 8, 32).zone("a");
    node.pod(hungry("cpu", 3_600, 4_096)).pod(hungry("memory", 500, 26_000)).build()
}

#[test]
fn several_become_several_others() {
    let builder = |nodes: &[&str]| {
        let builder = ClusterBuilder::new().catalog(families()).pool(on_demand(|_| {}));
        nodes.iter().fold(builder, |builder, name| builder.node(mixed(name)))
    };
    // Alone it would take two nodes that cost more; one for both pairs costs what two do.
    check(builder(&["m"]), "nothing");
    let proposal =
        checked(builder(&["m", "n"]), "n-to-m-consolidation: m n -> r-8/on-demand -> c-4/on-demand");
    assert_eq!(proposal.commands[0].savings(), Price::from_nanos(960_000_000 - 670_000_000));
}

/// A few nodes of any size, filled by chance.
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

/// What the method says once another one has looked at all sets of nodes; nothing where that one acts.
fn one_pass(snapshot: &Snapshot) -> Proposal {
    let methods = ["multi-node-consolidation", "single-node-consolidation", "n-to-m-consolidation"];
    let proposal =
        propose_with(snapshot, &Rules::default(), now(), &methods.map(|name| method(name).unwrap()));
    if proposal.method == Some("n-to-m-consolidation") { proposal } else { Proposal::default() }
}

/// The most that a node of this type may cost when it is launched, by the plainest reckoning.
fn dearest(known: &InstanceType, requirements: &Requirements) -> Price {
    let sold = known
        .offerings
        .iter()
        .filter(|offering| offering.available && requirements.intersects(&offering.requirements).is_ok());
    sold.map(|offering| offering.price).max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_decided_is_cheaper_and_within_limits(seed in any::<u64>()) {
        let snapshot = random(seed);
        let proposal = one_pass(&snapshot);
        let mut usage = snapshot.usage("default").0.cpu();
        let mut gone: Vec<usize> = Vec::new();
        for command in &proposal.commands {
            let mut dear = Price::ZERO;
            for new_claim in &command.replacements {
                let each = new_claim.instance_types.iter().map(|known| dearest(known, &new_claim.requirements));
                dear = dear + each.max().unwrap();
                usage += new_claim.instance_types.iter().map(|known| known.capacity.cpu()).max().unwrap();
            }
            prop_assert!(dear < command.price_now(), "{command}: may cost {dear}");
            prop_assert!(command.savings().times(10) >= command.price_now(), "{command}");
            for candidate in &command.candidates {
                prop_assert!(!gone.contains(&candidate.index), "{command}: it goes twice");
                gone.push(candidate.index);
                usage -= candidate.node.capacity().cpu();
            }
            let limits = &snapshot.pools[0].limits.resources;
            prop_assert!(limits.iter().all(|(_, limit)| usage <= *limit), "{command}: {usage} of {limits:?}");
        }
        if let Some(first) = proposal.commands.first() {
            prop_assert!(validate(first, &snapshot, &Rules::default(), now()).is_ok());
        }
    }
}

/// The property above is about something.
#[test]
fn chance_finds_nodes_to_pack_by_price() {
    let commands = (0..300).flat_map(|seed| one_pass(&random(seed)).commands);
    let sizes: Vec<(usize, usize)> =
        commands.map(|command| (command.candidates.len(), command.replacements.len())).collect();
    let several_to_several = sizes.iter().filter(|(from, to)| *from > 1 && *to > 1).count();
    assert!(sizes.len() >= 10 && several_to_several >= 3, "{sizes:?}");
}
