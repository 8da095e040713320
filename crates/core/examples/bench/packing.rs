//! Batches of pods on empty clusters: speed, allocations, price.

use std::{sync::Arc, time::Duration};

use cpu_time::ThreadTime;

use fleetwright_core::{
    model::{
        Catalog, Operator, Pod, Snapshot,
        labels::{CAPACITY_TYPE, ON_DEMAND, SPOT},
    },
    scheduling::{
        Compatible, Effort, LeastCost, Packer, Plan, PreparedSnapshot, Purpose, Request, Rules,
        validator::violations,
    },
    testing::{
        ClusterBuilder, diverse_pods, ec2_catalog, gpu_catalog, large_pods, linear_catalog, pod, pool,
        preference_pods, shaped_pods,
    },
};

use super::{
    SEED,
    measure::{self, Cost},
    report::Row,
};

/// How often a case is run for its time.
const RUNS: usize = 5;
/// The time for an improved plan.
const BUDGET: Duration = Duration::from_millis(500);

/// A target of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Pods per second, and calls of the allocator; the tables included.
    Rate(f64, usize),
    /// A time, the tables included.
    Within(Duration),
    /// A time on existing tables.
    FirstPlan(Duration),
    /// Percent above the bound after a CPU time: the price does not depend on what else runs.
    Gap(f64, Duration),
    /// For comparison.
    None,
}

/// A batch, a packer and a target.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) text: &'static str,
    target: Target,
    packer: &'static dyn Packer,
    input: String,
    make: Box<dyn Fn() -> Snapshot>,
}

/// All cases, in the order of the table.
pub(crate) fn cases() -> Vec<Case> {
    let linear = || ClusterBuilder::new().catalog(linear_catalog(400)).pool(pool("default"));
    let pending = |builder: ClusterBuilder, pods: Vec<Arc<Pod>>| {
        let mut snapshot = builder.build();
        snapshot.pending = pods;
        snapshot
    };
    let diverse = move |count: usize| move || pending(linear(), diverse_pods(count, SEED));
    let generic = |count: usize, seed: u64| shaped_pods(count, false, seed);
    let limited = move |pods: fn(usize, u64) -> Vec<Arc<Pod>>| {
        let wide = || pool("default").limit("cpu", 100_000_000);
        move || pending(ClusterBuilder::new().catalog(linear_catalog(400)).pool(wide()), pods(10_000, SEED))
    };
    let preferences = move || pending(linear(), preference_pods(4_000));
    let case = |name: &str, packer, target, text, make: Box<dyn Fn() -> Snapshot>| Case {
        name: name.to_owned(),
        text,
        target,
        packer,
        input: format!("seed {SEED}, 400 linear types"),
        make,
    };
    let mut cases = vec![
        case(
            "diverse 10,000",
            &LeastCost,
            Target::Rate(50_000.0, 50_000),
            "≥ 50,000 pods/s, ≤ 50,000 allocations",
            Box::new(diverse(10_000)),
        ),
        case("diverse 10,000, compatible", &Compatible, Target::None, "-", Box::new(diverse(10_000))),
        case(
            "diverse 20,000",
            &LeastCost,
            Target::Within(Duration::from_millis(500)),
            "≤ 0.5 s",
            Box::new(diverse(20_000)),
        ),
        case(
            "diverse 10,000, after 500 ms",
            &LeastCost,
            Target::Gap(100.0, BUDGET),
            "-",
            Box::new(diverse(10_000)),
        ),
        case("diverse 10,000, limited", &LeastCost, Target::None, "-", Box::new(limited(diverse_pods))),
        case("generic 10,000, limited", &LeastCost, Target::None, "-", Box::new(limited(generic))),
        case(
            "preferences 4,000",
            &LeastCost,
            Target::Rate(80_000.0, usize::MAX),
            "≥ 80,000 pods/s",
            Box::new(preferences),
        ),
    ];
    for (cap, named) in [(i64::MAX, "no cap"), (64, "≤ 64 vCPU"), (32, "≤ 32 vCPU"), (16, "≤ 16 vCPU")]
    {
        let catalog = ec2_catalog(cap, SEED);
        for (capacity_type, gap) in [(ON_DEMAND, 2.0), (SPOT, 6.0)] {
            cases.extend(shaped(&catalog, named, capacity_type, gap));
        }
    }
    cases.extend([false, true].into_iter().flat_map(large));
    cases
}

/// The first plan and the improved ones of pods that are large against nodes.
fn large(limited: bool) -> Vec<Case> {
    let make = move || {
        let mut snapshot = ClusterBuilder::new().catalog(gpu_catalog()).pool(pool("default")).build();
        snapshot.pending = large_pods(limited, SEED);
        snapshot
    };
    let limits = if limited { "at most n per node" } else { "no limits" };
    let case = |what: &str, target, text| Case {
        name: format!("large 7,280, {limits}, {what}"),
        text,
        target,
        packer: &LeastCost,
        input: format!("seed {SEED}, 48 types with GPUs, 134 shapes"),
        make: Box::new(make),
    };
    let most = if limited { 3.0 } else { 1.5 };
    let text = if limited { "≤ +3 %" } else { "≤ +1.5 %" };
    let improved = |millis| Target::Gap(most, Duration::from_millis(millis));
    vec![
        case("first plan", Target::None, "-"),
        case("after 500 ms", improved(500), text),
        case("after 2 s", improved(2_000), text),
    ]
}

/// The first plan and the improved one of one catalogue.
fn shaped(catalog: &Arc<Catalog>, cap: &str, capacity_type: &'static str, gap: f64) -> [Case; 2] {
    let types = catalog.instance_types.len();
    let make = |catalog: Arc<Catalog>| {
        move || {
            let wanted = pool("default").require(CAPACITY_TYPE, Operator::In, &[capacity_type]);
            let daemon = pod("ds").daemon().cpu(150).memory(300);
            let mut snapshot =
                ClusterBuilder::new().catalog(Arc::clone(&catalog)).pool(wanted).daemon(daemon).build();
            snapshot.pending = shaped_pods(10_000, false, SEED);
            snapshot
        }
    };
    let case = |what: &str, target, text| Case {
        name: format!("generic 10,000, {capacity_type}, {cap}, {what}"),
        text,
        target,
        packer: &LeastCost,
        input: format!("seed {SEED}, {types} types"),
        make: Box::new(make(Arc::clone(catalog))),
    };
    let above = if gap > 2.0 { "≤ +6 %" } else { "≤ +2 %" };
    [
        case("first plan", Target::FirstPlan(Duration::from_millis(10)), "≤ 10 ms"),
        case("after 500 ms", Target::Gap(gap, BUDGET), above),
    ]
}

fn request<'a>(snapshot: &'a Snapshot, effort: Effort<'a>) -> Request<'a> {
    Request { pods: &snapshot.pending, without: &[], purpose: Purpose::Provisioning, effort }
}

impl Case {
    /// Makes the input, and packs it if `work` is set.
    pub(crate) fn once(&self, work: bool) {
        let snapshot = Arc::new((self.make)());
        if work {
            drop(self.run(&snapshot));
        }
    }

    /// Tables and plan, with the cost of each.
    fn run(&self, snapshot: &Arc<Snapshot>) -> (Plan, Cost, Cost) {
        let (mut prepared, tables) =
            measure::cost(|| PreparedSnapshot::on(Arc::clone(snapshot), &Rules::default()));
        let begin = ThreadTime::now();
        let budget = if let Target::Gap(_, budget) = self.target { budget } else { Duration::ZERO };
        let go_on = || begin.elapsed() < budget;
        let effort = if budget.is_zero() { Effort::First } else { Effort::While(&go_on) };
        let asked = request(snapshot, effort);
        let (mut plan, solving) = measure::cost(|| self.packer.pack(&mut prepared, &asked));
        prepared.tighten_bound(&asked, &mut plan);
        (plan, tables, solving)
    }

    /// The row of the table.
    pub(crate) fn measure(&self) -> Row {
        let snapshot = Arc::new((self.make)());
        let runs = if matches!(self.target, Target::Gap(..)) { 1 } else { RUNS };
        let whole = |(_, tables, solving): &(Plan, Cost, Cost)| tables.time + solving.time;
        let best = (0..runs).map(|_| self.run(&snapshot)).min_by_key(whole);
        let Some((plan, tables, solving)) = best else { return Row::default() };
        let time = match self.target {
            Target::FirstPlan(_) | Target::Gap(..) => solving.time,
            _ => tables.time + solving.time,
        };
        let allocations = tables.allocations + solving.allocations;
        let rate = snapshot.pending.len() as f64 / time.as_secs_f64();
        let bound = plan.cost.lower_bound.dollars();
        let gap = (plan.cost.hourly.dollars() / bound - 1.0) * 100.0;
        let found = violations(&snapshot, &request(&snapshot, Effort::First), &Rules::default(), &plan);
        let met = match self.target {
            Target::Rate(wanted, most) => Some(rate >= wanted && allocations <= most),
            Target::Within(limit) | Target::FirstPlan(limit) => Some(time <= limit),
            Target::Gap(most, _) => Some(gap <= most),
            Target::None => None,
        };
        let sound = found.is_empty() && plan.unplaced.is_empty();
        Row {
            work: self.name.clone(),
            result: match self.target {
                Target::Gap(..) => format!("{gap:+.2} % in {time:.1?}"),
                _ => format!("{time:.1?}"),
            },
            target: self.text,
            met: met.map(|met| met && sound),
            pods_per_second: Some(rate),
            allocations: Some(allocations),
            instructions: match self.target {
                Target::Gap(..) => None,
                _ => measure::instructions(&self.name),
            },
            hourly: Some(plan.cost.hourly.dollars()),
            lower_bound: Some(bound),
            nodes: Some(plan.new_claims.len()),
            violations: Some(found.len() + plan.unplaced.len()),
            input: self.input.clone(),
        }
    }
}
