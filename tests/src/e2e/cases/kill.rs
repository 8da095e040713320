//! Crashes: the operator is killed repeatedly while instances are being launched.

use std::time::Duration;

use crate::e2e::case::Cx;
use crate::e2e::foreseen::looked_at;
use crate::e2e::manifests;
use crate::e2e::process::Signal;

/// One pod per 4-CPU instance: as many launches as pods, and an instance too many is one that no pod needs.
const PODS: u32 = 24;

const KILLS: u32 = 5;

/// How long a NodePool may take to be ready.
const READY: Duration = Duration::from_secs(30);

/// The longest life of the operator between two kills, in milliseconds: from its start over its first writes to the
/// registration of the first instances.
const LIFE_MAX_MS: u64 = 5000;

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.apply(&manifests::namespace(&cx.namespace())).await?;
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    // Instances are never taken away again, so that one launched twice is still there at the end.
    pool["spec"]["disruption"]["consolidateAfter"] = "Never".into();
    cx.apply(&pool).await?;
    let web = manifests::deployment(&cx.namespace(), "web", &cx.pool(), PODS, "3");
    cx.eventually("the operator has looked at the NodePool", READY, looked_at).await?;
    cx.world.operator.signal(Signal::Stop).await?;
    let foreseen = cx.foresee_launches(async |cx| cx.apply(&web).await.map(drop)).await;
    cx.world.operator.signal(Signal::Continue).await?;
    let foreseen = foreseen?.without_pods();
    let mut lives = Vec::new();
    for _ in 0..KILLS {
        let life = cx.random(LIFE_MAX_MS);
        tokio::time::sleep(Duration::from_millis(life)).await;
        cx.world.check_running()?;
        cx.world.operator.kill().await?;
        cx.world.operator.start()?;
        lives.push(life);
    }
    cx.world.operator.wait_ready().await?;
    cx.serving(usize::try_from(PODS)?, Duration::from_secs(150)).await?;
    cx.launched_as(&foreseen).await?;
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    let expected = usize::try_from(PODS)?;
    let sizes = (fleet.claims.len(), fleet.nodes.len(), fleet.instances.len());
    cx.equal(
        &format!("claims, nodes and instances after lives of {lives:?} ms"),
        &sizes,
        &(expected, expected, expected),
    )
}
