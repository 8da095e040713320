//! Many nodes up and down with the operator as a process, under EC2's token buckets and where the cheapest type runs out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::ensure;
use fleetwright_aws_emulator::throttle::Buckets;
use fleetwright_core::clock::Clock as _;
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::flow::{CLAIMS, CLASSES, LIMIT, NODES, PODS, POOLS, is_true, node, node_class, pod};
use super::load::was_throttled;
use crate::case::Cx;
use crate::stage::{Server, eventually};

/// How many nodes there are to be.
#[derive(Clone, Copy)]
pub(super) struct Crowd {
    count: usize,
    /// Instances of the cheapest type in each zone.
    left: u32,
    /// Instances that other tools of the account have just launched: EC2's bucket of 1,000, which gets two a second, is the account's. With any,
    /// the operator has to be throttled.
    others: u32,
    /// How long all of them may take up, and down.
    limit: Duration,
}

/// The crowd of CI.
pub(super) const FORTY: Crowd = Crowd { count: 40, left: 6, others: 0, limit: Duration::from_secs(200) };
/// As many as EC2's bucket of launched instances has tokens when it is full. With 300 left and two a second, the last token is there after 350 s.
pub(super) const THOUSAND: Crowd =
    Crowd { count: 1000, left: 150, others: 700, limit: Duration::from_secs(500) };

/// Types that hold one of the pods each, and their prices: the cheapest first.
const TYPES: [(&str, &str); 3] = [("m5.large", "0.0960"), ("m5a.large", "0.0970"), ("m5d.large", "0.1130")];
/// Requests to the API server at a time.
const AT_ONCE: usize = 16;

fn pool() -> Value {
    let values = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let types: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {
            "disruption": {"consolidateAfter": "Never"},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    values("node.kubernetes.io/instance-type", &types),
                    values("karpenter.sh/capacity-type", &["on-demand"]),
                ],
            }},
        },
    })
}

fn one(number: usize) -> Value {
    let mut pod = pod();
    pod["metadata"]["name"] = format!("web-{number}").into();
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m".into();
    pod
}

/// Makes requests, some at a time.
async fn each(
    requests: impl Iterator<Item = impl Future<Output = anyhow::Result<()>>>,
) -> anyhow::Result<()> {
    let mut done = futures::stream::iter(requests).buffer_unordered(AT_ONCE);
    while let Some(result) = done.next().await {
        result?;
    }
    Ok(())
}

/// Registers the nodes of NodeClaims that were launched and have none; how many claims are launched, and how many registered.
async fn joined(server: &Server, known: &mut BTreeSet<String>) -> anyhow::Result<(usize, usize)> {
    let claims = server.rest.list(CLAIMS).await?;
    let mut fresh = Vec::new();
    for claim in claims.iter().filter(|claim| is_true(claim, "Launched")) {
        let id = claim["status"]["providerID"].as_str().unwrap_or_default().to_owned();
        if known.insert(id.clone()) {
            fresh.push((format!("node-{}", known.len()), id));
        }
    }
    each(fresh.iter().map(async |(name, id)| server.create(NODES, &node(name, id)).await.map(drop))).await?;
    Ok((known.len(), claims.iter().filter(|claim| is_true(claim, "Registered")).count()))
}

fn told(count: usize, what: &str, calls: &BTreeMap<String, usize>) -> String {
    let sum = calls.values().sum::<usize>();
    format!("{sum} calls of the operator for {count} {what}: {calls:?}")
}

pub(super) async fn up_and_down(cx: &mut Cx<'_>, crowd: Crowd) -> anyhow::Result<()> {
    let server = Server::start(cx).await?;
    let now = cx.proxy.clock.now();
    cx.proxy.rules(|rules| {
        rules.prices = TYPES.map(|(name, price)| (name.to_owned(), price.to_owned())).into();
        rules.buckets = Some(Buckets::default().after_launches_of_others(crowd.others, now));
        let pools = ["us-west-2a", "us-west-2b"]
            .map(|zone| ((TYPES[0].0.to_owned(), zone.to_owned(), "on-demand".to_owned()), crowd.left));
        rules.supply.pools = pools.into();
    });
    server.create(CLASSES, &node_class()).await?;
    server.create(POOLS, &pool()).await?;
    let operator = server.operator(cx).await?;
    eventually("the class is ready", LIMIT, async || {
        let class = server.rest.get(&format!("{CLASSES}/default")).await?.unwrap_or_default();
        ensure!(is_true(&class, "Ready"), "{}", class["status"]["conditions"]);
        Ok(())
    })
    .await?;
    up(cx, &server, crowd).await?;
    down(cx, &server, crowd).await?;
    if crowd.others > 0 {
        was_throttled(cx)?;
    }
    operator.kill().await
}

/// All pods come, and each gets a node.
async fn up(cx: &mut Cx<'_>, server: &Server, crowd: Crowd) -> anyhow::Result<()> {
    let Crowd { count, left, limit, .. } = crowd;
    let before = cx.proxy.mark();
    each((0..count).map(async |number| server.create(PODS, &one(number)).await.map(drop))).await?;
    let (begin, mut known) = (tokio::time::Instant::now(), BTreeSet::new());
    loop {
        let (launched, registered) = joined(server, &mut known).await?;
        if registered >= count {
            break;
        }
        ensure!(begin.elapsed() < limit, "{launched} are launched, {registered} registered");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    cx.figures.push(format!("{count} nodes in {:.0} s", begin.elapsed().as_secs_f64()));
    cx.equal("instances", &cx.born_of(&server.uid).await?, &count)?;
    cx.equal("NodeClaims with an instance of their own", &known.len(), &count)?;
    let instances = cx.account.instances().await?;
    let cheapest = instances.values().filter(|own| own.instance_type == TYPES[0].0).count();
    cx.equal("instances of the cheapest type", &cheapest, &(usize::try_from(left)? * 2))?;
    let calls = cx.proxy.counts(before);
    cx.figures.push(told(count, "launches", &calls));
    cx.check(told(count, "launches", &calls), calls.values().sum::<usize>() <= count * 3 / 2 + 100)
}

/// All pods leave, and the NodePool is deleted.
async fn down(cx: &mut Cx<'_>, server: &Server, crowd: Crowd) -> anyhow::Result<()> {
    let Crowd { count, limit, .. } = crowd;
    let before = cx.proxy.mark();
    each((0..count).map(async |number| server.delete(&format!("{PODS}/web-{number}")).await)).await?;
    server.delete(&format!("{POOLS}/general")).await?;
    let begin = tokio::time::Instant::now();
    loop {
        let left = server.rest.list(CLAIMS).await?.len();
        if left == 0 {
            break;
        }
        ensure!(begin.elapsed() < limit, "{left} NodeClaims are left");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    cx.figures.push(format!("{count} ends in {:.0} s", begin.elapsed().as_secs_f64()));
    cx.equal("instances in the end", &cx.born_of(&server.uid).await?, &0)?;
    let calls = cx.proxy.counts(before);
    cx.figures.push(told(count, "ends", &calls));
    cx.check(told(count, "ends", &calls), calls.values().sum::<usize>() <= count + 100)
}
