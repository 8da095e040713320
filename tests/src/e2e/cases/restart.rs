//! An orderly end, as a rollout brings it about.

use std::time::Duration;

use crate::e2e::case::Cx;

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.deploy(4, 2, "3").await?;
    cx.serving(2, Duration::from_secs(90)).await?;
    let before = cx.stable(Duration::from_secs(60)).await?;
    let status = cx.world.operator.stop().await?;
    cx.equal("the exit status after SIGTERM", &status.code(), &Some(0))?;

    let namespace = cx.namespace();
    let scale = ["scale", "deployment/web", "--replicas=3", "-n", &namespace];
    let foreseen = cx.foresee_launches(async |cx| cx.kubectl(&scale).await.map(drop)).await?;
    cx.world.operator.start()?;
    cx.world.operator.wait_ready().await?;
    cx.launched_as(&foreseen).await?;
    cx.serving(3, Duration::from_secs(90)).await?;
    let after = cx.stable(Duration::from_secs(60)).await?;
    let instances = |fleet: &crate::e2e::fleet::Fleet| -> Vec<String> {
        fleet.instances.iter().map(|instance| instance.provider_id.clone()).collect()
    };
    let (old, new) = (instances(&before), instances(&after));
    cx.check(
        format!("the instances {old:?} are still among {new:?}"),
        old.iter().all(|id| new.contains(id)),
    )?;
    cx.equal("one instance was added", &new.len(), &(old.len() + 1))
}
