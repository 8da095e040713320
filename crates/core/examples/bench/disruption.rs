//! Complete disruption passes with all methods, on clusters with nothing, little and much to do.

use std::{error::Error, sync::Arc, time::Duration};

use fleetwright_core::{
    disruption::{CarryOver, METHODS, Proposal, Rules, SimulationSolver, propose_after},
    model::{
        Requirement, Snapshot,
        labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ON_DEMAND, SPOT},
        nodeclaim::ConditionType,
    },
    scheduling::PreparedSnapshot,
    testing::{NodeBuilder, affinity_to, now, pod},
};

use super::{cluster::cluster_of, measure, report::Row};

type Measured = Result<Vec<Row>, Box<dyn Error>>;

/// A measurement, by the prefix of the names of its rows.
type Work = (&'static str, fn() -> Measured);

/// Measurements, by the prefix of the names of their rows.
pub(crate) const ROWS: [Work; 1] = [("disruption pass", passes)];

/// A cluster of nodes whose pods request `load` of 4,000 milli-CPUs, with variations.
struct Case {
    name: &'static str,
    load: i64,
    /// One node in this number has drifted.
    drifted: Option<usize>,
    /// One node in this number is empty.
    empty: Option<usize>,
    /// Whether half of the nodes were created after the tables were built, as in a cluster that has run for a while.
    churned: bool,
    /// This number of deployments, with hostname anti-affinity among the pods of each.
    apart: Option<usize>,
    /// On-demand nodes of 16 CPUs instead.
    roomy: Option<Roomy>,
}

/// Nodes with free CPU and no free memory, so that no pod fits on another node.
#[derive(Clone, Copy)]
struct Roomy {
    /// Their pods: CPU in thousandths, memory in GiB.
    pods: [(i64, i64); 2],
    /// The instance types of the NodePool.
    types: [&'static str; 3],
}

/// The base case.
const PLAIN: Case =
    Case { name: "", load: 0, drifted: None, empty: None, churned: false, apart: None, roomy: None };

/// A node for one of the pods costs more than half.
const IN_VAIN: Roomy = Roomy {
    pods: [(4_500, 15), (4_500, 15)],
    types: ["c-16x-amd64-linux", "s-8x-amd64-linux", "c-1x-amd64-linux"],
};
/// Two nodes, one per pod, cost less.
const CHEAPER: Roomy = Roomy {
    pods: [(7_500, 15), (1_500, 14)],
    types: ["c-16x-amd64-linux", "c-8x-amd64-linux", "m-2x-amd64-linux"],
};

const CASES: [Case; 11] = [
    Case { name: "nothing to gain", load: 3_900, ..PLAIN },
    Case { name: "1 in 100 empty", load: 3_900, empty: Some(100), ..PLAIN },
    Case { name: "1 in 100 drifted", load: 3_900, drifted: Some(100), ..PLAIN },
    Case { name: "all half full", load: 2_000, ..PLAIN },
    Case { name: "all half full, half of the nodes new", load: 2_000, churned: true, ..PLAIN },
    Case { name: "anti-affinity in 300 deployments", load: 3_900, apart: Some(300), ..PLAIN },
    Case { name: "anti-affinity in 10 deployments", load: 3_900, apart: Some(10), ..PLAIN },
    Case { name: "half full, anti-affinity in 300 deployments", load: 2_000, apart: Some(300), ..PLAIN },
    Case { name: "half full, anti-affinity in 10 deployments", load: 2_000, apart: Some(10), ..PLAIN },
    Case { name: "several look cheaper for each node, none are", roomy: Some(IN_VAIN), ..PLAIN },
    Case { name: "two are cheaper for each node", roomy: Some(CHEAPER), ..PLAIN },
];

fn snapshot(case: &Case, nodes: usize) -> Snapshot {
    let every = |at: usize, step: Option<usize>| step.is_some_and(|step| at.is_multiple_of(step));
    if let Some(roomy) = case.roomy {
        return half_empty(roomy, nodes);
    }
    if let Some(apps) = case.apart {
        return keeping_apart(nodes, apps, case.load);
    }
    cluster_of(nodes, |at, built| {
        let load = if every(at, case.empty) { 0 } else { case.load };
        let built = if every(at, case.drifted) { built.condition(ConditionType::Drifted) } else { built };
        (built.capacity_type(SPOT), 10, load)
    })
}

/// Ten pods on each node, no two of the same deployment, from a given number of deployments.
fn keeping_apart(nodes: usize, apps: usize, load: i64) -> Snapshot {
    cluster_of(nodes, |at, built| {
        let host = format!("node-{at:05}");
        let placed = (0..10).map(|index| {
            let app = format!("app-{}", (at * 10 + index) % apps);
            let built = pod(&format!("p-{at:05}-{index}")).app(&app).cpu(load / 10).memory(64);
            let built = built.anti_affinity(affinity_to(HOSTNAME, &app));
            built.with(|pod| pod.created = now()).bound(&host)
        });
        (placed.fold(built.capacity_type(SPOT), NodeBuilder::pod), 0, 0)
    })
}

fn half_empty(Roomy { pods, types }: Roomy, nodes: usize) -> Snapshot {
    let mut snapshot = cluster_of(nodes, |at, built| {
        let host = format!("node-{at:05}");
        let placed = pods.iter().enumerate().map(|(index, (cpu, gib))| {
            let built =
                pod(&format!("p-{at:05}-{index}")).app(&format!("app-{index}")).cpu(*cpu).memory(gib * 1024);
            built.with(|pod| pod.created = now()).bound(&host)
        });
        let built = built.size("c-16x-amd64-linux", 16, 32).capacity_type(ON_DEMAND);
        (placed.fold(built, NodeBuilder::pod), 0, 0)
    });
    for pool in &mut snapshot.pools {
        let requirements = &mut Arc::make_mut(pool).template.requirements;
        requirements.add(Requirement::is_in(CAPACITY_TYPE, [ON_DEMAND]));
        requirements.add(Requirement::is_in(INSTANCE_TYPE, types));
    }
    snapshot
}

fn prepared(case: &Case, snapshot: &Arc<Snapshot>, rules: &Rules) -> PreparedSnapshot {
    if !case.churned {
        return PreparedSnapshot::on(Arc::clone(snapshot), &rules.scheduling);
    }
    let mut before = (**snapshot).clone();
    before.nodes = before.nodes.into_iter().step_by(2).collect();
    let mut prepared = PreparedSnapshot::on(Arc::new(before), &rules.scheduling);
    drop(prepared.update(snapshot));
    prepared
}

/// Runs all methods, on updated tables.
fn passes() -> Measured {
    let mut rows = Vec::new();
    for (nodes, limit, target) in [(2_000, 50, "≤ 50 ms"), (10_000, 300, "≤ 300 ms")] {
        let limit = Duration::from_millis(limit);
        for case in &CASES {
            let snapshot = Arc::new(snapshot(case, nodes));
            let rules = Rules::default();
            let prepared = prepared(case, &snapshot, &rules);
            let mut solver = SimulationSolver::with_prepared(&snapshot, &rules.scheduling, prepared);
            let mut best: Option<(Duration, Proposal)> = None;
            for _ in 0..3 {
                let (proposal, cost) = measure::cost(|| {
                    propose_after(&mut solver, &rules, now(), METHODS, CarryOver::default())
                });
                if best.as_ref().is_none_or(|(time, _)| cost.time < *time) {
                    best = Some((cost.time, proposal));
                }
            }
            let Some((time, proposal)) = best else { continue };
            rows.push(row(case, nodes, (time, &proposal), (limit, target)));
        }
    }
    Ok(rows)
}

fn row(
    case: &Case,
    nodes: usize,
    (time, proposal): (Duration, &Proposal),
    (limit, target): (Duration, &'static str),
) -> Row {
    let candidates: usize = proposal.commands.iter().map(|command| command.candidates.len()).sum();
    Row {
        work: format!("disruption pass at {nodes} nodes, {}", case.name),
        result: format!(
            "{time:.1?}, {} simulations, {} commands of {candidates} nodes ({})",
            proposal.simulations,
            proposal.commands.len(),
            proposal.method.unwrap_or("none")
        ),
        target,
        met: Some(time <= limit),
        input: match case.roomy {
            None => "spot nodes of 4 CPUs with 10 pods each, budgets of 100 %, all methods".to_owned(),
            Some(_) => "on-demand nodes of 16 CPUs with 2 pods each, otherwise as before".to_owned(),
        },
        ..Row::default()
    }
}
