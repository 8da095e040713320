//! Plans of fixed inputs, byte for byte: what a change of the solver's structure must not change.
//!
//! A file has one line per new NodeClaim, existing node and unschedulable pod, without prose. Requirements and long lists
//! are hashes. `UPDATE_GOLDENS=1 cargo test -p fleetwright-core golden` writes the files again.

use std::{fmt::Write as _, path::Path};

use super::{random::random_scene, *};

/// Random clusters.
const SCENES: u64 = 150;

/// FNV-1a.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Up to four names, or how many there are and a hash of them.
fn names(pods: &[Arc<Pod>]) -> String {
    let mut names: Vec<&str> = pods.iter().map(|pod| &*pod.id.name).collect();
    names.sort_unstable();
    if names.len() <= 4 { names.join(" ") } else { format!("{}#{}", names.len(), hash(&names.join(" "))) }
}

/// The name of a variant.
fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}

fn verdict(why: &Unplaced) -> String {
    let Unplaced::NoPoolFits(pools) = why else { return variant(why) };
    let pools = pools.iter().map(|pool| format!("{}:{}", pool.pool, variant(&pool.eliminated)));
    pools.collect::<Vec<_>>().join(" ")
}

fn write(out: &mut String, name: &str, snapshot: &Snapshot, plan: &Plan) {
    let Cost { hourly, lower_bound, .. } = plan.cost;
    let partial = if plan.partial { " partial" } else { "" };
    writeln!(out, "{name} {} {}{partial}", hourly.nanos(), lower_bound.nanos()).unwrap();
    for new_claim in &plan.new_claims {
        let types: Vec<&str> = new_claim.instance_types.iter().map(|it| &*it.name).collect();
        let Chosen { instance_type, zone, capacity_type, price, .. } = &new_claim.chosen;
        let chosen = format!(
            "Chosen {{ instance_type: {instance_type:?}, zone: {zone:?}, capacity_type: {capacity_type:?}, price: {price:?} }}"
        );
        let rest = format!(
            "{} {:?} {:?} {:?} {chosen}",
            new_claim.requirements, new_claim.labels, new_claim.annotations, new_claim.requests,
        );
        writeln!(
            out,
            "+{} {} {}#{} {} {}: {}",
            new_claim.pool.name,
            types.first().unwrap_or(&""),
            types.len(),
            hash(&types.join(" ")),
            new_claim.chosen.price.nanos(),
            hash(&rest),
            names(&new_claim.pods)
        )
        .unwrap();
    }
    let here = |name: &str| snapshot.nodes.iter().any(|node| node.name() == name);
    for placement in &plan.existing {
        assert!(here(placement.node.name()), "a node of another snapshot");
        writeln!(out, "={}: {}", placement.node.name(), names(&placement.pods)).unwrap();
    }
    for (pod, why) in &plan.unplaced {
        writeln!(out, "-{}: {}", pod.id.name, verdict(why)).unwrap();
    }
}

fn compare(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scheduling/tests/golden").join(file);
    if option_env!("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let first = text.lines().zip(expected.lines()).position(|(a, b)| a != b);
    assert!(
        text == expected,
        "{file} differs from line {:?} on: {:?} is now {:?}",
        first.map(|index| index + 1),
        first.and_then(|index| expected.lines().nth(index)),
        first.and_then(|index| text.lines().nth(index)),
    );
}

fn request<'a>(snapshot: &'a Snapshot, effort: Effort<'a>) -> Request<'a> {
    Request { pods: &snapshot.pending, without: &[], purpose: Purpose::Provisioning, effort }
}

/// A plan, with the close bound if it is more than a first one.
fn solved(prepared: &mut PreparedSnapshot, snapshot: &Snapshot, effort: Effort<'_>) -> Plan {
    let request = request(snapshot, effort);
    let mut plan = LeastCost.pack(prepared, &request);
    if !matches!(effort, Effort::First) {
        prepared.tighten_bound(&request, &mut plan);
    }
    plan
}

#[test]
fn batches_of_the_benchmark() {
    let linear = || ClusterBuilder::new().catalog(linear_catalog(100)).pool(pool("default"));
    let with = |builder: ClusterBuilder, pods: Vec<Arc<Pod>>| {
        let mut snapshot = builder.build();
        snapshot.pending = pods;
        snapshot
    };
    let mut inputs = vec![
        ("diverse".to_owned(), with(linear(), diverse_pods(500, 1))),
        ("preferences".to_owned(), with(linear(), preference_pods(120))),
    ];
    for (capacity_type, wide) in [(ON_DEMAND, false), (SPOT, false), (SPOT, true)] {
        let wanted = pool("default").require(CAPACITY_TYPE, Operator::In, &[capacity_type]);
        let daemon = pod("ds").daemon().cpu(150).memory(300);
        let builder = ClusterBuilder::new().catalog(ec2_catalog(64, 1)).pool(wanted).daemon(daemon);
        let name = format!("generic-{capacity_type}{}", if wide { "-wide" } else { "" });
        inputs.push((name, with(builder, shaped_pods(400, wide, 1))));
    }
    let mut out = String::new();
    for (name, snapshot) in &inputs {
        let mut prepared = PreparedSnapshot::new(snapshot, &Rules::default());
        let plan = Compatible.pack(&mut prepared, &request(snapshot, Effort::First));
        write(&mut out, &format!("{name} compatible"), snapshot, &plan);
        for (effort, text) in [(Effort::First, "first"), (Effort::Iterations(30), "30 rounds")] {
            let plan = solved(&mut prepared, snapshot, effort);
            write(&mut out, &format!("{name} {text}"), snapshot, &plan);
        }
    }
    compare("batches.txt", &out);
}

#[test]
fn random_clusters() {
    let mut out = String::new();
    for seed in 0..SCENES {
        let snapshot = random_scene(seed);
        let mut prepared = PreparedSnapshot::new(&snapshot, &Rules::default());
        for (effort, text) in [(Effort::First, "first"), (Effort::Iterations(10), "10 rounds")] {
            let plan = solved(&mut prepared, &snapshot, effort);
            write(&mut out, &format!("{seed} {text}"), &snapshot, &plan);
        }
        let mut removals = Removals::new(prepared);
        for index in 0..snapshot.nodes.len() {
            let pods = snapshot.nodes[index].pods.iter().filter(|pod| pod.is_reschedulable());
            let pods: Vec<Arc<Pod>> = pods.cloned().collect();
            let plan = removals.without(&pods, &[index], Purpose::Consolidation);
            write(&mut out, &format!("{seed} without {index}"), &snapshot, &plan);
            let terms = Repack { paid: crate::model::Price::MAX, nodes: 3, shunned: &[], rounds: 5 };
            if let Some(plan) = removals.repack(&pods, &[index], &terms) {
                write(&mut out, &format!("{seed} repacked {index}"), &snapshot, &plan);
            }
            if index % 2 == 0 {
                writeln!(
                    out,
                    "{seed} kept {index} {}",
                    removals.keep(&pods, &[index], Purpose::Consolidation)
                )
                .unwrap();
            }
        }
        let plan = LeastCost.pack(&mut removals.into_prepared(), &request(&snapshot, Effort::First));
        write(&mut out, &format!("{seed} at last"), &snapshot, &plan);
    }
    compare("random.txt", &out);
}
