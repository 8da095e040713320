//! Two operators of one cluster name as processes, each on an API server of its own, in one account.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleetwright_aws_api::labels;
use jiff::SignedDuration;

use super::flow::{
    CLAIMS, CLASSES, LIMIT, PODS, POOLS, is_true, node, node_class, node_pool, pod, the_claim,
};
use super::ownership::deeds;
use crate::case::Cx;
use crate::cluster::NAME;
use crate::stage::{OURS, Server, THEIRS, eventually};

/// How long the collection of an orphan may take: it is marked, and marked again two minutes later.
const COLLECTED_LIMIT: Duration = Duration::from_secs(300);

/// A pod in a cluster is launched for, and its node registers; the instance's id.
async fn launched(server: &Server, name: &str) -> anyhow::Result<String> {
    server.create(CLASSES, &node_class()).await?;
    server.create(POOLS, &node_pool()).await?;
    server.create(PODS, &pod()).await?;
    let provider_id = eventually("the NodeClaim is launched", LIMIT, async || {
        let claim = the_claim(server).await?;
        ensure!(is_true(&claim, "Launched"), "{}", claim["status"]["conditions"]);
        Ok(claim["status"]["providerID"].as_str().context("no provider id")?.to_owned())
    })
    .await?;
    server.create(super::flow::NODES, &node(name, &provider_id)).await?;
    eventually("the node is registered", LIMIT, async || {
        let claim = the_claim(server).await?;
        ensure!(is_true(&claim, "Registered"), "{}", claim["status"]["conditions"]);
        Ok(())
    })
    .await?;
    Ok(provider_id.rsplit('/').next().unwrap_or_default().to_owned())
}

/// What runs in the account, by id, with the UID of its cluster.
async fn owners(cx: &Cx<'_>) -> anyhow::Result<BTreeMap<String, String>> {
    let instances = cx.account.instances().await?;
    let owner =
        |tags: &BTreeMap<String, String>| tags.get(labels::TAG_CLUSTER_UID).cloned().unwrap_or_default();
    Ok(instances.into_iter().map(|(id, own)| (id, owner(&own.tags))).collect())
}

/// The pod, its NodeClaim, the NodePool and the class of a cluster are deleted, and what was made for them goes.
async fn emptied(server: &Server) -> anyhow::Result<()> {
    server.delete(&format!("{PODS}/web")).await?;
    server.delete(&format!("{POOLS}/general")).await?;
    eventually("the claim is gone", LIMIT, async || {
        let claims = server.rest.list(CLAIMS).await?;
        ensure!(claims.is_empty(), "{} claims", claims.len());
        Ok(())
    })
    .await?;
    server.delete(&format!("{CLASSES}/default")).await?;
    eventually("the class is gone", LIMIT, async || {
        ensure!(server.rest.get(&format!("{CLASSES}/default")).await?.is_none(), "the class is there");
        Ok(())
    })
    .await
}

pub(super) async fn two(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    // By their launch times instances are old enough to be collected at once.
    cx.proxy.rules(|rules| rules.older = SignedDuration::from_mins(10));
    let (ours, theirs) = (Server::start_as(cx, OURS).await?, Server::start_as(cx, THEIRS).await?);
    cx.check("the clusters have UIDs of their own", ours.uid != theirs.uid)?;
    let (operator, other) = (ours.operator(cx).await?, theirs.operator(cx).await?);
    let (own, foreign) = tokio::try_join!(launched(&ours, "ip-10-0-0-1"), launched(&theirs, "ip-10-0-0-2"))?;
    let both = BTreeMap::from([(own.clone(), ours.uid.clone()), (foreign.clone(), theirs.uid.clone())]);
    cx.equal("instances and their clusters", &owners(cx).await?, &both)?;
    // An orphan of each cluster is collected, by its own operator: both have swept meanwhile.
    let orphan = async |uid: &str| {
        let tags = [
            ("kubernetes.io/cluster/prod", "owned"),
            (labels::TAG_CLUSTER_NAME, NAME),
            (labels::TAG_NODEPOOL, "general"),
            (labels::NODE_CLASS, "default"),
            (labels::TAG_CLUSTER_UID, uid),
        ];
        cx.account.launch(&tags).await
    };
    let orphans = [orphan(&ours.uid).await?, orphan(&theirs.uid).await?];
    eventually("the orphans are collected", COLLECTED_LIMIT, async || {
        let left = owners(cx).await?;
        ensure!(orphans.iter().all(|id| !left.contains_key(id)), "{left:?}");
        Ok(())
    })
    .await?;
    cx.equal("instances after the collection", &owners(cx).await?, &both)?;
    // Ours dies; theirs goes on, and leaves.
    operator.kill().await?;
    emptied(&theirs).await?;
    let only = BTreeMap::from([(own.clone(), ours.uid.clone())]);
    cx.equal("instances once they have left", &owners(cx).await?, &only)?;
    let operator = ours.operator(cx).await?;
    let claim = the_claim(&ours).await?;
    let named = claim["status"]["providerID"].as_str().is_some_and(|id| id.ends_with(&own));
    cx.check(
        format!("our claim has its instance: {}", claim["status"]),
        named && is_true(&claim, "Registered"),
    )?;
    emptied(&ours).await?;
    cx.equal("instances in the end", &owners(cx).await?, &BTreeMap::new())?;
    cx.equal("instance profiles in the end", &cx.account.profiles().await?.len(), &0)?;
    cx.equal("launch templates in the end", &cx.account.templates().await?.len(), &0)?;
    operator.kill().await?;
    other.kill().await?;
    each_its_own(cx, [(&own, &orphans[0]), (&foreign, &orphans[1])])
}

/// By the log of calls each operator launched once, and deleted what it had made and nothing else.
fn each_its_own(cx: &mut Cx<'_>, instances: [(&String, &String); 2]) -> anyhow::Result<()> {
    let (made, deleted) = deeds(cx);
    for (side, (own, orphan)) in [OURS, THEIRS].into_iter().zip(instances) {
        let key = side.access_key;
        let fleets = cx.proxy.calls().into_iter().filter(|call| {
            call.access_key == key && call.action == "CreateFleet" && !call.is_dry_run() && call.status == 200
        });
        cx.equal(&format!("launches of {key}"), &fleets.count(), &1)?;
        let mut expected: BTreeSet<String> = made.get(key).cloned().unwrap_or_default();
        expected.extend([own.clone(), orphan.clone()]);
        let found = deleted.get(key).cloned().unwrap_or_default();
        cx.equal(&format!("what {key} deleted: all that it had made"), &found, &expected)?;
    }
    Ok(())
}
