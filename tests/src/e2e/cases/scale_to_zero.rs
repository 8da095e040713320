//! Scale-down: the instances of a deleted workload are terminated.

use std::time::Duration;

use crate::e2e::case::Cx;

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.deploy(4, 6, "1500m").await?;
    cx.serving(6, Duration::from_secs(90)).await?;
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    cx.check(format!("there is a fleet to empty: {}", fleet.sizes()), !fleet.is_empty())?;
    let namespace = cx.namespace();
    cx.disrupts_as_foreseen(async |cx| {
        cx.kubectl(&["scale", "deployment/web", "--replicas=0", "-n", &namespace]).await?;
        cx.serving(0, Duration::from_secs(30)).await
    })
    .await?;
    cx.emptied(Duration::from_secs(120)).await?;
    // The NodePool stays, and its status is empty.
    let pool = cx.pool();
    cx.eventually("the NodePool counts no nodes", Duration::from_secs(30), async |world| {
        let pool = world.get(&format!("/apis/karpenter.sh/v1/nodepools/{pool}")).await?.unwrap_or_default();
        anyhow::ensure!(pool["status"]["nodes"] == 0, "{} nodes", pool["status"]["nodes"]);
        Ok(())
    })
    .await
}
