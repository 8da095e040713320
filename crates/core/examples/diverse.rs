//! Measures scheduling: Karpenter's diverse mix, its preference pods, and what-ifs on a large cluster.
//!
//! ```text
//! cargo run --release -p fleetwright-core --features testing --example diverse
//! ```

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures, so it needs a clock")]

use std::{
    error::Error,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use fleetwright_core::{
    model::{Pod, Snapshot, labels::HOSTNAME},
    scheduling::{Compatible, Effort, LeastCost, Packer, Plan, Purpose, Request, Rules, Solver},
    testing::{Scene, diverse_pods, kwok_catalog, linear_catalog, node, pod, pool, preference_pods},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for count in [1_000, 10_000, 20_000] {
        let scene = Scene::new().catalog(linear_catalog(400)).pool(pool("default"));
        measure(&mut out, &format!("diverse {count}"), &scene.build(), &diverse_pods(count, 42))?;
    }
    let scene = Scene::new().catalog(linear_catalog(400)).pool(pool("default"));
    measure(&mut out, "preferences 4000", &scene.build(), &preference_pods(4_000))?;
    let scene = Scene::new().catalog(kwok_catalog()).pool(pool("default"));
    let generic: Vec<Arc<Pod>> = diverse_pods(50_000, 7)
        .into_iter()
        .filter(|pod| {
            pod.spec.topology_spread.is_empty()
                && pod.spec.pod_affinity.is_empty()
                && pod.spec.pod_anti_affinity.is_empty()
        })
        .collect();
    measure(&mut out, "generic 10000 (kwok)", &scene.build(), &generic)?;
    what_ifs(&mut out, 2_000, 20, 3_600)?;
    what_ifs(&mut out, 2_000, 20, 4_000)?;
    what_ifs(&mut out, 10_000, 10, 3_600)
}

fn measure(
    out: &mut impl Write,
    name: &str,
    snapshot: &Snapshot,
    pods: &[Arc<Pod>],
) -> Result<(), Box<dyn Error>> {
    measure_packer(out, &format!("{name}, compatible"), snapshot, pods, &Compatible)?;
    measure_packer(out, &format!("{name}, least cost"), snapshot, pods, &LeastCost)
}

fn measure_packer(
    out: &mut impl Write,
    name: &str,
    snapshot: &Snapshot,
    pods: &[Arc<Pod>],
    packer: &dyn Packer,
) -> Result<(), Box<dyn Error>> {
    let rules = Rules::default();
    let request = Request { pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    let mut best: Option<(Duration, Duration, Plan)> = None;
    for _ in 0..3 {
        let begin = Instant::now();
        let mut solver = Solver::new(snapshot, &rules);
        let built = begin.elapsed();
        let plan = packer.pack(&mut solver, &request);
        let took = begin.elapsed();
        if best.as_ref().is_none_or(|(_, fastest, _)| took < *fastest) {
            best = Some((built, took, plan));
        }
    }
    let Some((built, took, plan)) = best else { return Ok(()) };
    let rate = pods.len() as f64 / took.as_secs_f64();
    writeln!(
        out,
        "{name:>34}: {took:>10.2?} (built in {built:.2?}), {rate:>9.0} pods/s, {} openings, {} unplaced, ${:.2}/h, bound ${:.2}/h",
        plan.openings.len(),
        plan.unplaced.len(),
        plan.cost.hourly,
        plan.cost.lower_bound,
    )?;
    Ok(())
}

/// A cluster of `nodes` machines of 4 CPUs with `per_node` pods each that take `load` milli-CPUs together; every machine is thought away in turn.
fn what_ifs(out: &mut impl Write, nodes: usize, per_node: usize, load: i64) -> Result<(), Box<dyn Error>> {
    let mut scene = Scene::new().catalog(kwok_catalog()).pool(pool("default"));
    for at in 0..nodes {
        let name = format!("node-{at:05}");
        let zone = ["test-zone-a", "test-zone-b", "test-zone-c"][at % 3];
        let mut machine = node(&name).size("c-4x-amd64-linux", 4, 8).zone(zone).label(HOSTNAME, &name);
        for (index, running) in pod(&format!("p-{at:05}"))
            .app(["x", "y", "z"][at % 3])
            .cpu(load / i64::try_from(per_node)?)
            .memory(64)
            .replicas(per_node)
            .into_iter()
            .enumerate()
        {
            let mut running = (*running).clone();
            running.node = Some(name.as_str().into());
            running.unschedulable = index > per_node;
            machine = machine.pod(Arc::new(running));
        }
        scene = scene.node_unsorted(machine);
    }
    let snapshot = scene.build();
    let begin = Instant::now();
    let mut solver = Solver::new(&snapshot, &Rules::default());
    let built = begin.elapsed();
    let mut times: Vec<Duration> = Vec::new();
    let mut deletable = 0;
    for at in 0..nodes {
        let pods = &snapshot.nodes[at].pods;
        let without = [at];
        let request =
            Request { pods, without: &without, purpose: Purpose::Simulation, effort: Effort::First };
        let begin = Instant::now();
        let plan = solver.solve(&request);
        times.push(begin.elapsed());
        deletable += usize::from(plan.openings.is_empty() && plan.unplaced.is_empty());
    }
    times.sort_unstable();
    writeln!(
        out,
        "what-ifs at {nodes} nodes, {} pods: solver built in {built:.2?}; median {:.1?}, p99 {:.1?}, {deletable} deletable",
        nodes * per_node,
        times[nodes / 2],
        times[nodes * 99 / 100],
    )?;
    Ok(())
}
