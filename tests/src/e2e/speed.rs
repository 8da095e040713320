//! How fast the whole is: pods are created all at once, get their instances, and go away again.
//!
//! Everything but the instances is real; those take the tier's second to boot. The operator keeps the pace that users
//! have, the validation delay of 15 s among it. What is measured is seen from outside, but for the solver's own time and
//! the count of calls, which the operator's metrics tell.

mod figures;
mod marks;
mod report;

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::manifests;
use super::rest::{Rest, Written};
use super::world::LaneWorld;
use figures::Figures;
use marks::Marks;
use report::Row;

pub(super) use report::print;

/// Namespace and NodePool of the pods.
const NAME: &str = "e2e-speed";
/// Where its pods are.
const PODS: &str = "/api/v1/namespaces/e2e-speed/pods";

/// How many pods are created at once.
const AT_ONCE: usize = 32;

/// How long each half may take.
const LIMIT: Duration = Duration::from_secs(900);

const LOOK: Duration = Duration::from_millis(100);

/// Karpenter's pace, which the cases shorten.
pub(super) const PACE: [(&str, &str); 3] =
    [("DISRUPTION_PERIOD", "10s"), ("DISRUPTION_VALIDATION_DELAY", "15s"), ("LOG_LEVEL", "info")];

/// Measures once with this number of pods.
pub(super) async fn measure(world: &mut LaneWorld, pods: usize) -> anyhow::Result<Row> {
    world.kubectl.apply(&manifests::namespace(NAME)).await?;
    world.kubectl.apply(&node_pool()).await?;
    let mut marks = Marks::start(world.watching.clone()).await?;
    let before = Figures::read(world).await?;
    let begin = Instant::now();
    create(&world.rest, pods).await?;
    let created = begin.elapsed();
    let bound = reached(world, &mut marks, "all pods are bound", |marks| marks.bound() == pods).await?;
    let claims = marks.claims();
    let written = marks.last_claim().context("no NodeClaim was written")?.duration_since(begin);
    let launched = Figures::read(world).await?;
    initialized(world, claims).await?;

    let gone = Instant::now();
    delete(&world.rest, pods).await?;
    let emptied = emptied(world).await?;
    let after = Figures::read(world).await?;
    Ok(Row {
        pods,
        created,
        first_claim: marks.first_claim().unwrap_or(begin).duration_since(begin),
        written,
        bound: bound.duration_since(begin),
        emptied: emptied.duration_since(gone),
        nodes: claims,
        up: launched.since(&before),
        down: after.since(&launched),
        memory_peak: after.memory_peak,
        memory: after.memory,
    })
}

/// Instances of all sizes up to 32 CPUs.
fn node_pool() -> Value {
    let mut pool = manifests::node_pool(NAME, 4);
    let requirements = &mut pool["spec"]["template"]["spec"]["requirements"];
    for requirement in requirements.as_array_mut().into_iter().flatten() {
        if requirement["key"] == "karpenter.kwok.sh/instance-cpu" {
            requirement["values"] = json!(["4", "8", "16", "32"]);
        }
    }
    pool
}

/// The "small" pods of Karpenter's own suite.
fn pod(at: usize) -> Value {
    let mut pod = manifests::pod(NAME, &format!("p{at}"), NAME, "900m");
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("3100Mi");
    pod
}

async fn create(rest: &Rest, count: usize) -> anyhow::Result<()> {
    each(count, |at| async move { rest.write("POST", PODS, &pod(at)).await })
        .await
        .context("pods are not created")
}

/// One by one, as controllers do: a real server takes minutes for one call that deletes thousands.
async fn delete(rest: &Rest, count: usize) -> anyhow::Result<()> {
    let path = |at| format!("{PODS}/p{at}?gracePeriodSeconds=0");
    let delete = |at| async move { rest.write("DELETE", &path(at), &Value::Null).await };
    each(count, delete).await.context("the pods stay")
}

/// Sends a write for each number, many at once.
async fn each<F>(count: usize, write: impl Fn(usize) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<Written>>,
{
    let mut answers = futures::stream::iter((0..count).map(write)).buffer_unordered(AT_ONCE);
    while let Some(answer) = answers.next().await {
        answer?.map_err(|refused| anyhow::anyhow!(refused.message))?;
    }
    Ok(())
}

/// When `goal` was reached.
async fn reached(
    world: &mut LaneWorld,
    marks: &mut Marks,
    what: &str,
    goal: impl Fn(&Marks) -> bool,
) -> anyhow::Result<Instant> {
    let deadline = Instant::now() + LIMIT;
    loop {
        world.check_running()?;
        marks.check().await?;
        let now = Instant::now();
        if goal(marks) {
            return Ok(now);
        }
        anyhow::ensure!(now < deadline, "not so after {LIMIT:?}: {what}; {} are bound", marks.bound());
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until every node is initialized, so that none is in flight when the load is deleted.
async fn initialized(world: &mut LaneWorld, claims: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        world.check_running()?;
        let list = world.list("/apis/karpenter.sh/v1/nodeclaims").await?;
        let ready = list.iter().filter(|claim| super::fleet::is_true(claim, "Initialized")).count();
        if ready == claims {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "{ready} of {claims} instances are initialized");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn emptied(world: &mut LaneWorld) -> anyhow::Result<Instant> {
    let deadline = Instant::now() + LIMIT;
    loop {
        world.check_running()?;
        let fleet = world.fleet().await?;
        let now = Instant::now();
        if fleet.is_empty() {
            return Ok(now);
        }
        anyhow::ensure!(now < deadline, "not empty after {LIMIT:?}: {}", fleet.sizes());
        tokio::time::sleep(LOOK * 5).await;
    }
}

/// Says what is about to happen.
pub(super) fn announce(pods: usize, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{pods} pods ...")?;
    Ok(out.flush()?)
}
