//! Property runs: one seed is one small cluster with a life full of trouble, and independent checks at every second.
//!
//! A run has three parts. While [`script`] changes loads, pools and objects, and [`chaos`] lets calls fail, operators are
//! killed, cut off and told wrong times; nothing may be broken even then. After that the faults cease, and all has to come
//! to rest: every pod runs, every instance is a node, nothing keeps a mark. At last nobody may write anything any more. A
//! seed that fails fails again.
//!
//! Which trouble a seed gets is drawn first ([`plan`]): few kinds at once find more than all of them in every run.

pub mod bugs;
mod chaos;
mod check;
mod feed;
mod log;
mod plan;
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
    InstanceType, Offering, Price, Requirement,
    labels::{ARCH, CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE},
};
use fleetwright_fake::{Catalogue, catalogue::realistic, kubelet::KubeletConfig};
use jiff::Timestamp;

pub use bugs::Bug;
pub use check::Violation;
pub use log::Tell;

use check::Checker;
use fleetwright_sim::world::{Settled, World, WorldConfig, WorldError, Wrap, virtual_runtime};
use plan::Plan;
use script::Script;

/// How long everything may take to come to rest afterwards: longer than every timeout and brake.
const REST: Duration = Duration::from_secs(90 * 60);
/// How long after the trouble every instance is a node, or ended.
const COLLECTED: Duration = Duration::from_secs(25 * 60);
/// How long all that is at rest is watched. Later prices move, and what was refused for an hour is tried again.
const WATCH: Duration = Duration::from_secs(3 * 60);
/// So long after an instance came in place of others it may go in its turn: it stays for ten minutes, and a cluster in which
/// nothing changes is looked at every five.
const YOUNG: Duration = Duration::from_secs(16 * 60);
/// How often the checks look.
const STEP: Duration = Duration::from_secs(1);
/// How many instances of a type are reserved, where some are: more than a run has. The fake provider does not tell how many
/// are left, and what is thought cheap and cannot be had is tried again and again.
const RESERVED_INSTANCES: u32 = 40;
/// The label that tells reservations apart.
const RESERVATION: &str = "example.com/reservation-id";
/// How many instance types the cloud has.
const TYPES: usize = 12;
/// One seed in so many is run twice.
pub const TWICE: u64 = 100;
/// The moment at which every run begins.
const ORIGIN: i64 = 1_767_225_600;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What was broken: invariant, moment and objects. At most a few.
    pub violations: Vec<Violation>,
    /// What happened, so that a run that did nothing is seen to be one: kinds of trouble and how often.
    pub happened: BTreeMap<&'static str, u32>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "seed {}: {:?}", self.seed, self.happened)?;
        for violation in &self.violations {
            writeln!(formatter, "{violation}")?;
        }
        write!(
            formatter,
            "replay: cargo run --release -p fleetwright-scenarios --example seeds -- --first {} --count 1",
            self.seed
        )
    }
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The world.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The runtime.
    #[error("runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Runs `seed`, with a planted bug where one is given.
///
/// # Errors
/// Where the world cannot be made.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<Report, RunError> {
    run_told(seed, bug, None)
}

/// The same, and tells everything that is asked for on the way.
///
/// # Errors
/// As [`run`].
pub fn run_told(seed: u64, bug: Option<Bug>, tell: Option<Tell>) -> Result<Report, RunError> {
    virtual_runtime()?.block_on(async move { live(seed, bug, tell, trouble(seed)).await })
}

/// Lives one life twice, and says where the second differs from the first: a seed that fails must fail again.
///
/// # Errors
/// As [`run`].
pub fn run_twice(seed: u64, bug: Option<Bug>) -> Result<Report, RunError> {
    let (mut report, first) = digest(seed, bug)?;
    let (_, second) = digest(seed, bug)?;
    if first != second {
        let line = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
        let what = format!("told twice, the life differs from line {line} on (see --tell)");
        let step = u64::try_from(line).unwrap_or(u64::MAX);
        let (at, invariant, objects) = (Duration::ZERO, "replay", Vec::new());
        report.violations.push(Violation { seed, step, at, invariant, what, objects });
    }
    Ok(report)
}

/// A life, and a figure for each line that is told of it.
fn digest(seed: u64, bug: Option<Bug>) -> Result<(Report, Vec<u64>), RunError> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    let tell: Tell = Arc::new(move |line| {
        let mut hasher = std::hash::DefaultHasher::new();
        line.hash(&mut hasher);
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(hasher.finish());
    });
    let report = run_told(seed, bug, Some(tell))?;
    let lines = std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((report, lines))
}

/// Runs `count` seeds from `first` on as many threads, and gives the reports in the order of the seeds. One in
/// [`TWICE`] is run twice, to see that it repeats itself. `stop` is asked after each run; where it says so, no further one
/// is begun.
pub fn run_many(
    first: u64,
    count: u64,
    bug: Option<Bug>,
    threads: usize,
    stop: &(dyn Fn(&Result<Report, RunError>) -> bool + Sync),
) -> Vec<Result<Report, RunError>> {
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
                    let seed = first.saturating_add(at);
                    let twice = bug.is_none() && seed.is_multiple_of(TWICE);
                    let report = if twice { run_twice(seed, bug) } else { run(seed, bug) };
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

async fn live(
    seed: u64,
    bug: Option<Bug>,
    tell: Option<Tell>,
    trouble: Duration,
) -> Result<Report, RunError> {
    let plan = Plan::new(seed);
    let log = log::Log::new(tell);
    let chaos = Arc::new(chaos::Chaos::new(seed, plan.api_faults, log.clone()));
    let mut config = config(seed, &plan, &log, &chaos, bug);
    let feed = Arc::new(feed::Feed::new(config.origin));
    if plan.feed && bug != Some(Bug::PricesThoughtNew) {
        config.wrap = Some(within(feed.wrap(), config.wrap.take()));
    }
    let mut world = World::new(config).await?;
    let mut checker = Checker::new(seed, log.clone());
    let mut script = Script::new(seed, plan, feed, chaos.clone(), log.clone());
    script.begin(&world)?;
    while world.elapsed() < trouble && !checker.is_full() {
        world.run_for(STEP).await;
        if let Some(bug) = bug {
            bugs::meddle(bug, &world);
        }
        script.step(&mut world)?;
        world.tend().await?;
        checker.step(&world, script.ledger());
    }
    chaos.cease();
    script.calm(&mut world)?;
    let settled = rest(&mut world, &mut checker, &script, bug).await?;
    checker.rest(&world, settled, script.ledger());
    if !checker.is_full() {
        world.run_for(WATCH).await;
        checker.end(&world, script.ledger());
    }
    let mut happened = script.happened();
    happened.insert("faults", chaos.count());
    Ok(Report { seed, violations: checker.into_violations(), happened })
}

/// What one puts between controllers and cloud, and around it what another does.
fn within(inner: Wrap, outer: Option<Wrap>) -> Wrap {
    let Some(outer) = outer else { return inner };
    Arc::new(move |provider, cloud| outer(inner(provider, cloud), cloud))
}

/// How long trouble lasts: it has to come to rest from any point of what it began, and the longest lives cost most.
fn trouble(seed: u64) -> Duration {
    let minutes = match seed % 4 {
        0 => 10,
        1 => 8,
        2 => 6,
        _ => 4,
    };
    Duration::from_secs(60 * minutes)
}

fn config(
    seed: u64,
    plan: &Plan,
    log: &log::Log,
    chaos: &Arc<chaos::Chaos>,
    bug: Option<Bug>,
) -> WorldConfig {
    let origin = Timestamp::from_second(ORIGIN).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut config = WorldConfig::selling(seed, origin, shop(plan.reservations));
    config.audit = Some(log.audit());
    config.faults = Some(chaos.clone());
    config.replicas = plan.replicas;
    config.cloud.names_claims = !plan.fleets;
    config.wrap = bug.and_then(bugs::wrap);
    config.distort = bug.and_then(bugs::distort);
    // What nobody looks at costs half of the time.
    config.track_updates = false;
    config.count_removals = false;
    config.settings.disable_observability = true;
    config.settings.gates.static_capacity = true;
    config.settings.gates.node_overlay = plan.overlays;
    config.kubelets = KubeletConfig::without_leases();
    config
}

/// A few types of the realistic catalogue: a choice to make, and many runs in a short time. Some of the instances may be
/// reserved.
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
    let offering = Offering {
        requirements: requirements.into_iter().collect(),
        price: Price::from_nanos(first.price.nanos() / 1_000_000),
        reservation_capacity: Some(RESERVED_INSTANCES),
        ..first.clone()
    };
    kind.offerings.push(offering);
    kind.requirements.replace(Requirement::is_in(CAPACITY_TYPE, [ON_DEMAND, RESERVED, SPOT]));
}

/// Waits until all is at rest, and goes on checking.
async fn rest(
    world: &mut World,
    checker: &mut Checker,
    script: &Script,
    bug: Option<Bug>,
) -> Result<Settled, RunError> {
    let begun = world.elapsed();
    let end = begun.saturating_add(REST);
    while world.elapsed() < end && !checker.is_full() {
        // Instances that no claim accounts for are ended with care, so long after they were seen.
        let waited = world.elapsed().saturating_sub(begun);
        let awaited = (waited < COLLECTED && Checker::has_orphans(world, script.ledger()))
            || waited < script.caught_up();
        if !awaited && world.is_settled() && !Checker::has_young(world, YOUNG) {
            return Ok(Settled::Since(world.observe().at));
        }
        for _ in 0..5 {
            world.run_for(STEP).await;
            if let Some(bug) = bug {
                bugs::meddle(bug, world);
            }
            world.tend().await?;
            checker.step(world, script.ledger());
        }
        script.tidy(world)?;
    }
    Ok(Settled::OutOfTime)
}
