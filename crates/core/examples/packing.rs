//! Measures packing: the price of 10,000 pods on a catalogue of 600 types, against the bound.
//!
//! ```text
//! cargo run --profile dist -p fleetwright-core --features testing --example packing [-- first]
//! ```
//!
//! With `first`, nothing is improved: for profiles of the first plan.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures, so it needs a clock")]

use std::{
    error::Error,
    io::Write,
    time::{Duration, Instant},
};

use fleetwright_core::{
    model::{
        Operator, Snapshot,
        labels::{CAPACITY_TYPE, ON_DEMAND, SPOT},
    },
    scheduling::{
        Compatible, Effort, LeastCost, Packer, Plan, PreparedSnapshot, Purpose, Request, Rules,
        validator::violations,
    },
    testing::{ClusterBuilder, ec2_catalog, pod, pool, shaped_pods},
};

/// The time for an improved plan.
const BUDGET: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let quick = std::env::args().any(|argument| argument == "first");
    writeln!(
        out,
        "pods     capacity    types  bound $/h | compatible: gap  nodes  time | first: gap  nodes  time | improved: gap  nodes  time | least types"
    )?;
    for wide in [false, true] {
        for cap in [i64::MAX, 64, 32, 16] {
            for capacity_type in [ON_DEMAND, SPOT] {
                row(&mut out, wide, cap, capacity_type, quick)?;
            }
        }
    }
    Ok(())
}

fn row(
    out: &mut impl Write,
    wide: bool,
    cap: i64,
    capacity_type: &str,
    quick: bool,
) -> Result<(), Box<dyn Error>> {
    let catalog = ec2_catalog(cap, 11);
    let types = catalog.instance_types.len();
    let builder = ClusterBuilder::new()
        .catalog(catalog)
        .pool(pool("default").require(CAPACITY_TYPE, Operator::In, &[capacity_type]))
        .daemon(pod("ds").daemon().cpu(150).memory(300));
    let mut snapshot = builder.build();
    snapshot.pending = shaped_pods(10_000, wide, 5);
    let (compatible, reference) = measure(&snapshot, &Compatible, Effort::First);
    let (first, quick_plan) = measure(&snapshot, &LeastCost, Effort::First);
    let (improved, thorough) = if quick { (first, quick_plan.clone()) } else { improved(&snapshot) };
    let gap = |plan: &Plan| {
        let bound = reference.cost.lower_bound.dollars();
        (plan.cost.hourly.dollars() / bound - 1.0) * 100.0
    };
    let least = thorough.new_claims.iter().map(|new_claim| new_claim.instance_types.len()).min().unwrap_or(0);
    let name = if wide { "wide" } else { "generic" };
    writeln!(
        out,
        "{name:<8} {capacity_type:<11} {types:>5} {:>10.2} | {:>6.2} % {:>5} {:>9.2?} | {:>6.2} % {:>5} {:>9.2?} | {:>6.2} % {:>5} {:>9.2?} | {least}",
        reference.cost.lower_bound.dollars(),
        gap(&reference),
        reference.new_claims.len(),
        compatible,
        gap(&quick_plan),
        quick_plan.new_claims.len(),
        first,
        gap(&thorough),
        thorough.new_claims.len(),
        improved,
    )?;
    let request = request(&snapshot, Effort::First);
    for plan in [&reference, &quick_plan, &thorough].into_iter().filter(|_| !quick) {
        let found = violations(&snapshot, &request, &Rules::default(), plan);
        if !found.is_empty() || !plan.unplaced.is_empty() {
            return Err(format!("invalid plan: {} unplaced, {:?}", plan.unplaced.len(), found.first()).into());
        }
    }
    Ok(())
}

fn request<'a>(snapshot: &'a Snapshot, effort: Effort<'a>) -> Request<'a> {
    Request { pods: &snapshot.pending, without: &[], purpose: Purpose::Provisioning, effort }
}

/// The fastest of three, tables excluded.
fn measure(snapshot: &Snapshot, packer: &dyn Packer, effort: Effort<'_>) -> (Duration, Plan) {
    let mut best: Option<(Duration, Plan)> = None;
    for _ in 0..3 {
        let mut prepared = PreparedSnapshot::new(snapshot, &Rules::default());
        let begin = Instant::now();
        let plan = packer.pack(&mut prepared, &request(snapshot, effort));
        let took = begin.elapsed();
        if best.as_ref().is_none_or(|(fastest, _)| took < *fastest) {
            best = Some((took, plan));
        }
    }
    best.unwrap_or_default()
}

fn improved(snapshot: &Snapshot) -> (Duration, Plan) {
    let mut prepared = PreparedSnapshot::new(snapshot, &Rules::default());
    let begin = Instant::now();
    let go_on = || begin.elapsed() < BUDGET;
    let plan = LeastCost.pack(&mut prepared, &request(snapshot, Effort::While(&go_on)));
    (begin.elapsed(), plan)
}
