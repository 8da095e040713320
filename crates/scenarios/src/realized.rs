//! The price of a fleet as realized: Deployments that arrive within seconds, in virtual time, against the price of one plan for all of them.
//!
//! [`measure`] runs a simulator until the fleet is at rest. The price planned at once is that of a run whose batch window is so long that one plan
//! answers all pods, before any consolidation. Both runs have one NodePool: on demand, no
//! burstable types, at most 32 CPUs, consolidateAfter 30 s, budgets of 100 %.

mod figures;
mod load;
mod meter;
#[cfg(test)]
mod tests;

use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fleetwright_controllers::settings::Packing;
use fleetwright_core::model::Objective;
use fleetwright_sim::{Simulator, SimulatorConfig, simulator::virtual_runtime};

pub use figures::{HEADER, RealizedFigures, RealizedLimits};
pub use load::{ARRIVAL, FleetLoad, FleetSpec, Mix, NODEPOOL};
pub use meter::{FleetLook, RealizedMeter};

const SECOND: Duration = Duration::from_secs(1);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct RealizedCase {
    /// The fleet, with the seed of the simulator.
    pub fleet: FleetSpec,
    /// How pods are packed. [`Packing::Compatible`] also turns off replacement by several nodes.
    pub packing: Packing,
    /// Whether pods are nominated to the nodes that are launched for them.
    pub nominate: bool,
    /// What plans minimize.
    pub objective: Objective,
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
    Ok(RealizedFigures {
        planned: at_once.planned,
        planned_bound: Some(at_once.bound.0),
        ..run(case, false)?
    })
}

/// Runs one fleet; with `at_once`, one plan answers all pods, and the run ends when they are bound.
fn run(case: RealizedCase, at_once: bool) -> Result<RealizedFigures, Box<dyn Error>> {
    let answered: Arc<Mutex<Answered>> = Arc::default();
    virtual_runtime()?.block_on(async {
        let simulator = Simulator::new(config(case, at_once, Arc::clone(&answered))?).await?;
        simulator.apply(NODEPOOL)?;
        simulator.run_for(SECOND * 5).await;
        let mut load = FleetLoad::new(case.fleet);
        let mut meter = RealizedMeter::new(&load);
        let start = simulator.elapsed();
        loop {
            let elapsed = simulator.elapsed().saturating_sub(start);
            for manifest in load.due(elapsed) {
                simulator.apply(&manifest)?;
            }
            let step = load.next().map_or(SECOND, |next| next.saturating_sub(elapsed).min(SECOND));
            simulator.run_for(step).await;
            let now = simulator.observe();
            let (bound, moved) = {
                let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
                (std::mem::take(&mut answered.bound), answered.evictions)
            };
            let look = FleetLook {
                elapsed: elapsed + step,
                hourly: now.hourly,
                nodes: now.nodes.into_iter().map(|node| node.name).collect(),
                claims: now.claims_created,
                moved,
                bound,
            };
            meter.look(&mut load, look);
            if meter.is_over() || (at_once && meter.is_bound()) {
                return Ok(meter.figures());
            }
        }
    })
}

fn config(
    case: RealizedCase,
    at_once: bool,
    answered: Arc<Mutex<Answered>>,
) -> Result<SimulatorConfig, Box<dyn Error>> {
    let mut config = SimulatorConfig::new(case.fleet.seed, "2026-01-01T00:00:00Z".parse()?);
    config.track_updates = false;
    config.settings.packing = case.packing;
    config.settings.nominate_pods = case.nominate;
    config.settings.objective = case.objective;
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
