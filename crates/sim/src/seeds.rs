//! Property runs: one seed is one small cluster with a life full of trouble, and independent checks at every second.
//!
//! A run has two parts. While [`script`] changes loads and pools, and [`chaos`] lets calls fail, the operator is killed
//! now and then at whatever it is waiting for; nothing may be broken even then. After that the faults cease, and all has
//! to come to rest: every pod runs, every machine is a node, nothing keeps a mark. A seed that fails fails again.

pub mod bugs;
mod chaos;
mod check;
mod script;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use fleetwright_core::model::{InstanceType, labels::ARCH};
use fleetwright_fake::{
    Catalogue,
    cloud::{Fault, Occasion, Op},
};
use jiff::Timestamp;

pub use bugs::Bug;

use crate::world::{Settled, World, WorldConfig, WorldError, virtual_runtime};
use check::Checker;
use script::Script;

/// How long trouble lasts.
const TROUBLE: Duration = Duration::from_secs(10 * 60);
/// How long everything may take to come to rest afterwards: longer than every timeout and brake.
const REST: Duration = Duration::from_secs(90 * 60);
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
    pub violations: Vec<String>,
    /// What happened, so that a run that did nothing is seen to be one: kinds of trouble and how often.
    pub happened: std::collections::BTreeMap<&'static str, u32>,
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

async fn live(seed: u64, bug: Option<Bug>) -> Result<Report, RunError> {
    let origin = Timestamp::from_second(ORIGIN).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut config = WorldConfig::new(seed, origin);
    config.catalogue = shop(&config.catalogue);
    let log = check::Log::default();
    let chaos = Arc::new(chaos::Chaos::new(seed));
    config.audit = Some(log.audit());
    config.faults = Some(chaos.clone());
    config.wrap = bug.and_then(bugs::wrap);
    config.settings.gates.static_capacity = true;
    let mut world = World::new(config).await?;
    let mut checker = Checker::new(log);
    let mut script = Script::new(seed);
    script.begin(&world)?;
    while world.elapsed() < TROUBLE {
        world.run_for(STEP).await;
        if let Some(bug) = bug {
            bugs::meddle(bug, &world);
        }
        if let Some(down) = script.step(&world)? {
            world.crash(down).await?;
        }
        checker.step(&world, script.last_action());
        if checker.is_full() {
            break;
        }
    }
    chaos.cease();
    world.cloud().heal();
    script.calm(&world)?;
    let settled = rest(&world, &mut checker, bug).await;
    checker.end(&world, settled);
    let mut happened = script.happened();
    happened.insert("faults", chaos.count());
    Ok(Report { seed, violations: checker.into_violations(), happened })
}

/// A few types of the realistic catalogue: a choice to make, and many runs in a short time.
fn shop(whole: &Catalogue) -> Catalogue {
    let small = |known: &&Arc<InstanceType>| {
        let cpus = known.capacity.cpu();
        known.requirements.allows(ARCH, "amd64") && (2000..=8000).contains(&cpus)
    };
    let types = whole.types.instance_types.iter().filter(small).take(TYPES).map(|known| (**known).clone());
    Catalogue::new(whole.vocabulary, types.collect())
}

/// Waits until all is at rest, and goes on checking.
async fn rest(world: &World, checker: &mut Checker, bug: Option<Bug>) -> Settled {
    let end = world.elapsed().saturating_add(REST);
    while world.elapsed() < end && !checker.is_full() {
        if world.is_settled() {
            return Settled::Since(world.observe().at);
        }
        for _ in 0..5 {
            world.run_for(STEP).await;
            if let Some(bug) = bug {
                bugs::meddle(bug, world);
            }
            checker.step(world, Duration::ZERO);
        }
    }
    Settled::OutOfTime
}

/// Faults of the cloud that a script may choose from, by number.
fn cloud_fault(number: u64) -> (&'static str, Fault) {
    let occasion = Occasion { skip: 0, times: 2 };
    match number % 6 {
        0 => {
            let error = fleetwright_fake::api::ApiError::Failed { message: "internal error".to_owned() };
            (
                "launch fails after its effect",
                Fault::FailCall { op: Op::Launch, occasion, after_effect: true, error },
            )
        }
        1 => {
            let error = fleetwright_fake::api::ApiError::Failed { message: "internal error".to_owned() };
            ("launch fails", Fault::FailCall { op: Op::Launch, occasion, after_effect: false, error })
        }
        2 => ("launch is slow", Fault::SlowCall { op: Op::Launch, occasion, by_ms: 40_000 }),
        3 => (
            "no spot capacity",
            Fault::InsufficientCapacity {
                instance_type: None,
                zone: None,
                capacity_type: Some("spot".to_owned()),
                for_seconds: Some(120),
            },
        ),
        4 => ("node never joins", Fault::NeverJoins { occasion: Occasion { skip: 0, times: 1 } }),
        _ => {
            let error = fleetwright_fake::api::ApiError::Failed { message: "internal error".to_owned() };
            ("list fails", Fault::FailCall { op: Op::List, occasion, after_effect: false, error })
        }
    }
}
