//! A PodDisruptionBudget blocks the replacement of a node, with an event and a condition.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::foreseen::tool;
use crate::e2e::ledger::is_tainted;
use crate::e2e::manifests;

/// Long enough for a dozen looks at what could be disrupted.
const BLOCKED: Duration = Duration::from_secs(12);

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let namespace = cx.namespace();
    cx.apply(&manifests::namespace(&namespace)).await?;
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    cx.apply(&pool).await?;
    cx.apply(&manifests::disruption_budget(&namespace, "web", 0)).await?;
    let web = manifests::deployment(&namespace, "web", &cx.pool(), 1, "3");
    cx.launches_as_foreseen(async |cx| cx.apply(&web).await.map(drop)).await?;
    cx.serving(1, Duration::from_secs(90)).await?;
    let before = cx.stable(Duration::from_secs(60)).await?;
    let claim = before.claims.first().map(fleet::name).context("there is no NodeClaim")?;

    pool["spec"]["template"]["metadata"] = json!({"labels": {"generation": "two"}});
    cx.apply(&pool).await?;
    let path = format!("/apis/karpenter.sh/v1/nodeclaims/{claim}");
    cx.eventually("the NodeClaim has drifted", Duration::from_secs(30), async |world| {
        let claim = world.get(&path).await?.context("the NodeClaim is gone")?;
        anyhow::ensure!(fleet::is_true(&claim, "Drifted"), "{}", claim["status"]["conditions"]);
        Ok(())
    })
    .await?;
    cx.throughout("no node is tainted and none is added", BLOCKED, async |world| {
        let fleet = world.fleet().await?;
        anyhow::ensure!(fleet.claims.len() == 1 && fleet.nodes.len() == 1, "{}", fleet.sizes());
        anyhow::ensure!(!fleet.nodes.iter().any(is_tainted), "the node is tainted");
        Ok(())
    })
    .await?;
    told(cx, &claim).await?;

    let report = tool(cx.world, &["disrupt", "-o", "json"]).await?;
    cx.equal("commands while the budget blocks", &report["commands"], &json!([]))?;
    let owner = &report["nodes"][0]["blockers"][0]["owner"];
    cx.equal("who blocks, by disrupt", owner, &json!(format!("poddisruptionbudget/{namespace}/web")))?;
    cx.disrupts_as_foreseen(async |cx| {
        cx.kubectl(&["delete", "poddisruptionbudget", "web", "-n", &namespace]).await.map(drop)
    })
    .await?;
    cx.eventually("without the budget the node is replaced", Duration::from_secs(90), async |world| {
        anyhow::ensure!(world.get(&path).await?.is_none(), "{claim} is there");
        Ok(())
    })
    .await?;
    cx.serving(1, Duration::from_secs(60)).await?;
    let after = cx.stable(Duration::from_secs(60)).await?;
    cx.equal("nodes", &after.nodes.len(), &1)
}

/// An event names the blocker at once, and a condition within a minute.
async fn told(cx: &mut Cx<'_>, claim: &str) -> anyhow::Result<()> {
    let text = format!("Pdb prevents pod evictions (PodDisruptionBudget=[{}/web])", cx.namespace());
    cx.eventually("an event names the budget", Duration::from_secs(30), async |world| {
        let events = world.events("NodeClaim", claim).await?;
        let said = events.iter().filter(|event| event["reason"] == "DisruptionBlocked");
        let said: Vec<&str> = said.filter_map(|event| event["message"].as_str()).collect();
        anyhow::ensure!(said.contains(&&*text), "{said:?}");
        Ok(())
    })
    .await?;
    let owner = format!("[poddisruptionbudget/{}/web]", cx.namespace());
    cx.eventually("a condition names the budget and its owner", Duration::from_secs(90), async |world| {
        let claim = world.get(&format!("/apis/karpenter.sh/v1/nodeclaims/{claim}")).await?;
        let claim = claim.context("the NodeClaim is gone")?;
        let said = fleet::condition(&claim, "DisruptionBlocked").cloned().unwrap_or_default();
        let named = said["message"].as_str().is_some_and(|message| message.contains(&owner));
        anyhow::ensure!(said["reason"] == "PodDisruptionBudget" && named, "{said}");
        Ok(())
    })
    .await
}
