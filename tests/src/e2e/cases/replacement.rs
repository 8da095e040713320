//! A replacement that never registers: the old node stays, and the command is rolled back.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::ledger::is_tainted;
use crate::e2e::manifests;

/// How long the operator waits for a replacement in this case.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Long enough for the operator to think of it again, a few times.
const AFTERWARDS: Duration = Duration::from_secs(8);

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.reconfigure(&[("DISRUPTION_TIMEOUT", "10s")]).await?;
    let namespace = cx.namespace();
    cx.apply(&manifests::namespace(&namespace)).await?;
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    cx.apply(&pool).await?;
    let web = manifests::deployment(&namespace, "web", &cx.pool(), 1, "3");
    cx.launches_as_foreseen(async |cx| cx.apply(&web).await.map(drop)).await?;
    cx.serving(1, Duration::from_secs(90)).await?;
    let before = cx.stable(Duration::from_secs(60)).await?;
    let old = before.claims.first().map(fleet::name).context("there is no NodeClaim")?;
    let node = before.nodes.first().map(fleet::name).context("there is no Node")?;
    let pod = cx.world.pods(&namespace).await?.first().map(fleet::name).context("there is no pod")?;

    cx.world.cloud.inject(&json!([{"kind": "neverJoins", "times": 100}])).await?;
    pool["spec"]["template"]["metadata"] = json!({"labels": {"generation": "two"}});
    cx.disrupts_as_foreseen(async |cx| cx.apply(&pool).await.map(drop)).await?;
    let path = format!("/api/v1/nodes/{node}");
    cx.eventually("the old node is tainted for its replacement", Duration::from_secs(30), async |world| {
        let node = world.get(&path).await?.context("the node is gone")?;
        anyhow::ensure!(is_tainted(&node), "{}", node["spec"]);
        Ok(())
    })
    .await?;
    rolled_back(cx, &node, &old).await?;
    cx.throughout("the old node stays, and nothing is launched for it in vain", AFTERWARDS, async |world| {
        let fleet = world.fleet().await?;
        anyhow::ensure!(fleet.claims.len() <= 2, "{}", fleet.sizes());
        anyhow::ensure!(fleet.claims.iter().any(|claim| fleet::name(claim) == old), "{old} is gone");
        let pods = world.pods(&namespace).await?;
        let same = pods.iter().any(|found| fleet::is_serving(found) && fleet::name(found) == pod);
        anyhow::ensure!(same, "{pod} does not serve");
        Ok(())
    })
    .await?;
    recovers(cx, &old).await
}

/// Taint, annotation and condition of the command are gone again.
async fn rolled_back(cx: &mut Cx<'_>, node: &str, claim: &str) -> anyhow::Result<()> {
    let claim = format!("/apis/karpenter.sh/v1/nodeclaims/{claim}");
    let node = format!("/api/v1/nodes/{node}");
    cx.eventually("the command is rolled back", TIMEOUT + Duration::from_secs(20), async |world| {
        let node = world.get(&node).await?.context("the node is gone")?;
        anyhow::ensure!(!is_tainted(&node), "the taint is there");
        let claim = world.get(&claim).await?.context("the NodeClaim is gone")?;
        anyhow::ensure!(!fleet::is_true(&claim, "DisruptionReason"), "the condition is there");
        let annotations = claim["metadata"]["annotations"].to_string();
        anyhow::ensure!(!annotations.contains("disruption-command"), "{annotations}");
        Ok(())
    })
    .await
}

/// With the failed instance removed and a working cloud, the old node is replaced.
async fn recovers(cx: &mut Cx<'_>, old: &str) -> anyhow::Result<()> {
    cx.world.cloud.heal().await?;
    let fleet = cx.world.fleet().await?;
    for claim in fleet.claims.iter().map(fleet::name).filter(|name| name != old) {
        cx.kubectl(&["delete", "nodeclaim", &claim, "--wait=false"]).await?;
    }
    let path = format!("/apis/karpenter.sh/v1/nodeclaims/{old}");
    cx.eventually("the old node is replaced in the end", Duration::from_secs(120), async |world| {
        anyhow::ensure!(world.get(&path).await?.is_none(), "{old} is there");
        Ok(())
    })
    .await?;
    cx.serving(1, Duration::from_secs(60)).await?;
    let after = cx.stable(Duration::from_secs(60)).await?;
    cx.equal("nodes", &after.nodes.len(), &1)
}
