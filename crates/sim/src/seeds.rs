//! Property runs: one seed is one small cluster with a life full of trouble, and independent checks at every second.
//!
//! A run has three parts. While [`script`] changes loads, pools and objects, and [`chaos`] lets calls fail, operators are
//! killed, cut off and told wrong times; nothing may be broken even then. After that the faults cease, and all has to come
//! to rest: every pod runs, every machine is a node, nothing keeps a mark. At last nobody may write anything any more. A
//! seed that fails fails again.
//!
//! Which trouble a seed gets is drawn first ([`plan`]): few kinds at once find more than all of them in every run.

pub mod bugs;
mod chaos;
mod check;
mod log;
mod plan;
mod script;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetwright_core::model::{InstanceType, labels::ARCH};
use fleetwright_fake::{Catalogue, catalogue::realistic, kubelet::KubeletConfig};
use jiff::Timestamp;

pub use bugs::Bug;
pub use check::Violation;

use crate::world::{Settled, World, WorldConfig, WorldError, virtual_runtime};
use check::Checker;
use plan::Plan;
use script::Script;

/// How long trouble lasts.
const TROUBLE: Duration = Duration::from_secs(10 * 60);
/// How long everything may take to come to rest afterwards: longer than every timeout and brake.
const REST: Duration = Duration::from_secs(90 * 60);
/// How long after the trouble every machine is a node, or ended.
const COLLECTED: Duration = Duration::from_secs(25 * 60);
/// How long all that is at rest is watched.
const WATCH: Duration = Duration::from_secs(3 * 60);
/// How often the checks look.
const STEP: Duration = Duration::from_secs(1);
/// How many instance types the cloud has.
const TYPES: usize = 12;
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
            "replay: cargo run --release -p fleetwright-sim --example seeds -- --first {} --count 1",
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
    virtual_runtime()?.block_on(async move { live(seed, bug).await })
}

/// Runs `count` seeds from `first` on as many threads, and gives the reports in the order of the seeds. `stop` is asked
/// after each run; where it says so, no further one is begun.
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
                    let report = run(first.saturating_add(at), bug);
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

async fn live(seed: u64, bug: Option<Bug>) -> Result<Report, RunError> {
    let plan = Plan::new(seed);
    let log = log::Log::default();
    let chaos = Arc::new(chaos::Chaos::new(seed, plan.api_faults, log.clone()));
    let mut world = World::new(config(seed, &plan, &log, &chaos, bug)).await?;
    let mut checker = Checker::new(seed, log);
    let mut script = Script::new(seed, plan);
    script.begin(&world)?;
    while world.elapsed() < TROUBLE && !checker.is_full() {
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

fn config(
    seed: u64,
    plan: &Plan,
    log: &log::Log,
    chaos: &Arc<chaos::Chaos>,
    bug: Option<Bug>,
) -> WorldConfig {
    let origin = Timestamp::from_second(ORIGIN).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut config = WorldConfig::selling(seed, origin, shop());
    config.audit = Some(log.audit());
    config.faults = Some(chaos.clone());
    config.replicas = plan.replicas;
    config.wrap = bug.and_then(bugs::wrap);
    config.distort = bug.and_then(bugs::distort);
    // What nobody looks at costs half of the time.
    config.track_updates = false;
    config.settings.disable_observability = true;
    config.settings.gates.static_capacity = true;
    config.kubelets = KubeletConfig::without_leases();
    config
}

/// A few types of the realistic catalogue: a choice to make, and many runs in a short time.
fn shop() -> Catalogue {
    static SHOP: OnceLock<Catalogue> = OnceLock::new();
    let few = SHOP.get_or_init(|| {
        let whole = realistic(1);
        let small = |known: &&Arc<InstanceType>| {
            known.requirements.allows(ARCH, "amd64") && (2000..=8000).contains(&known.capacity.cpu())
        };
        let types = whole.types.instance_types.iter().filter(small).take(TYPES);
        Catalogue::new(whole.vocabulary, types.map(|known| (**known).clone()).collect())
    });
    few.clone()
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
        // Machines that no claim accounts for are ended with care, so long after they were seen.
        let patient = world.elapsed().saturating_sub(begun) < COLLECTED;
        if world.is_settled() && !(patient && Checker::has_orphans(world, script.ledger())) {
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
    }
    Ok(Settled::OutOfTime)
}
