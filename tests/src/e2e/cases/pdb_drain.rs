//! A drain asks the API server before every eviction, and obeys.

use std::time::Duration;

use anyhow::Context as _;

use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::manifests;

/// Long enough for several attempts to evict.
const BLOCKED: Duration = Duration::from_secs(10);

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    // 3 of 4 CPUs: one pod per node.
    cx.deploy(4, 2, "3").await?;
    let namespace = cx.namespace();
    cx.apply(&manifests::disruption_budget(&namespace, "web", 0)).await?;
    cx.serving(2, Duration::from_secs(90)).await?;
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    let claim = fleet.claims.first().map(fleet::name).context("there is no NodeClaim")?;
    let node = fleet.claims.first().and_then(|claim| claim["status"]["nodeName"].as_str());
    let node = node.context("the NodeClaim names no node")?.to_owned();
    let before = pod_names(cx).await?;

    cx.kubectl(&["delete", "nodeclaim", &claim, "--wait=false"]).await?;
    let path = format!("/api/v1/nodes/{node}");
    cx.eventually("the node is tainted against new pods", Duration::from_secs(30), async |world| {
        let node = world.get(&path).await?.context("the node is gone")?;
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        anyhow::ensure!(taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted"), "{taints:?}");
        Ok(())
    })
    .await?;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    cx.throughout("a blocked drain leaves pods and node alone", BLOCKED, async |world| {
        world.get(&path).await?.context("the node is gone")?;
        let serving = world.list(&pods).await?.iter().filter(|pod| fleet::is_serving(pod)).count();
        anyhow::ensure!(serving == 2, "{serving} pods serve");
        Ok(())
    })
    .await?;
    cx.equal("the pods are the same", &pod_names(cx).await?, &before)?;
    let name = node.clone();
    cx.eventually("an event says that the drain is blocked", Duration::from_secs(30), async |world| {
        let events = world.events("Node", &name).await?;
        let reasons: Vec<&str> = events.iter().filter_map(|event| event["reason"].as_str()).collect();
        anyhow::ensure!(reasons.contains(&"FailedDraining"), "{reasons:?}");
        Ok(())
    })
    .await?;

    cx.apply(&manifests::disruption_budget(&namespace, "web", 1)).await?;
    // At least one pod is ready at all times; at the end both are, and the instance is gone.
    cx.eventually("the node drains and goes", Duration::from_secs(120), async |world| {
        let serving = world.pods(&namespace).await?.iter().filter(|pod| fleet::is_serving(pod)).count();
        anyhow::ensure!(world.get(&path).await?.is_none(), "the node is there, {serving} pods serve");
        Ok(())
    })
    .await?;
    cx.serving(2, Duration::from_secs(90)).await?;
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    let names: Vec<String> = fleet.claims.iter().map(fleet::name).collect();
    cx.check(format!("{claim} is gone from {names:?}"), !names.contains(&claim))
}

async fn pod_names(cx: &Cx<'_>) -> anyhow::Result<Vec<String>> {
    let mut names: Vec<String> = cx.world.pods(&cx.namespace()).await?.iter().map(fleet::name).collect();
    names.sort();
    Ok(names)
}
