//! What-ifs on common ground: the same as on a cluster in which the ground's pods are where it puts them, the same whatever
//! was asked before, and without a trace. Where all pods are of one size they come to what one request for all comes to.

use proptest::prelude::*;

use super::{
    random::{random_node, random_scene, text},
    *,
};
use crate::{
    model::{Price, Str},
    scheduling::validator::violations,
};

fn builder(seed: u64) -> Snapshot {
    let mut numbers = Numbers::new(seed);
    let mut snapshot = random_scene(seed);
    for index in 10..14 + numbers.below(6) {
        snapshot.nodes.push(random_node(index, &mut numbers));
    }
    snapshot.nodes.sort_by(|a, b| a.name().cmp(b.name()));
    snapshot
}

fn moved(snapshot: &Snapshot, without: &[usize]) -> Vec<Arc<Pod>> {
    let pods = without.iter().flat_map(|index| snapshot.nodes[*index].pods.iter());
    pods.filter(|pod| pod.is_reschedulable()).cloned().collect()
}

/// Nodes that could go, a few at a time.
fn sets(snapshot: &Snapshot, numbers: &mut Numbers) -> Vec<Vec<usize>> {
    let staying: Vec<usize> =
        (0..snapshot.nodes.len()).filter(|index| !snapshot.nodes[*index].is_deleting()).collect();
    let pick = |numbers: &mut Numbers| staying[numbers.below(staying.len())];
    let count = if staying.is_empty() { 0 } else { 8 };
    let set = |numbers: &mut Numbers| {
        let mut set: Vec<usize> = (0..=numbers.below(3)).map(|_| pick(numbers)).collect();
        set.sort_unstable();
        set.dedup();
        set
    };
    (0..count).map(|_| set(numbers)).collect()
}

/// Simulations of which these have been kept, and no other was asked for.
fn settled(snapshot: &Snapshot, settled: &[Vec<usize>]) -> Removals {
    let mut removals = Removals::new(PreparedSnapshot::new(snapshot, &Rules::default()));
    for without in settled {
        assert!(removals.keep(&moved(snapshot, without), without, Purpose::Consolidation));
    }
    removals
}

/// The cluster in which a plan has come true, and the pods that it could not place.
fn resolved(snapshot: &Snapshot, plan: &Plan) -> (Snapshot, Vec<Arc<Pod>>) {
    let mut after = snapshot.clone();
    let placed: Vec<&Pod> =
        plan.existing.iter().flat_map(|placement| &placement.pods).map(|pod| &**pod).collect();
    let stays = |pod: &Arc<Pod>| !placed.iter().any(|placed| placed.uid == pod.uid);
    after.pending.retain(stays);
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let here = plan.existing.iter().filter(|placement| placement.node.name() == node.name());
        let come = here.flat_map(|placement| placement.pods.iter().cloned());
        let mut node = (**node).clone();
        node.set_pods(node.pods.iter().filter(|pod| stays(pod)).cloned().chain(come).collect());
        after.nodes[index] = Arc::new(node);
    }
    (after, plan.unplaced.iter().map(|(pod, _)| Arc::clone(pod)).collect())
}

/// One request on the cluster that the ground makes, `without` the settled and the excluded nodes.
fn on_resolved(snapshot: &Snapshot, ground: &Plan, without: &[usize]) -> Plan {
    let (after, mut pods) = resolved(snapshot, ground);
    pods.extend(moved(&after, without));
    let request = Request { pods: &pods, without, purpose: Purpose::Simulation, effort: Effort::First };
    solve(&after, &request, &Rules::default())
}

/// What is told of all pods but those that wait.
fn lines(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut lines = text(snapshot, plan);
    let waits =
        |line: &String| snapshot.pending.iter().any(|pod| line.starts_with(&format!("-{}:", pod.id.name)));
    lines.retain(|line| !waits(line));
    lines
}

fn is_rewound(seed: u64) -> Result<(), TestCaseError> {
    let snapshot = builder(seed);
    let (rules, mut numbers) = (Rules::default(), Numbers::new(seed));
    let mut removals = Removals::new(PreparedSnapshot::new(&snapshot, &rules));
    let mut kept: Vec<Vec<usize>> = Vec::new();
    for without in sets(&snapshot, &mut numbers) {
        if kept.iter().flatten().any(|index| without.contains(index)) {
            continue;
        }
        let pods = moved(&snapshot, &without);
        let plan = removals.without(&pods, &without, Purpose::Consolidation);
        let alone = settled(&snapshot, &kept).without(&pods, &without, Purpose::Consolidation);
        prop_assert_eq!(text(&snapshot, &plan), text(&snapshot, &alone));
        if let Some(ground) = removals.base_plan().filter(|ground| ground.new_claims.is_empty()) {
            let gone: Vec<usize> = kept.iter().flatten().chain(&without).copied().collect();
            prop_assert_eq!(
                lines(&snapshot, &plan),
                lines(&snapshot, &on_resolved(&snapshot, &ground, &gone))
            );
        }
        if numbers.below(3) == 0 && removals.keep(&pods, &without, Purpose::Consolidation) {
            kept.push(without);
        }
    }
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let (plan, fresh) =
        (LeastCost.pack(&mut removals.into_prepared(), &request), solve(&snapshot, &request, &rules));
    prop_assert_eq!(text(&snapshot, &plan), text(&snapshot, &fresh));
    Ok(())
}

/// Nodes of 4 CPUs with pods of one CPU, some of which are leaving, and some pods that wait.
fn uniform(seed: u64) -> Snapshot {
    let mut numbers = Numbers::new(seed);
    let mut builder = ClusterBuilder::new()
        .pool(pool("default").limit("cpu", [40_000, 44_000, 56_000, 90_000][numbers.below(4)]));
    for number in 0..10 {
        let name = format!("n{number}");
        let built = node(&name).zone("a").size("medium", 4, 16);
        let built = if numbers.below(4) == 0 { built.marked() } else { built };
        let pods =
            (0..numbers.below(4)).map(|index| pod(&format!("r{number}-{index}")).cpu(1_000).bound(&name));
        builder = builder.node(pods.fold(built, |built, pod| built.pod(pod)).build());
    }
    builder.pending_many(numbers.below(4), &pod("w").cpu(1_000)).build()
}

fn agrees_with_one_request(seed: u64) -> Result<(), TestCaseError> {
    let snapshot = uniform(seed);
    let mut numbers = Numbers::new(seed);
    let mut removals = Removals::new(PreparedSnapshot::new(&snapshot, &Rules::default()));
    for without in sets(&snapshot, &mut numbers) {
        let pods = moved(&snapshot, &without);
        let plan = removals.without(&pods, &without, Purpose::Consolidation);
        let leaving =
            snapshot.nodes.iter().filter(|node| node.is_deleting()).flat_map(|node| node.pods.iter());
        let all: Vec<Arc<Pod>> = snapshot.pending.iter().chain(leaving).chain(&pods).cloned().collect();
        let request =
            Request { pods: &all, without: &without, purpose: Purpose::Simulation, effort: Effort::First };
        let one = solve(&snapshot, &request, &Rules::default());
        let waits = |plan: &Plan| {
            let unplaced = plan.unplaced.iter().filter(|(pod, _)| pod.node.is_some());
            unplaced.count()
        };
        prop_assert_eq!(plan.new_claims.len(), one.new_claims.len());
        prop_assert_eq!(waits(&plan) == 0, waits(&one) == 0);
        prop_assert_eq!(plan.cost.hourly, one.cost.hourly);
    }
    Ok(())
}

/// Packing by price where anything is cheap enough: all that can be packed again is.
fn packs_soundly(seed: u64) -> Result<(), TestCaseError> {
    let snapshot = builder(seed);
    let (rules, mut numbers) = (Rules::default(), Numbers::new(seed));
    let mut removals = Removals::new(PreparedSnapshot::new(&snapshot, &rules));
    let paid = Price::from_nanos(100_000_000_000);
    for without in sets(&snapshot, &mut numbers) {
        let pods = moved(&snapshot, &without);
        let shunned: Vec<Str> =
            ["medium", "large"].into_iter().take(numbers.below(3)).map(Str::from).collect();
        let terms = Repack { paid, nodes: without.len(), shunned: &shunned, rounds: 20 };
        let laid = removals.without(&pods, &without, Purpose::Consolidation);
        let Some(plan) = removals.repack(&pods, &without, &terms) else { continue };
        let ground = removals.base_plan();
        let after = ground.map_or_else(|| snapshot.clone(), |ground| resolved(&snapshot, &ground).0);
        let opened = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
        let placed = plan.existing.iter().flat_map(|placement| &placement.pods);
        let placed: Vec<Arc<Pod>> = opened.chain(placed).cloned().collect();
        let request =
            Request { pods: &placed, without: &without, purpose: Purpose::Simulation, effort: Effort::First };
        // Limits are looked at by whoever asks.
        let mut wrong = violations(&after, &request, &rules, &plan);
        wrong.retain(|what| !what.starts_with("pool "));
        prop_assert_eq!(wrong, Vec::<String>::new());
        prop_assert!(plan.unplaced.is_empty() && !plan.new_claims.is_empty() && plan.cost.hourly < paid);
        for pod in &pods {
            prop_assert!(placed.iter().any(|placed| placed.uid == pod.uid), "{} has no place", pod.id);
        }
        let named = plan.new_claims.iter().flat_map(|new_claim| new_claim.instance_types.iter());
        prop_assert!(named.into_iter().all(|named| !shunned.contains(&named.name)));
        let again = removals.repack(&pods, &without, &terms).unwrap_or_default();
        prop_assert_eq!(text(&snapshot, &again), text(&snapshot, &plan));
        prop_assert_eq!(
            text(&snapshot, &removals.without(&pods, &without, Purpose::Consolidation)),
            text(&snapshot, &laid),
            "it left a trace"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn simulations_are_rewound(seed in any::<u64>()) {
        is_rewound(seed)?;
    }

    #[test]
    fn plans_packed_by_price_are_valid(seed in any::<u64>()) {
        packs_soundly(seed)?;
    }

    #[test]
    fn pods_of_one_size_equal_one_request(seed in any::<u64>()) {
        agrees_with_one_request(seed)?;
    }
}

/// A what-if that brings constraints which nobody had until then, once two others have settled: these keep their places.
#[test]
fn kept_removals_keep_their_placements() {
    is_rewound(3_524_522_968_822_020_896).unwrap();
}

/// What one node of 16 CPUs holds costs less on one of 8 and one of 2, and that is found where the price is to be beaten.
#[test]
fn pods_are_packed_by_price_below_what_was_paid() {
    let large = node("a").zone("a").size("xlarge", 16, 32);
    let filled = [("p", 7_000), ("q", 1_500)].into_iter();
    let large = filled.fold(large, |node, (name, cpu)| node.pod(pod(name).cpu(cpu).bound("a"))).build();
    let on_demand = pool("default").require(CAPACITY_TYPE, Operator::In, &[ON_DEMAND]);
    let snapshot = ClusterBuilder::new().pool(on_demand).node(large).build();
    let mut removals = Removals::new(PreparedSnapshot::new(&snapshot, &Rules::default()));
    let mut packed = |paid: i64, shunned: &[Str]| {
        let terms = Repack { paid: Price::from_nanos(paid * 1_000_000), nodes: 1, shunned, rounds: 20 };
        let plan = removals.repack(&moved(&snapshot, &[0]), &[0], &terms)?;
        Some(
            plan.new_claims
                .iter()
                .map(|new_claim| new_claim.chosen.instance_type.to_string())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(packed(960, &["xlarge".into()]).unwrap(), ["large", "small"]);
    // 480 + 120, and another node weighs three more.
    assert_eq!(packed(603, &[]), None);
    assert_eq!(packed(604, &[]).unwrap(), ["large", "small"]);
    assert_eq!(packed(960, &["large".into(), "xlarge".into()]), None);
}

/// A pod that waits has the place that a larger one would take, and what settled is counted.
#[test]
fn unschedulable_pods_are_placed_first() {
    let builder = ClusterBuilder::new()
        .pool(pool("default").limit_nodes(4))
        .node(node("a").zone("a").size("medium", 4, 16).pod(pod("big").cpu(3_000).bound("a")).build());
    let builder = builder.node(node("b").zone("a").size("medium", 4, 16).build());
    let builder =
        builder.node(node("c").zone("a").size("medium", 4, 16).pod(pod("s").cpu(2_000).bound("c")).build());
    let snapshot = builder.pending(pod("w").cpu(1_000).selector(HOSTNAME, "b")).build();
    let mut removals = Removals::new(PreparedSnapshot::new(&snapshot, &Rules::default()));
    let plan = removals.without(&moved(&snapshot, &[2]), &[2], Purpose::Consolidation);
    assert_eq!(report(&snapshot, &plan), ["b: s"]);
    assert!(removals.keep(&moved(&snapshot, &[2]), &[2], Purpose::Consolidation));
    let plan = removals.without(&moved(&snapshot, &[0]), &[0], Purpose::Consolidation);
    assert!(!plan.new_claims.is_empty(), "{:?}", report(&snapshot, &plan));
}

/// A pod that is not moved runs until the deadline of its node: topology spread counts it, on a base placement, without one, and in one
/// request.
#[test]
fn pods_until_the_deadline_count() {
    let spread = |name: &str| pod(name).cpu(500).app("web").spread(spread_over(ZONE, 1, "web"));
    let removed = |deadline: bool, waits: usize| {
        let period = deadline.then(|| std::time::Duration::from_secs(3600));
        let [a, b] =
            [("a1", "a"), ("b1", "b")].map(|(name, zone)| node(name).zone(zone).size("medium", 4, 16));
        let a = a.with_claim(|claim| claim.termination_grace_period = period);
        let a = a.pod(spread("stays").bound("a1")).pod(spread("moves").bound("a1"));
        let snapshot = ClusterBuilder::new()
            .pool(pool("default").require(ZONE, Operator::In, &["a", "b"]))
            .node(a.build())
            .node(b.pod(spread("other").bound("b1")).build())
            .pending_many(waits, &pod("w").cpu(100).selector(HOSTNAME, "absent"))
            .build();
        let moved: Vec<Arc<Pod>> =
            snapshot.nodes[0].pods.iter().filter(|pod| &*pod.id.name == "moves").cloned().collect();
        let prepared = PreparedSnapshot::new(&snapshot, &Rules::default());
        let simulated = Removals::new(prepared).without(&moved, &[0], Purpose::Consolidation);
        let request =
            Request { pods: &moved, without: &[0], purpose: Purpose::Consolidation, effort: Effort::First };
        let one = solve(&snapshot, &request, &Rules::default());
        assert_eq!(violations(&snapshot, &request, &Rules::default(), &one), Vec::<String>::new());
        assert_eq!(report(&snapshot, &simulated), report(&snapshot, &one));
        report(&snapshot, &one)
    };
    for waits in [0, 1] {
        assert_eq!(removed(true, waits), ["b1: moves"]);
        let plan = removed(false, waits);
        assert!(plan.len() == 1 && plan[0].starts_with("+default"), "zone a is empty: {plan:?}");
    }
}
