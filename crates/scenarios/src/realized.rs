//! The price of a fleet as realized: Deployments that arrive within seconds, in virtual time, against the price of one plan for all of them.
//!
//! [`measure`] runs a simulator until the fleet is at rest. The price planned at once is that of a run whose batch window is so long that one plan
//! answers all pods, before any consolidation. Both runs have one NodePool: on demand, no
//! burstable types, at most 32 CPUs, consolidateAfter 30 s, budgets of 100 %.

mod load;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fleetwright_controllers::settings::Packing;
use fleetwright_core::model::Price;
use fleetwright_sim::{Overview, Simulator, SimulatorConfig, simulator::virtual_runtime};

use load::Load;

/// Time over which the Deployments arrive.
const ARRIVAL: Duration = Duration::from_secs(15);
/// Time after which a run ends, whether it is at rest or not.
const END: Duration = Duration::from_secs(1200);
const SECOND: Duration = Duration::from_secs(1);
/// A fleet that has not changed for this time is at rest.
const REST: Duration = Duration::from_secs(120);

/// A mix of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Requests alone.
    Generic,
    /// A third each: requests alone, a hard spread over zones, anti-affinity by hostname within the Deployment.
    Diverse,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct RealizedCase {
    /// Seed of the simulator, and of the times at which Deployments arrive.
    pub seed: u64,
    /// The mix of pods.
    pub mix: Mix,
    /// Number of Deployments, with four pods each on average.
    pub deployments: usize,
    /// How pods are packed. [`Packing::Compatible`] also turns off replacement by several nodes.
    pub packing: Packing,
    /// Whether pods are nominated to the nodes that are launched for them.
    pub nominate: bool,
    /// The overhead of a node in the objective.
    pub node_overhead: Price,
}

/// The figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealizedFigures {
    /// Number of pods.
    pub pods: usize,
    /// Price per hour of the nodes of one plan for all pods.
    pub planned: Price,
    /// Price per hour when the pods of that plan were bound: more where kube-scheduler left no room for some of them.
    pub planned_bound: Price,
    /// Price per hour when all pods were bound for the first time, and the time since the first arrival.
    pub bound: (Price, Duration),
    /// Price per hour at the end, and the time since the last arrival at which the fleet changed for the last time.
    pub rest: (Price, Duration),
    /// Nodes at the end.
    pub nodes: usize,
    /// NodeClaims created.
    pub claims: u64,
    /// Evictions.
    pub moved: usize,
    /// Times from arrival to binding, sorted.
    pub waits: Vec<Duration>,
    /// Whether the fleet came to rest before the run ended.
    pub rested: bool,
}

impl RealizedFigures {
    /// How far `price` is above the price planned at once, in tenths of a percent.
    #[must_use]
    pub fn above_plan(&self, price: Price) -> i64 {
        let planned = self.planned.nanos().max(1);
        (price.nanos() - planned).saturating_mul(1000) / planned
    }

    /// Savings per hour after all pods were bound, for each moved pod.
    #[must_use]
    pub fn saved_per_moved_pod(&self) -> Price {
        let moved = i64::try_from(self.moved.max(1)).unwrap_or(i64::MAX);
        Price::from_nanos((self.bound.0.nanos() - self.rest.0.nanos()) / moved)
    }

    /// The time from arrival to binding below which `percent` of the pods are.
    #[must_use]
    pub fn wait(&self, percent: usize) -> Duration {
        self.waits
            .get(self.waits.len() * percent / 100)
            .or_else(|| self.waits.last())
            .copied()
            .unwrap_or_default()
    }
}

/// What the figures of a case may be at most.
#[derive(Clone, Copy, Debug)]
pub struct RealizedLimits {
    /// Price when all pods are bound, in tenths of a percent above the plan.
    pub bound: i64,
    /// Price at rest, in tenths of a percent above the plan.
    pub rest: i64,
    /// Time from the last arrival to rest.
    pub rest_after: Duration,
    /// NodeClaims created.
    pub claims: u64,
    /// Evictions.
    pub moved: usize,
}

impl RealizedLimits {
    /// The figures whose median over `runs` is above these limits, as text. A run without rest counts with the time at which it ended.
    #[must_use]
    pub fn exceeded_by_medians(&self, runs: &[RealizedFigures]) -> Vec<String> {
        let count = |number: usize| i128::try_from(number).unwrap_or(i128::MAX);
        let seconds = |time: Duration| i128::from(time.as_secs());
        let median = |figure: &dyn Fn(&RealizedFigures) -> i128| {
            let mut all: Vec<i128> = runs.iter().map(figure).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or(i128::MAX)
        };
        let bound = median(&|found| i128::from(found.above_plan(found.bound.0)));
        let rest = median(&|found| i128::from(found.above_plan(found.rest.0)));
        let figures = [
            ("price when all pods are bound, in 0.1 % above the plan", bound, i128::from(self.bound)),
            ("price at rest, in 0.1 % above the plan", rest, i128::from(self.rest)),
            (
                "seconds from the last arrival to rest",
                median(&|found| seconds(found.rest.1)),
                seconds(self.rest_after),
            ),
            ("NodeClaims", median(&|found| i128::from(found.claims)), i128::from(self.claims)),
            ("pods moved", median(&|found| count(found.moved)), count(self.moved)),
        ];
        let above = figures.into_iter().filter(|(_, found, limit)| found > limit);
        above.map(|(what, found, limit)| format!("{what}: {found}, at most {limit} allowed")).collect()
    }
}

/// Requests that the API server answered.
#[derive(Default)]
struct Answered {
    /// Names of the pods that were bound.
    bound: Vec<String>,
    evictions: usize,
}

/// Runs a case twice: with one plan for all pods, and as pods arrive.
///
/// # Errors
/// If the simulator rejects an object, or the pods of the one plan are not bound in time.
pub fn measure(case: RealizedCase) -> Result<RealizedFigures, Box<dyn Error>> {
    let at_once = run(case, true)?;
    if at_once.waits.len() < at_once.pods {
        return Err("the pods of one plan were not bound in time".into());
    }
    Ok(RealizedFigures { planned: at_once.planned, planned_bound: at_once.bound.0, ..run(case, false)? })
}

/// Runs one fleet; with `at_once`, one plan answers all pods, and the run ends when they are bound.
fn run(case: RealizedCase, at_once: bool) -> Result<RealizedFigures, Box<dyn Error>> {
    let answered: Arc<Mutex<Answered>> = Arc::default();
    virtual_runtime()?.block_on(async {
        let simulator = Simulator::new(config(case, at_once, Arc::clone(&answered))?).await?;
        simulator.apply(load::NODEPOOL)?;
        simulator.run_for(SECOND * 5).await;
        let mut load = Load::new(case, ARRIVAL);
        let mut found = RealizedFigures { pods: load.pods(), ..RealizedFigures::default() };
        let (mut last, mut since) = (Overview::default(), Duration::ZERO);
        let (start, mut is_bound) = (simulator.elapsed(), false);
        loop {
            let elapsed = simulator.elapsed().saturating_sub(start);
            load.arrive(&simulator, elapsed)?;
            let step = load.next().map_or(SECOND, |next| next.saturating_sub(elapsed).min(SECOND));
            simulator.run_for(step).await;
            let (now, elapsed) = (simulator.observe(), elapsed + step);
            {
                let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
                let bound = std::mem::take(&mut answered.bound);
                found.waits.extend(bound.iter().filter_map(|name| load.wait(name, elapsed)));
                found.moved = answered.evictions;
            }
            if found.planned == Price::ZERO && !found.waits.is_empty() {
                // Launches of a plan are one call: all of its nodes exist before the first of them is ready.
                found.planned = now.hourly;
            }
            if !is_bound && found.waits.len() == found.pods {
                found.bound = (now.hourly, elapsed);
                is_bound = true;
            }
            if !is_bound || now.hourly != last.hourly || names(&now) != names(&last) {
                since = elapsed;
            }
            found.rest = (now.hourly, since.saturating_sub(load.last()));
            (found.nodes, found.claims) = (now.nodes.len(), now.claims_created);
            last = now;
            found.rested = is_bound && elapsed.saturating_sub(since) >= REST;
            if found.rested || elapsed >= END || (at_once && is_bound) {
                found.waits.sort_unstable();
                return Ok(found);
            }
        }
    })
}

fn config(
    case: RealizedCase,
    at_once: bool,
    answered: Arc<Mutex<Answered>>,
) -> Result<SimulatorConfig, Box<dyn Error>> {
    let mut config = SimulatorConfig::new(case.seed, "2026-01-01T00:00:00Z".parse()?);
    config.track_updates = false;
    config.settings.packing = case.packing;
    config.settings.nominate_pods = case.nominate;
    config.settings.objective.node_overhead = case.node_overhead;
    config.settings.n_to_m = case.packing == Packing::LeastCost;
    if at_once {
        (config.settings.batch_idle, config.settings.batch_max) = (ARRIVAL * 2, ARRIVAL * 4);
    }
    config.audit = Some(Arc::new(move |request, code| {
        if code >= 300 || &*request.verb != "create" {
            return;
        }
        let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
        match &*request.subresource {
            "binding" => answered.bound.push(request.name.clone()),
            "eviction" => answered.evictions += 1,
            _ => {}
        }
    }));
    Ok(config)
}

fn names(overview: &Overview) -> BTreeSet<&str> {
    overview.nodes.iter().map(|node| &*node.name).collect()
}
