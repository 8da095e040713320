//! Scale-up: the one flow, with everything real but the instances.

use std::time::Duration;

use crate::e2e::arguments::Tier;
use crate::e2e::case::Cx;
use crate::e2e::fleet;

const PODS: u32 = 100;

/// 8-CPU instances hold 15 pods of half a CPU beside their overhead, so 100 pods fill 7. A few more are granted, because
/// the pods arrive over some seconds and a batch may close between them.
const NODES_MAX: usize = 10;

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.deploy(8, PODS, "500m").await?;
    cx.serving(usize::try_from(PODS)?, Duration::from_secs(120)).await?;
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    let count = fleet.nodes.len();
    cx.check(format!("{count} nodes are at most {NODES_MAX}"), (1..=NODES_MAX).contains(&count))?;
    for node in &fleet.nodes {
        let labels = &node["metadata"]["labels"];
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        cx.equal("the node's pool", &labels["karpenter.sh/nodepool"].as_str(), &Some(cx.pool().as_str()))?;
        cx.equal("the node's registered label", &labels["karpenter.sh/registered"].as_str(), &Some("true"))?;
        cx.equal(
            "the node's initialized label",
            &labels["karpenter.sh/initialized"].as_str(),
            &Some("true"),
        )?;
        cx.check(format!("no taint is left: {taints:?}"), taints.is_empty())?;
    }
    bound_by_the_scheduler(cx).await?;
    let pool =
        cx.world.get(&format!("/apis/karpenter.sh/v1/nodepools/{}", cx.pool())).await?.unwrap_or_default();
    cx.check(format!("the NodePool is Ready: {}", pool["status"]), fleet::is_true(&pool, "Ready"))?;
    let (pool, nodes) = (cx.pool(), count);
    cx.eventually("the NodePool counts its nodes", Duration::from_secs(30), async |world| {
        let pool = world.get(&format!("/apis/karpenter.sh/v1/nodepools/{pool}")).await?.unwrap_or_default();
        anyhow::ensure!(pool["status"]["nodes"] == nodes, "{} nodes", pool["status"]["nodes"]);
        Ok(())
    })
    .await
}

/// Every pod was bound by kube-scheduler, after the operator had nominated its node.
async fn bound_by_the_scheduler(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let events = cx.world.list(&format!("/api/v1/namespaces/{}/events", cx.namespace())).await?;
    let count = |reason: &str| events.iter().filter(|event| event["reason"] == reason).count();
    cx.check("the operator nominated nodes for pods", count("Nominated") > 0)?;
    if cx.world.tier == Tier::Kube {
        let by_scheduler = events.iter().filter(|event| {
            event["reason"] == "Scheduled"
                && (event["reportingComponent"] == "default-scheduler"
                    || event["source"]["component"] == "default-scheduler")
        });
        cx.check("kube-scheduler bound the pods", by_scheduler.count() > 0)?;
    }
    Ok(())
}
