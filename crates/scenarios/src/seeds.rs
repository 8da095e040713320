//! Property runs: one seed is one small cluster with many disturbances, and independent checks at every second.
//!
//! A run has three phases. 1 [`script`] changes loads, pools and objects, while [`chaos`] fails calls and operators are killed, cut off
//! and given wrong clocks; safety invariants must hold. 2 The faults end, and the cluster must become stable: every pod runs, every
//! instance is a node, no taint of a command remains. 3 No operator may write anything. A failing seed fails again.
//!
//! The disturbances of a seed are drawn first ([`plan`]): a few kinds at a time find more than all of them in every run.

pub mod bugs;
mod chaos;
mod check;
mod large;
mod log;
mod plan;
mod price_feed;
mod script;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    hash::{Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetwright_core::model::{
    InstanceType, Price, Requirement,
    labels::{ARCH, CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE},
};
use fleetwright_fake::{Catalogue, CloudConfig, catalogue::realistic, kubelet::KubeletConfig};
use jiff::Timestamp;

pub use fleetwright_sim::simulator::{CloudFault, CloudSetup, SimulatedCloud};
pub use futures::future::BoxFuture;
pub use kube::Client;

pub use bugs::Bug;
pub use check::Violation;
pub use large::{LargeReport, Writes, run_large};
pub use log::LineSink;

use check::Checker;
use fleetwright_sim::simulator::{
    FakeSetup, Simulator, SimulatorConfig, SimulatorError, Stability, Wrap, virtual_runtime,
};
use plan::Plan;
use script::Script;

/// The maximum time until the cluster is stable after the faults: longer than every timeout and limit.
const REST: Duration = Duration::from_secs(90 * 60);
/// The time after the faults until every instance is a node or terminated.
const COLLECTED: Duration = Duration::from_secs(25 * 60);
/// How long the stable cluster is observed. Later, prices change, and launches that were refused for an hour are retried.
const WATCH: Duration = Duration::from_secs(3 * 60);
/// The time until a replacement may itself be disrupted: its stabilization period of ten minutes, and a reconciliation every five
/// minutes.
const YOUNG: Duration = Duration::from_secs(16 * 60);
/// The interval of the checks.
const STEP: Duration = Duration::from_secs(1);
/// The number of reserved instances of a type, if any: more than a run has. The fake provider does not report how many are left, and a
/// reservation that looks free and is not would be tried again and again.
const RESERVED_INSTANCES: u32 = 40;
/// The label that distinguishes reservations.
const RESERVATION: &str = "example.com/reservation-id";
/// The number of instance types.
const TYPES: usize = 12;
/// One seed in this many is run twice.
pub const TWICE: u64 = 100;
/// The start time of every run.
const ORIGIN: i64 = 1_767_225_600;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// Violations: invariant, time and objects. At most a few.
    pub violations: Vec<Violation>,
    /// The disturbances by kind with their number, so that a run without any is noticed.
    pub happened: BTreeMap<&'static str, u32>,
}

impl fmt::Display for SeedReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "seed {}: {:?}", self.seed, self.happened)?;
        self.violations.iter().try_for_each(|violation| writeln!(formatter, "{violation}"))
    }
}

/// Why a run failed to start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The simulator.
    #[error(transparent)]
    Simulator(#[from] SimulatorError),
    /// The runtime.
    #[error("runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Runs `seed` over a cloud.
///
/// Disturbances that the cloud does not have are left out, and so is what only an optional feature of it brings: spot, reservations.
/// Pods request up to 3 CPUs of architecture `amd64`.
///
/// # Errors
/// If the simulator cannot be created.
pub fn run_over(seed: u64, cloud: Arc<dyn CloudSetup>) -> Result<SeedReport, RunError> {
    virtual_runtime()?.block_on(async move { run_one(seed, Some(cloud), None, None, trouble(seed)).await })
}

/// Runs `count` seeds from `first` on over a cloud, on as many threads, and returns the reports in the order of the seeds. `stop` is called
/// after each run; if it returns true, no further run is started.
pub fn run_many_over(
    first: u64,
    count: u64,
    cloud: &Arc<dyn CloudSetup>,
    threads: usize,
    stop: &(dyn Fn(&Result<SeedReport, RunError>) -> bool + Sync),
) -> Vec<Result<SeedReport, RunError>> {
    on_threads(first, count, threads, &|seed| run_over(seed, cloud.clone()), stop)
}

/// Runs `seed` over the fake cloud, optionally with a planted bug.
///
/// # Errors
/// If the simulator cannot be created.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<SeedReport, RunError> {
    run_logged(seed, bug, None)
}

/// The same, and prints every request.
///
/// # Errors
/// As [`run`].
pub fn run_logged(seed: u64, bug: Option<Bug>, sink: Option<LineSink>) -> Result<SeedReport, RunError> {
    virtual_runtime()?.block_on(async move { run_one(seed, None, bug, sink, trouble(seed)).await })
}

/// Seeds that once had a violation, of the product or the simulator, the minutes that faults lasted then, and what happened.
pub const MENDED: [(u64, u64, &str); 20] = [
    (50, 10, "a standby has seen less than its predecessor wrote"),
    (104, 10, "a pod of a DaemonSet is created for a node that is deleted"),
    (444, 10, "a NodeClaim is deleted while its node registers"),
    (930, 10, "a node is initialized and the response is late"),
    (1362, 10, "a restart forgets how many orphans were terminated"),
    (1105, 8, "a scheduler counts the pods of nodes that are deleted"),
    (1441, 8, "an unreachable node is taken for what nodes of its type become"),
    (1993, 10, "a clock that jumps makes it long ago"),
    (932, 6, "an operator ends before it marks the node"),
    (1440, 10, "a replacement is for a pod that is held"),
    (2_475_372_606, 6, "a pod is planned elsewhere while the node that it waited for stands"),
    (2_475_372_758, 6, "the same, and another operator goes on"),
    (2_000_134, 6, "pods come to missed nodes one after the other, and none of them runs"),
    (2_001_256, 10, "a pod is planned elsewhere, and its last event names a full node"),
    (2_001_263, 4, "a spread keeps pods off their node until another one joins, which never does"),
    (2_003_190, 6, "nodes of one second end in another order than they are counted"),
    (5_000_190, 6, "a pod is bound elsewhere in the second in which its NodeClaim is created"),
    (7_000_006, 6, "an answered launch makes up for a node that is missed later"),
    (7_000_202, 6, "an attempt is written on two members, and the next one on three of them"),
    (7_000_214, 6, "the same with three members"),
];

/// Runs a seed as one of [`MENDED`] was run.
///
/// # Errors
/// As [`run`].
pub fn run_mended(seed: u64, minutes: u64) -> Result<SeedReport, RunError> {
    virtual_runtime()?
        .block_on(async move { run_one(seed, None, None, None, Duration::from_secs(60 * minutes)).await })
}

/// Runs a seed twice, and reports where the second run differs from the first: a failing seed must fail again.
///
/// # Errors
/// As [`run`].
pub fn run_twice(seed: u64, bug: Option<Bug>) -> Result<SeedReport, RunError> {
    let (mut report, first) = digest(seed, bug)?;
    let (_, second) = digest(seed, bug)?;
    if first != second {
        let line = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
        let what = format!("the second run differs from line {line} on (see --tell)");
        let step = u64::try_from(line).unwrap_or(u64::MAX);
        let (at, invariant, objects) = (Duration::ZERO, "replay", Vec::new());
        report.violations.push(Violation { seed, step, at, invariant, what, objects });
    }
    Ok(report)
}

/// A run, with a digest of each line of its requests.
fn digest(seed: u64, bug: Option<Bug>) -> Result<(SeedReport, Vec<u64>), RunError> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let digests = lines.clone();
    let sink: LineSink = Arc::new(move |line| {
        let mut hasher = std::hash::DefaultHasher::new();
        line.hash(&mut hasher);
        digests.lock().unwrap_or_else(PoisonError::into_inner).push(hasher.finish());
    });
    let report = run_logged(seed, bug, Some(sink))?;
    let lines = std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((report, lines))
}

/// Runs `count` seeds from `first` on as many threads, and returns the reports in the order of the seeds. One in [`TWICE`] is run twice,
/// to check that it is repeatable. `stop` is called after each run; if it returns true, no further run is started.
pub fn run_many(
    first: u64,
    count: u64,
    bug: Option<Bug>,
    threads: usize,
    stop: &(dyn Fn(&Result<SeedReport, RunError>) -> bool + Sync),
) -> Vec<Result<SeedReport, RunError>> {
    let one = |seed: u64| {
        let twice = bug.is_none() && seed.is_multiple_of(TWICE);
        if twice { run_twice(seed, bug) } else { run(seed, bug) }
    };
    on_threads(first, count, threads, &one, stop)
}

/// Runs seeds by `run` until `stop` returns true.
fn on_threads(
    first: u64,
    count: u64,
    threads: usize,
    run: &(dyn Fn(u64) -> Result<SeedReport, RunError> + Sync),
    stop: &(dyn Fn(&Result<SeedReport, RunError>) -> bool + Sync),
) -> Vec<Result<SeedReport, RunError>> {
    let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let report = run(first.saturating_add(at));
                    if stop(&report) {
                        over.store(true, Ordering::Relaxed);
                    }
                    done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, report);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

async fn run_one(
    seed: u64,
    cloud: Option<Arc<dyn CloudSetup>>,
    bug: Option<Bug>,
    sink: Option<LineSink>,
    trouble: Duration,
) -> Result<SeedReport, RunError> {
    let plan = Plan::new(seed);
    let log = log::Log::new(sink);
    let chaos = Arc::new(chaos::Chaos::new(seed, plan.api_faults, log.clone()));
    let cloud = cloud.unwrap_or_else(|| fake_cloud(seed, &plan));
    let mut config = config(seed, &plan, cloud, (&log, &chaos), bug);
    let feed = Arc::new(price_feed::PriceFeed::new(config.origin));
    if plan.feed && bug != Some(Bug::PricesThoughtNew) {
        config.wrap = Some(within(feed.wrap(), config.wrap.take()));
    }
    let mut simulator = Simulator::new(config).await?;
    let mut checker = Checker::new(seed, log.clone());
    let mut script = Script::new(seed, plan, feed, chaos.clone(), log.clone());
    script.begin(&simulator)?;
    while simulator.elapsed() < trouble && !checker.is_full() {
        simulator.run_for(STEP).await;
        if let Some(bug) = bug {
            bugs::apply_bug(bug, &simulator);
        }
        script.step(&mut simulator)?;
        simulator.start_due().await?;
        checker.step(&simulator, script.interventions());
    }
    chaos.stop();
    script.calm(&mut simulator)?;
    let stability = rest(&mut simulator, &mut checker, &script, bug).await?;
    checker.rest(&simulator, stability, script.interventions());
    if !checker.is_full() {
        simulator.run_for(WATCH).await;
        checker.end(&simulator, script.interventions());
    }
    let mut happened = script.happened();
    happened.insert("faults", chaos.count());
    Ok(SeedReport { seed, violations: checker.into_violations(), happened })
}

/// Combines two wrappers between controllers and cloud.
fn within(inner: Wrap, outer: Option<Wrap>) -> Wrap {
    let Some(outer) = outer else { return inner };
    Arc::new(move |provider, cloud| outer(inner(provider, cloud), cloud))
}

/// How long the faults last: the cluster must become stable from any point, and the longest runs cost most.
fn trouble(seed: u64) -> Duration {
    let minutes = match seed % 4 {
        0 => 10,
        1 => 8,
        2 => 6,
        _ => 4,
    };
    Duration::from_secs(60 * minutes)
}

/// The fake cloud of a seed.
fn fake_cloud(seed: u64, plan: &Plan) -> Arc<dyn CloudSetup> {
    let config = CloudConfig { seed, tags_node_claims: !plan.fleets, ..CloudConfig::default() };
    Arc::new(FakeSetup { catalogue: shop(plan.reservations), config })
}

fn config(
    seed: u64,
    plan: &Plan,
    cloud: Arc<dyn CloudSetup>,
    (log, chaos): (&log::Log, &Arc<chaos::Chaos>),
    bug: Option<Bug>,
) -> SimulatorConfig {
    let origin = Timestamp::from_second(ORIGIN).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut config = SimulatorConfig::over(seed, origin, cloud);
    config.audit = Some(log.audit());
    config.faults = Some(chaos.clone());
    config.replicas = plan.replicas;
    config.wrap = bug.and_then(bugs::wrap);
    config.distort = bug.and_then(bugs::distort);
    // Without managed fields, which no check reads, a run takes half of the time.
    config.track_updates = false;
    config.count_removals = false;
    config.settings.disable_observability = true;
    config.settings.gates.static_capacity = true;
    config.settings.nominate_pods = plan.nominations;
    config.settings.gates.node_overlay = plan.overlays;
    config.kubelets = KubeletConfig::without_leases();
    config
}

/// A few types of the realistic catalogue: enough to choose from, and short runs. Some of the instances may be reserved.
fn shop(reservations: bool) -> Catalogue {
    static SHOPS: OnceLock<[Catalogue; 2]> = OnceLock::new();
    let [few, reserved] = SHOPS.get_or_init(|| {
        let whole = realistic(1);
        let small = |known: &&Arc<InstanceType>| {
            known.requirements.allows(ARCH, "amd64") && (2000..=8000).contains(&known.capacity.cpu())
        };
        let types = whole.types.instance_types.iter().filter(small).take(TYPES);
        let types: Vec<InstanceType> = types.map(|known| (**known).clone()).collect();
        let mut with = types.clone();
        with.iter_mut().step_by(5).for_each(reserve);
        [Catalogue::new(whole.vocabulary, types), Catalogue::new(whole.vocabulary, with)]
    });
    if reservations { reserved.clone() } else { few.clone() }
}

/// Adds a reservation of [`RESERVED_INSTANCES`] in the zone of the first offering.
fn reserve(kind: &mut InstanceType) {
    let Some(first) = kind.offerings.first() else { return };
    let id = format!("r-{}", kind.name);
    let zone = first.zone().map(|zone| zone.to_string()).unwrap_or_default();
    let requirements = [
        Requirement::is_in(CAPACITY_TYPE, [RESERVED]),
        Requirement::is_in(ZONE, [zone.as_str()]),
        Requirement::is_in(RESERVATION, [id.as_str()]),
    ];
    let mut offering = first.clone().at_price(Price::from_nanos(first.price.nanos() / 1_000_000));
    offering.requirements = requirements.into_iter().collect();
    offering.reservation_capacity = Some(RESERVED_INSTANCES);
    kind.offerings.push(offering);
    kind.requirements.replace(Requirement::is_in(CAPACITY_TYPE, [ON_DEMAND, RESERVED, SPOT]));
}

/// Waits until the cluster is stable, and continues checking.
async fn rest(
    simulator: &mut Simulator,
    checker: &mut Checker,
    script: &Script,
    bug: Option<Bug>,
) -> Result<Stability, RunError> {
    let begun = simulator.elapsed();
    let end = begun.saturating_add(REST);
    while simulator.elapsed() < end && !checker.is_full() {
        // Instances without a claim are terminated only after a delay.
        let waited = simulator.elapsed().saturating_sub(begun);
        let awaited = (waited < COLLECTED && Checker::has_orphans(simulator, script.interventions()))
            || waited < script.caught_up();
        if !awaited && simulator.is_stable() && !Checker::has_young_replacement(simulator, YOUNG) {
            return Ok(Stability::Since(simulator.observe().at));
        }
        for _ in 0..5 {
            simulator.run_for(STEP).await;
            if let Some(bug) = bug {
                bugs::apply_bug(bug, simulator);
            }
            simulator.start_due().await?;
            checker.step(simulator, script.interventions());
        }
        script.tidy(simulator)?;
    }
    Ok(Stability::OutOfTime)
}
