//! What is brought from snapshot to snapshot answers as what is made ready on the last.

use proptest::prelude::*;
use rstest::rstest;

use super::super::greedy::pass::Strategy;
use super::{
    random::{random_node, random_pod, random_scene, text},
    *,
};

/// Changes a few things, as a cluster does; what does not change stays shared.
fn edit(snapshot: &mut Snapshot, step: usize, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(3) {
        let nodes = snapshot.nodes.len();
        let index = numbers.below(nodes);
        match numbers.below(12) {
            0..=3 if nodes > 0 => {
                let number = snapshot.nodes[index].name()[1..].parse().unwrap_or(0);
                snapshot.nodes[index] = random_node(number, numbers);
            }
            4 if nodes > 0 => drop(snapshot.nodes.remove(index)),
            5 | 6 => {
                // A name between, before or after those that are there.
                let number = numbers.below(1000);
                if !snapshot.nodes.iter().any(|node| node.name() == format!("n{number}")) {
                    snapshot.nodes.push(random_node(number, numbers));
                    snapshot.nodes.sort_by(|a, b| a.name().cmp(b.name()));
                }
            }
            7 => {
                let name = format!("late{step}-{}", numbers.below(100));
                snapshot.pending.extend(random_pod(&name, numbers).replicas(2));
            }
            8 => drop(snapshot.pending.pop()),
            9 if nodes > 0 => {
                let name = snapshot.nodes[index].name().to_owned();
                snapshot.nodes[index] = node(&name)
                    .taint("soft", TaintEffect::PreferNoSchedule)
                    .unlaunched(&[(ZONE, &["a", "b"])])
                    .build();
            }
            10 => {
                let mut pool = (*snapshot.pools[0]).clone();
                pool.limits.nodes = Some(i64::try_from(numbers.below(4)).unwrap_or(0));
                snapshot.pools[0] = Arc::new(pool);
            }
            _ => {
                let volume = ClusterBuilder::new().volume(
                    "data",
                    VolumeState::Bound,
                    &[["a", "b", "c"][numbers.below(3)]],
                );
                snapshot.volumes = volume.build().volumes;
                let pod = pod(&format!("v{step}")).volume("data").build();
                snapshot.pending.push(pod);
            }
        }
    }
}

fn agree(
    snapshot: &Snapshot,
    request: &Request<'_>,
    prepared: &mut PreparedSnapshot,
) -> Result<(), TestCaseError> {
    let mut fresh = PreparedSnapshot::new(snapshot, &Rules::default());
    for packer in [&Compatible as &dyn Packer, &LeastCost] {
        let (updated, built) = (packer.pack(prepared, request), packer.pack(&mut fresh, request));
        prop_assert_eq!(text(snapshot, &updated), text(snapshot, &built));
        prop_assert_eq!(updated.cost, built.cost);
    }
    Ok(())
}

fn follow(seed: u64) -> Result<(), TestCaseError> {
    let mut numbers = Numbers::new(seed);
    let mut snapshot = random_scene(seed);
    let mut prepared = PreparedSnapshot::new(&snapshot, &Rules::default());
    for step in 0..6 {
        let pending = snapshot.pending.clone();
        let request = Request {
            pods: &pending,
            without: &[],
            purpose: Purpose::Provisioning,
            effort: Effort::Iterations(2),
        };
        agree(&snapshot, &request, &mut prepared)?;
        for index in 0..snapshot.nodes.len() {
            let pods: Vec<_> =
                snapshot.nodes[index].pods.iter().filter(|pod| pod.is_reschedulable()).cloned().collect();
            let (without, purpose) = ([index], Purpose::Simulation);
            let simulation = Request { pods: &pods, without: &without, purpose, ..request.clone() };
            agree(&snapshot, &simulation, &mut prepared)?;
        }
        edit(&mut snapshot, step, &mut numbers);
        snapshot.epoch += 1;
        snapshot.taken_at += jiff::SignedDuration::from_secs(20);
        prepared.update(&Arc::new(snapshot.clone()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_updated_snapshot_equals_a_new_one(seed in any::<u64>()) {
        follow(seed)?;
    }
}

/// A zone that only a leaving node is in holds a spread back while that node is there, and no longer.
#[rstest]
#[case::every_node_counts(None)]
#[case::nodes_of_the_selector_count(Some("red"))]
fn zones_of_deleting_nodes_are_updated(#[case] team: Option<&str>) {
    let only_a = pool("default").require(ZONE, Operator::In, &["a"]).label("team", "red");
    let mut pods = pod("p").app("x").cpu(100).spread(spread_over(ZONE, 1, "x"));
    if let Some(team) = team {
        pods = pods.selector("team", team);
    }
    let without = ClusterBuilder::new().pool(only_a).pending_many(3, &pods).build();
    let leaving = node("n0").zone("c").label("team", "red").marked().build();
    let with = Snapshot { nodes: vec![leaving], ..without.clone() };
    let mut prepared = PreparedSnapshot::new(&without, &Rules::default());
    // There and gone, twice, so that its place is a vacant one in between.
    for (step, (snapshot, unplaced)) in
        [(&without, 0), (&with, 2), (&without, 0), (&with, 2)].into_iter().enumerate()
    {
        let epoch = u64::try_from(step).unwrap();
        let snapshot = Snapshot { epoch, ..snapshot.clone() };
        prepared.update(&Arc::new(snapshot.clone()));
        let request = Request {
            pods: &snapshot.pending,
            without: &[],
            purpose: Purpose::Provisioning,
            effort: Effort::First,
        };
        for prepared in [&mut prepared, &mut PreparedSnapshot::new(&snapshot, &Rules::default())] {
            let plan = Compatible.pack(prepared, &request);
            assert_eq!(plan.unplaced.len(), unplaced, "{:?}", text(&snapshot, &plan));
        }
    }
}

/// The plan of a pass, to the letter.
fn passes(snapshot: &Snapshot, strategy: Strategy) -> (Vec<String>, Cost) {
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let mut prepared = PreparedSnapshot::new(snapshot, &Rules::default());
    let queue = prepared.queue(request.pods);
    let (plan, _) = prepared.place(&request, &queue, strategy, None);
    (text(snapshot, &plan), plan.cost)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_equal_single_placements(seed in any::<u64>()) {
        let mut snapshot = random_scene(seed);
        let mut numbers = Numbers::new(seed ^ 1);
        for shape in 0..numbers.below(6) {
            let cpu = [100, 300, 700, 1100][numbers.below(4)];
            let template = pod(&format!("many{shape}")).app(["x", "none"][numbers.below(2)]).cpu(cpu).memory(200);
            snapshot.pending.extend(template.replicas(numbers.below(60)));
        }
        if numbers.below(3) == 0 {
            let answer = snapshot.nodes.first().and_then(|node| node.claim_name()).map(|name| name.as_str().into());
            let pod = snapshot.pending.last().map(|pod| pod.uid.clone());
            snapshot.nominated.extend(pod.zip(answer));
        }
        for strategy in [Strategy::KARPENTER, Strategy::first_fit(8_000)] {
            prop_assert_eq!(passes(&snapshot, strategy), passes(&snapshot, strategy.one_by_one()));
        }
    }
}
