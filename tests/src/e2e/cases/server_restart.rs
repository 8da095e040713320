//! An API server that is restarted.

use std::time::Duration;

use crate::e2e::case::Cx;

/// Long enough for every watch and every write of the operator to fail a few times.
const OUTAGE: Duration = Duration::from_secs(5);

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.deploy(4, 2, "3").await?;
    cx.serving(2, Duration::from_secs(90)).await?;
    let operator = cx.world.operator.id();
    cx.world.server.control_plane()?.kill_api_server().await?;
    tokio::time::sleep(OUTAGE).await;
    cx.world.check_running()?;
    cx.world.server.control_plane()?.start_api_server()?;
    cx.world.server.wait_ready().await?;

    let namespace = cx.namespace();
    cx.kubectl(&["scale", "deployment/web", "--replicas=4", "-n", &namespace]).await?;
    cx.serving(4, Duration::from_secs(120)).await?;
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    cx.equal("one instance per pod", &fleet.instances.len(), &4)?;
    cx.world.operator.check_running()?;
    cx.equal("the operator is the same process", &cx.world.operator.id(), &operator)
}
