//! Small random clusters: every plan is valid, and the same each time.

use proptest::prelude::*;

use super::*;
use crate::{
    model::{Requirement, StateNode, Str},
    scheduling::validator::violations,
};

const APPS: [&str; 3] = ["x", "y", "z"];
const ZONES: [&str; 4] = ["a", "b", "c", "nowhere"];

pub(super) fn random_pod(name: &str, numbers: &mut Numbers) -> PodBuilder {
    let app = APPS[numbers.below(3)];
    let target = APPS[numbers.below(3)];
    let key = if numbers.below(2) == 0 { ZONE } else { HOSTNAME };
    let mut built = pod(name)
        .app(app)
        .cpu([100, 700, 1500, 3500][numbers.below(4)])
        .memory([64, 1000, 5000][numbers.below(3)]);
    if numbers.below(4) == 0 {
        built = built.selector(ZONE, ZONES[numbers.below(4)]);
    }
    if numbers.below(4) == 0 {
        built = built.prefer(5, CAPACITY_TYPE, Operator::In, &[ON_DEMAND]);
    }
    if numbers.below(6) == 0 {
        built = built.require("team", Operator::NotIn, &["red"]);
    }
    if numbers.below(6) == 0 {
        built = built.selector("team", "red").tolerate("team");
    }
    if numbers.below(8) == 0 {
        built = built.host_port(80);
    }
    match numbers.below(7) {
        0 => built.spread(spread_over(key, 1, app)),
        1 => built.spread(spread_over(key, 1, target)),
        2 => built.affinity(affinity_to(key, app)),
        3 => built.affinity(affinity_to(ZONE, target)),
        4 => built.anti_affinity(affinity_to(key, target)),
        5 => built.with_spec(|spec| spec.preferred_pod_anti_affinity.push((1, affinity_to(ZONE, app)))),
        _ => built,
    }
}

pub(super) fn random_node(number: usize, numbers: &mut Numbers) -> Arc<StateNode> {
    let name = format!("n{number}");
    let mut built = node(&name).zone(ZONES[numbers.below(3)]);
    if numbers.below(5) == 0 {
        built = built.uninitialized();
    }
    if numbers.below(6) == 0 {
        built = built.marked();
    }
    if numbers.below(6) == 0 {
        built = built.taint("team", TaintEffect::NoSchedule).label("team", "red");
    }
    for index in 0..numbers.below(3) {
        built = built.pod(random_pod(&format!("r{number}-{index}"), numbers).cpu(300).bound(&name));
    }
    built.build()
}

pub(super) fn random_scene(seed: u64) -> Snapshot {
    let mut numbers = Numbers::new(seed);
    let mut builder = ClusterBuilder::new().pool(pool("default"));
    if numbers.below(2) == 0 {
        let red = pool("red").weight(5).label("team", "red").taint("team", "red", TaintEffect::NoSchedule);
        builder = builder.pool(red.limit("cpu", 20_000));
    }
    if numbers.below(3) == 0 {
        builder = builder.daemon(pod("ds").daemon().cpu(200).tolerate("team"));
    }
    for index in 0..numbers.below(5) {
        builder = builder.node(random_node(index, &mut numbers));
    }
    let (shapes, copies) = (numbers.below(6) + 1, numbers.below(5) + 1);
    for shape in 0..shapes {
        let template = random_pod(&format!("p{shape}"), &mut numbers);
        builder = builder.pending_many(copies, &template);
    }
    builder.build()
}

pub(super) fn text(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut lines = report(snapshot, plan);
    lines.extend(
        plan.new_claims.iter().map(|new_claim| format!("{} {:?}", new_claim.requirements, new_claim.labels)),
    );
    lines
}

/// What a plan may cost so that it is tied with one of this price.
pub(super) fn with_near_tie(price: crate::model::Price) -> crate::model::Price {
    price + crate::model::Price::from_nanos(price.nanos() / 200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_are_valid_and_reproducible(seed in any::<u64>()) {
        let snapshot = random_scene(seed);
        let rules = Rules::default();
        let request = Request { pods: &snapshot.pending, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
        let mut prepared = PreparedSnapshot::new(&snapshot, &rules);
        let plan = LeastCost.pack(&mut prepared, &request);
        prop_assert_eq!(violations(&snapshot, &request, &rules, &plan), Vec::<String>::new(), "{:#?}", text(&snapshot, &plan));
        prop_assert!(plan.cost.lower_bound <= plan.cost.hourly);
        let mut reference = Compatible.pack(&mut prepared, &request);
        prepared.tighten_bound(&request, &mut reference);
        prop_assert_eq!(violations(&snapshot, &request, &rules, &reference), Vec::<String>::new());
        let thorough = LeastCost.pack(&mut prepared, &Request { effort: Effort::Iterations(10), ..request.clone() });
        prop_assert_eq!(violations(&snapshot, &request, &rules, &thorough), Vec::<String>::new());
        // More may be spent where more pods have a place. Beside that none is dearer than Karpenter's order, and that of more effort at most by
        // a near tie dearer than that of the first.
        let left: Vec<&str> = reference.unplaced.iter().map(|(pod, _)| &*pod.uid).collect();
        for (better, than, most) in [
            (&plan, &reference, reference.cost.hourly),
            (&thorough, &reference, reference.cost.hourly),
            (&thorough, &plan, with_near_tie(plan.cost.hourly)),
        ] {
            prop_assert!(better.unplaced.iter().all(|(pod, _)| left.contains(&&*pod.uid)));
            prop_assert!(better.unplaced.len() <= than.unplaced.len());
            let same = better.unplaced.len() == than.unplaced.len();
            prop_assert!(!same || better.cost.hourly <= most);
            // The bound was worked out from the reference, which places no pod that the others do not.
            prop_assert!(reference.cost.lower_bound <= better.cost.hourly);
        }
        let mut reversed = snapshot.pending.clone();
        reversed.reverse();
        let again = LeastCost.pack(&mut prepared, &Request { pods: &reversed, ..request.clone() });
        prop_assert_eq!(text(&snapshot, &plan), text(&snapshot, &again), "the order of the request matters");
        // A what-if in between leaves no trace, and is the same on one made ready afresh.
        for index in 0..snapshot.nodes.len() {
            let pods: Vec<_> = snapshot.nodes[index].pods.iter().filter(|pod| pod.is_reschedulable()).cloned().collect();
            let without = [index];
            let simulation = Request { pods: &pods, without: &without, purpose: Purpose::Simulation, effort: Effort::First };
            let moved = LeastCost.pack(&mut prepared, &simulation);
            prop_assert_eq!(violations(&snapshot, &simulation, &rules, &moved), Vec::<String>::new());
            prop_assert_eq!(text(&snapshot, &moved), text(&snapshot, &solve(&snapshot, &simulation, &rules)));
        }
        prop_assert_eq!(text(&snapshot, &plan), text(&snapshot, &LeastCost.pack(&mut prepared, &request)));
    }
}

/// The zones that pods select become node affinity terms, each an alternative to the first zone.
fn with_alternatives(mut snapshot: Snapshot) -> Snapshot {
    for pod in &mut snapshot.pending {
        let spec = Arc::make_mut(&mut Arc::make_mut(pod).spec);
        let Some(index) = spec.node_selector.iter().position(|(key, _)| &**key == ZONE) else { continue };
        let (_, zone) = spec.node_selector.remove(index);
        let terms = std::mem::take(&mut spec.required_node_terms);
        let others = terms.first().map_or(&[][..], Vec::as_slice);
        let term = |zone: Str| others.iter().cloned().chain([Requirement::is_in(ZONE, [zone])]).collect();
        spec.required_node_terms = vec![term(zone), term(ZONES[0].into())];
    }
    snapshot
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_with_alternative_zones_are_valid(seed in any::<u64>()) {
        let snapshot = with_alternatives(random_scene(seed));
        let rules = Rules::default();
        let request = Request { pods: &snapshot.pending, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
        let mut prepared = PreparedSnapshot::new(&snapshot, &rules);
        for plan in [LeastCost.pack(&mut prepared, &request), Compatible.pack(&mut prepared, &request)] {
            prop_assert_eq!(violations(&snapshot, &request, &rules, &plan), Vec::<String>::new(), "{:#?}", text(&snapshot, &plan));
        }
    }
}

/// A leaving node holds a pod in a zone that no pool can offer to the pods.
#[test]
fn zones_of_deleting_nodes_count() {
    let snapshot = random_scene(9_458_621_795_128_597_007);
    let rules = Rules::default();
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let plan = solve(&snapshot, &request, &rules);
    assert_eq!(violations(&snapshot, &request, &rules, &plan), Vec::<String>::new());
}

#[test]
fn the_validator_finds_violations() {
    let p = pod("p").app("x").cpu(3000).anti_affinity(affinity_to(HOSTNAME, "x"));
    let snapshot = ClusterBuilder::with_default_pool().pending_many(2, &p).build();
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let rules = Rules::default();
    let good = solve(&snapshot, &request, &rules);
    assert_eq!(violations(&snapshot, &request, &rules, &good), Vec::<String>::new());
    let mut crowded = good.clone();
    let moved = crowded.new_claims.pop().unwrap().pods;
    crowded.new_claims[0].pods.extend(moved);
    let found = violations(&snapshot, &request, &rules, &crowded).join("\n");
    assert!(found.contains("not away from") && found.contains("cannot hold"), "{found}");
    let mut forgotten = good;
    forgotten.new_claims.pop();
    assert!(violations(&snapshot, &request, &rules, &forgotten)[0].contains("0 verdicts"));
}
