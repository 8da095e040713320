//! The realized price of a fleet on a real control plane, with the fleet, the cloud and the accounting of the simulated twin
//! (`fleetwright_scenarios::realized`). Each disruption command on the way is judged.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, bail};
use fleetwright_core::model::Price;
use fleetwright_scenarios::realized::{
    FleetLoad, FleetLook, FleetSpec, HEADER, Mix, NODEPOOL, RealizedFigures, RealizedMeter,
};
use serde::Deserialize as _;
use serde_json::Value;

use super::arguments::{Arguments, FleetMix};
use super::cases::grant_nominations;
use super::disruption::{DisruptionVerdict, judge};
use super::installation::parse;
use super::speed::PACE;
use super::timeline::Recorder;
use super::world::LaneWorld;

/// Where the Deployments are created.
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SECOND: Duration = Duration::from_secs(1);
/// Pods of a Deployment on average.
const PODS_PER_DEPLOYMENT: usize = 4;
/// Rounds of the plan for all pods at once: those of the simulated twin.
const BUDGET: &str = "200it";

/// The fleet that the arguments choose.
pub(super) fn fleet(arguments: &Arguments, pods: usize) -> FleetSpec {
    let mix = match arguments.fleet {
        FleetMix::Generic => Mix::Generic,
        FleetMix::Diverse => Mix::Diverse,
    };
    FleetSpec { seed: arguments.seed.unwrap_or(1), mix, deployments: pods / PODS_PER_DEPLOYMENT }
}

/// Measures one fleet, and prints its row and what disruption is at fault. True when it is at fault for nothing.
pub(super) async fn measure(
    world: &mut LaneWorld,
    fleet: FleetSpec,
    nominate: bool,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let planned = planned(world, fleet).await?;
    configure(world, nominate).await?;
    for object in parse(NODEPOOL)? {
        world.kubectl.apply(&object).await?;
    }
    let (figures, verdict) = follow(world, fleet).await?;
    let figures = RealizedFigures { planned, planned_bound: None, ..figures };
    let nominated = if nominate { ", nominated" } else { "" };
    let name = format!("{:?}, LeastCost{nominated}, live, {}", fleet.mix, fleet.seed);
    writeln!(out, "{HEADER}\n{}\n", figures.row(&name))?;
    report(&verdict, out)?;
    Ok(verdict.faults.is_empty())
}

/// Prints what became of evicted pods.
pub(super) fn report(verdict: &DisruptionVerdict, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(
        out,
        "{} commands evicted {} pods, the longest way to a new node took {} s; {} faults",
        verdict.commands,
        verdict.moved,
        verdict.longest.as_secs(),
        verdict.faults.len()
    )?;
    for fault in &verdict.faults {
        writeln!(out, "  {fault}")?;
    }
    Ok(out.flush()?)
}

/// Starts the operator with the pace and the settings that users have.
async fn configure(world: &mut LaneWorld, nominate: bool) -> anyhow::Result<()> {
    world.operator.stop().await?;
    world.operator.set(&PACE);
    if nominate {
        grant_nominations(world).await?;
        world.operator.set(&[("NOMINATE_PODS", "true")]);
    }
    world.operator.start()?;
    world.operator.wait_ready().await
}

/// The price of one plan for all pods, by `fleetwright plan`.
async fn planned(world: &LaneWorld, fleet: FleetSpec) -> anyhow::Result<Price> {
    let mut manifests = FleetLoad::new(fleet).due(Duration::MAX);
    manifests.insert(0, NODEPOOL.to_owned());
    let file = world.folder.join("fleet.yaml");
    std::fs::write(&file, manifests.join("---\n"))?;
    let file = file.display().to_string();
    let args = ["plan", "-f", &file, "--catalog", "realistic", "--budget", BUDGET, "-o", "json"];
    let (status, text) = world.fleetwright(&args).await?;
    let mut values = serde_json::Deserializer::from_str(&text);
    let plan =
        Value::deserialize(&mut values).with_context(|| format!("plan ended with {status:?}: {text}"))?;
    let unplaced = plan["unschedulable"].as_array().map_or(0, Vec::len);
    anyhow::ensure!(unplaced == 0, "the plan has no node for {unplaced} pods");
    let mut sum = 0_i64;
    for claim in plan["nodeClaims"].as_array().context("a plan without NodeClaims")? {
        let price = claim["offering"]["price"].as_str().context("a NodeClaim without a price")?;
        sum += Price::from_dollars(price.parse()?)?.nanos();
    }
    Ok(Price::from_nanos(sum))
}

/// Creates the Deployments as they arrive, and looks at the fleet each second until it is at rest.
async fn follow(
    world: &mut LaneWorld,
    fleet: FleetSpec,
) -> anyhow::Result<(RealizedFigures, DisruptionVerdict)> {
    tokio::time::sleep(SECOND * 5).await;
    let mut recorder = Recorder::start(world.watching.clone()).await?;
    let mut load = FleetLoad::new(fleet);
    let mut meter = RealizedMeter::new(&load);
    loop {
        world.check_running()?;
        let begin = recorder.elapsed();
        for manifest in load.due(begin) {
            for deployment in parse(&manifest)? {
                if let Err(refused) = world.rest.write("POST", DEPLOYMENTS, &deployment).await? {
                    bail!("a Deployment is refused: {}", refused.message);
                }
            }
        }
        let step = load.next().map_or(SECOND, |next| next.saturating_sub(begin).min(SECOND));
        tokio::time::sleep(step.saturating_sub(recorder.elapsed().saturating_sub(begin))).await;
        let timeline = recorder.so_far().await?;
        let nodes = world.list("/api/v1/nodes").await?;
        let hourly = world.cloud.instances().await?.iter().map(|instance| instance.price_nanos).sum();
        let look = FleetLook {
            elapsed: recorder.elapsed(),
            hourly: Price::from_nanos(hourly),
            nodes: nodes.iter().map(super::fleet::name).collect(),
            claims: u64::try_from(timeline.claims.len()).unwrap_or(u64::MAX),
            moved: timeline.pods.values().filter(|pod| pod.evicted.is_some()).count(),
            bound: recorder.newly_bound(),
        };
        meter.look(&mut load, look);
        if meter.is_over() {
            return Ok((meter.figures(), judge(&timeline)));
        }
    }
}
