//! Shadow mode beside a leader: it writes nothing, asks for no lease, and reports what both would do.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::leader::holder;
use crate::e2e::case::Cx;
use crate::e2e::operator::{Operator, Seat};
use crate::e2e::proxy::{Proxy, Upstream};
use crate::e2e::trap::Traps;

/// A batch is compared once its nodes are there, a command once they are gone.
const COMPARED: Duration = Duration::from_secs(90);

/// Beside the operator of the world.
pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.reconfigure(&[("DISABLE_LEADER_ELECTION", "false")]).await?;
    cx.eventually("the operator takes the lease", COMPARED, async |world| {
        anyhow::ensure!(!holder(world).await?.is_empty(), "nobody holds it");
        Ok(())
    })
    .await?;
    beside(cx).await
}

/// Beside the controller that holds the lease.
pub(super) async fn beside(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    // The NodePool exists before the shadow starts, as its catalogue follows from it.
    cx.deploy(4, 0, "3").await?;
    let before = holder(cx.world).await?;

    let upstream = Upstream::Kube(cx.world.server.operators_client().await?);
    let proxy = Proxy::start(upstream, Traps::default()).await?;
    let kubeconfig = cx.world.folder.join("shadow.kubeconfig");
    proxy.write_kubeconfig(&kubeconfig)?;
    let seat = Seat { name: "shadow", kubeconfig: &kubeconfig, cloud: "" };
    let mut shadow = Operator::new(&cx.world.binary, &cx.world.folder, seat)?;
    shadow.set(&[("SHADOW", "true"), ("DISABLE_LEADER_ELECTION", "false")]);
    shadow.start()?;
    shadow.wait_ready().await?;

    // 3 of 4 CPUs: one pod per node.
    cx.launches_as_foreseen(async |cx| scale(cx, 3).await).await?;
    cx.serving(3, COMPARED).await?;
    let report = compared(cx, &shadow, "the batch is compared", "/totals/batches").await?;
    let totals = &report["totals"];
    // Zones have equal prices, and either side takes any of them.
    let agreements = totals["batches"].as_object().cloned().unwrap_or_default();
    let differ: Vec<&String> = agreements
        .iter()
        .filter(|(agreement, count)| **count != 0 && !["same", "same-price"].contains(&agreement.as_str()))
        .map(|(agreement, _)| agreement)
        .collect();
    cx.check(format!("both agree: {agreements:?} {}", report["batches"]), differ.is_empty())?;
    cx.equal("NodeClaims of the leader", &totals["karpenter"]["nodeClaims"], &Value::from(3))?;
    cx.equal("NodeClaims of Fleetwright", &totals["fleetwright"]["nodeClaims"], &Value::from(3))?;
    let prices = [&totals["karpenter"]["hourly"], &totals["fleetwright"]["hourly"]];
    cx.check(format!("both are priced alike: {prices:?}"), prices[0] == prices[1] && prices[0] != "0")?;

    scale(cx, 0).await?;
    cx.emptied(COMPARED).await?;
    let report = compared(cx, &shadow, "the empty nodes are compared", "/totals/disruptions").await?;
    let commands = report["disruptions"].as_array().context("a report without disruptions")?;
    let of_leader = commands.iter().filter(|row| !row["karpenter"].is_null()).count();
    cx.check(format!("the leader's commands are in the report: {commands:?}"), of_leader > 0)?;

    cx.equal("calls that would change something", &proxy.noted().len(), &0)?;
    cx.equal("the holder of the lease", &holder(cx.world).await?, &before)?;
    let panic = shadow.panic_line();
    cx.check(format!("the shadow did not panic: {panic:?}"), panic.is_none())?;
    cx.equal("its exit status after SIGTERM", &shadow.stop().await?.code(), &Some(0))
}

async fn scale(cx: &Cx<'_>, replicas: usize) -> anyhow::Result<()> {
    let replicas = format!("--replicas={replicas}");
    cx.kubectl(&["scale", "deployment/web", &replicas, "-n", &cx.namespace()]).await.map(drop)
}

/// The report once `path` counts anything.
async fn compared(cx: &mut Cx<'_>, shadow: &Operator, what: &str, path: &str) -> anyhow::Result<Value> {
    let url = shadow.url("127.0.0.1", "/shadow");
    cx.eventually(what, COMPARED, async |_| {
        let report = read(&url).await?;
        let counts = report.pointer(path).and_then(Value::as_object);
        let counted =
            counts.is_some_and(|counts| counts.values().any(|count| count.as_u64().is_some_and(|n| n > 0)));
        anyhow::ensure!(counted, "{path} counts nothing: {}", report["totals"]);
        Ok(())
    })
    .await?;
    read(&url).await
}

async fn read(url: &str) -> anyhow::Result<Value> {
    Ok(reqwest::get(url).await?.error_for_status()?.json().await?)
}
