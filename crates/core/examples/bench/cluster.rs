//! Large clusters: a pending pod, removal simulations, and memory.

use std::{error::Error, sync::Arc, time::Duration};

use fleetwright_core::{
    disruption::{self, CarryOver, SimulationSolver, method, propose_after},
    model::{
        Pod, Snapshot,
        labels::{HOSTNAME, SPOT, ZONE},
        nodeclaim::ConditionType,
    },
    scheduling::{
        Effort, LeastCost, Packer as _, Plan, PreparedSnapshot, Purpose, Request, Rules,
        validator::violations,
    },
    testing::{
        ClusterBuilder, NodeBuilder, Numbers, affinity_to, kwok_catalog, node, now, pod, pool, spread_over,
    },
};

use super::{
    SEED,
    measure::{self, quantiles},
    report::Row,
};

type Measured = Result<Vec<Row>, Box<dyn Error>>;
/// A measurement, by the prefix of the names of its rows.
type Work = (&'static str, fn() -> Measured);

/// Measurements, by the prefix of the names of their rows.
pub(crate) const ROWS: [Work; 4] = [
    ("one simulation", simulations),
    ("one pending pod", one_pod),
    ("single-node pass", passes),
    ("resident memory", memory),
];

const ZONES: [&str; 3] = ["test-zone-a", "test-zone-b", "test-zone-c"];

/// Pods of one node, each of one of 300 deployments; they request `load` milli-CPUs in total.
fn pods_of(at: usize, per_node: usize, load: i64) -> Vec<Arc<Pod>> {
    let name = format!("node-{at:05}");
    let cpu = load / i64::try_from(per_node).unwrap_or(1);
    let running = |index: usize| {
        let app = format!("app-{}", (at * per_node + index) % 300);
        let built = pod(&format!("p-{at:05}-{index}")).app(&app).cpu(cpu).memory(64);
        built.with(|pod| pod.created = now()).bound(&name)
    };
    (0..per_node).map(running).collect()
}

/// Nodes of 4 CPUs; `shape` returns for each node its kind, the number of its pods and their total requests.
pub(crate) fn cluster_of(
    nodes: usize,
    shape: impl Fn(usize, NodeBuilder) -> (NodeBuilder, usize, i64),
) -> Snapshot {
    let nodes = (0..nodes).map(|at| {
        let name = format!("node-{at:05}");
        let built = node(&name).size("c-4x-amd64-linux", 4, 8).zone(ZONES[at % 3]).label(HOSTNAME, &name);
        let (built, per_node, load) = shape(at, built.condition(ConditionType::Consolidatable));
        let pods = if load > 0 { pods_of(at, per_node, load) } else { Vec::new() };
        pods.into_iter().fold(built, NodeBuilder::pod).build()
    });
    let builder = ClusterBuilder::new().catalog(kwok_catalog()).pool(pool("default"));
    let mut snapshot = nodes.fold(builder, ClusterBuilder::node_unsorted).build();
    // As in the index, pods of one template share their parts.
    share(&mut snapshot);
    snapshot
}

/// Nodes of 4 CPUs with a given number of pods each.
fn cluster(nodes: usize, per_node: usize, load: i64) -> Snapshot {
    // Spot-to-spot consolidation is off by default: each node is simulated, and none is replaced.
    cluster_of(nodes, |_, built| (built.capacity_type(SPOT), per_node, load))
}

/// Shares the common parts of pods of one template, as the index does.
fn share(snapshot: &mut Snapshot) {
    let mut known: Vec<Arc<Pod>> = Vec::new();
    let mut by_app = std::collections::BTreeMap::new();
    for node in &mut snapshot.nodes {
        let mut shared = (**node).clone();
        for pod in &mut shared.pods {
            let template = by_app.entry(Arc::clone(&pod.labels)).or_insert_with(|| {
                known.push(Arc::clone(pod));
                known.len() - 1
            });
            let template = &known[*template];
            let mut own = (**pod).clone();
            (own.labels, own.spec) = (Arc::clone(&template.labels), Arc::clone(&template.spec));
            own.id.namespace = template.id.namespace.clone();
            *pod = Arc::new(own);
        }
        *node = Arc::new(shared);
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

fn simulations() -> Measured {
    let mut rows = Vec::new();
    for (nodes, load, target, limit) in [
        (2_000, 3_600, "median ≤ 20 µs", Some(Duration::from_micros(20))),
        (2_000, 4_000, "-", None),
        (10_000, 3_600, "-", None),
    ] {
        let snapshot = cluster(nodes, 10, load);
        let mut prepared = PreparedSnapshot::new(&snapshot, &Rules::default());
        let (mut times, mut new_claims) = (Vec::new(), 0);
        for at in 0..nodes {
            let (pods, without) = (&snapshot.nodes[at].pods, [at]);
            let request =
                Request { pods, without: &without, purpose: Purpose::Simulation, effort: Effort::First };
            let (plan, cost) = measure::cost(|| LeastCost.pack(&mut prepared, &request));
            times.push(cost.time);
            new_claims += plan.new_claims.len();
        }
        let (median, p99) = quantiles(times);
        let what = if new_claims == 0 { "delete" } else { "replace" };
        rows.push(Row {
            work: format!("one simulation at {nodes} nodes ({what})"),
            result: format!("median {}, p99 {}", micros(median), micros(p99)),
            target,
            met: limit.map(|limit| median <= limit),
            input: format!("{nodes} nodes with 10 pods that take {load} of 4,000 milli-CPUs"),
            ..Row::default()
        });
    }
    Ok(rows)
}

/// A new pod, mostly of a known deployment, with or without constraints.
fn newcomer(at: usize, numbers: &mut Numbers) -> Arc<Pod> {
    let app = format!("app-{}", numbers.below(300));
    let built = pod(&format!("new-{at:05}")).app(&app).cpu(100).memory(64);
    match numbers.below(4) {
        0 => built.spread(spread_over(ZONE, 1, &app)),
        1 => built.anti_affinity(affinity_to(HOSTNAME, &app)),
        _ => built,
    }
    .build()
}

/// A pod is created, placed and bound. The snapshot changes each time, and the prepared snapshot is updated.
fn one_pod() -> Measured {
    let mut numbers = Numbers::new(SEED);
    let mut snapshot = Arc::new(cluster(10_000, 10, 3_600));
    let mut prepared = PreparedSnapshot::on(Arc::clone(&snapshot), &Rules::default());
    let (mut times, mut wrong, mut allocations) = (Vec::new(), 0, 0);
    for at in 0..2_000 {
        let mut next = (*snapshot).clone();
        next.epoch += 1;
        next.pending = vec![newcomer(at, &mut numbers)];
        let next = Arc::new(next);
        let request = Request {
            pods: &next.pending,
            without: &[],
            purpose: Purpose::Provisioning,
            effort: Effort::First,
        };
        // Freed outside the measurement.
        let ((plan, left), cost): ((Plan, _), _) = measure::cost(|| {
            let left = prepared.update(&next);
            (LeastCost.pack(&mut prepared, &request), left)
        });
        drop(left);
        times.push(cost.time);
        allocations = allocations.max(cost.allocations);
        if at % 500 == 0 {
            wrong += violations(&next, &request, &Rules::default(), &plan).len();
        }
        wrong += plan.unplaced.len();
        let mut settled = (*next).clone();
        settled.pending.clear();
        for placement in &plan.existing {
            let before = &placement.node;
            let bound = |pod: &Arc<Pod>| {
                let mut pod = (**pod).clone();
                pod.node = before.node_name().cloned();
                Arc::new(pod)
            };
            let mut node = (**before).clone();
            node.set_pods(before.pods.iter().cloned().chain(placement.pods.iter().map(bound)).collect());
            let at = settled.nodes.iter().position(|known| known.name() == node.name());
            if let Some(at) = at {
                settled.nodes[at] = Arc::new(node);
            }
        }
        snapshot = Arc::new(settled);
    }
    let (median, p99) = quantiles(times);
    Ok(vec![Row {
        work: "one pending pod, 10,000 nodes, 100,000 pods".to_owned(),
        result: format!("p99 {}, median {}", micros(p99), micros(median)),
        target: "p99 ≤ 1 ms",
        met: Some(p99 <= Duration::from_millis(1) && wrong == 0),
        allocations: Some(allocations),
        violations: Some(wrong),
        input: format!("seed {SEED}: 2,000 pods in turn, half with constraints; update and solve are timed"),
        ..Row::default()
    }])
}

/// Simulates the removal of each node; none can be removed.
fn passes() -> Measured {
    let mut rows = Vec::new();
    for (nodes, limit, target) in [(2_000, 50, "≤ 50 ms"), (10_000, 300, "≤ 300 ms")] {
        let limit = Duration::from_millis(limit);
        let snapshot = Arc::new(cluster(nodes, 10, 3_900));
        let rules = disruption::Rules::default();
        let prepared = PreparedSnapshot::on(Arc::clone(&snapshot), &rules.scheduling);
        let single = method("single-node-consolidation").ok_or("no such method")?;
        let mut solver = SimulationSolver::with_prepared(&snapshot, &rules.scheduling, prepared);
        let mut best: Option<(Duration, u32, usize)> = None;
        for _ in 0..3 {
            let (proposal, cost) =
                measure::cost(|| propose_after(&mut solver, &rules, now(), &[single], CarryOver::default()));
            if best.is_none_or(|(time, ..)| cost.time < time) {
                best = Some((cost.time, proposal.simulations, proposal.commands.len()));
            }
        }
        let Some((time, simulations, commands)) = best else { continue };
        rows.push(Row {
            work: format!("single-node pass at {nodes} nodes"),
            result: format!("{time:.1?}, {simulations} simulations, {commands} commands"),
            target,
            met: Some(time <= limit),
            input: format!("{nodes} nodes of the cheapest type that holds their 10 pods"),
            ..Row::default()
        });
    }
    Ok(rows)
}

/// The memory of a snapshot and of its prepared form after a simulation.
fn memory() -> Measured {
    let (before, resident) = (measure::live_bytes(), measure::rss());
    let mut snapshot = cluster(10_000, 10, 3_600);
    snapshot.pending = vec![newcomer(0, &mut Numbers::new(SEED))];
    let snapshot = Arc::new(snapshot);
    let mut prepared = PreparedSnapshot::on(Arc::clone(&snapshot), &Rules::default());
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    let plan = LeastCost.pack(&mut prepared, &request);
    let live = measure::live_bytes() - before;
    let grown = measure::rss().zip(resident).map(|(now, before)| now - before);
    drop(plan);
    let grown = grown.map_or_else(|| "n/a".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000));
    Ok(vec![Row {
        work: "resident memory, 10,000 nodes, 100,000 pods".to_owned(),
        result: format!("{} MB allocated, resident +{grown}", live / 1_000_000),
        target: "≤ 200 MB",
        met: Some(live <= 200_000_000),
        input: "snapshot and solver, 300 deployments".to_owned(),
        ..Row::default()
    }])
}
