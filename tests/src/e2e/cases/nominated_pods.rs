//! `NOMINATE_PODS`: kube-scheduler binds pods to the nodes that were planned for them, whichever is ready first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::permissions::{ROLE, put};
use crate::e2e::case::Cx;
use crate::e2e::world::LaneWorld;
use crate::e2e::{fleet, manifests};

/// Replicas and CPUs of the Deployments: 45 CPUs, all that six nodes of 8 CPUs have for them. Where a node had room to spare, pods that
/// are planned for another one would rightly go there.
const LOAD: [(u32, &str); 4] = [(20, "500m"), (8, "1500m"), (5, "2500m"), (3, "3500m")];
const NODES: usize = 6;

/// Keeps pods off a node until the case has it join, as agents of networks do: how fast a node joins is not left to the load of the host.
const JOINING: &str = "e2e.fleetwright.dev/joining";

/// How long one step may take.
const LIMIT: Duration = Duration::from_secs(90);

/// Permits the operator to nominate pods. Returns the role as it was.
pub(in crate::e2e) async fn grant_nominations(world: &LaneWorld) -> anyhow::Result<Value> {
    let role = world.get(ROLE).await?.context("no ClusterRole karpenter-core")?;
    let mut rules = role["rules"].as_array().cloned().context("a role without rules")?;
    rules.push(json!({"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}));
    put(world, &json!(rules)).await?;
    Ok(role)
}

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let role = grant_nominations(cx.world).await?;
    let result = follows_the_plan(cx).await;
    // The other cases need the role as it was.
    put(cx.world, &role["rules"]).await?;
    result
}

async fn follows_the_plan(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.reconfigure(&[("NOMINATE_PODS", "true")]).await?;
    let pods = launch(cx).await?;
    let planned = planned(cx.world).await?;
    cx.equal("pods that a node was launched for", &planned.len(), &pods)?;
    let nodes: BTreeSet<&str> = planned.values().flatten().map(String::as_str).collect();
    cx.equal("nodes", &nodes.len(), &NODES)?;
    for node in nodes {
        join(cx, node, &planned).await?;
    }
    cx.serving(pods, LIMIT).await?;
    let mut elsewhere = Vec::new();
    for pod in cx.world.pods(&cx.namespace()).await? {
        let (name, runs_on) = (fleet::name(&pod), pod["spec"]["nodeName"].as_str());
        if planned.get(&name).is_some_and(|node| node.as_deref() != runs_on) {
            elsewhere.push(format!("{name} runs on {runs_on:?}"));
        }
    }
    // kube-scheduler may try a pod in the moment between its last refusal and the next nomination.
    cx.check(
        format!("few of {pods} pods run on another node than planned: {elsewhere:?}"),
        elsewhere.len() * 5 <= pods,
    )?;
    cx.equal("NodeClaims", &cx.world.fleet().await?.claims.len(), &NODES)
}

/// Creates the pods while the operator is paused, so that they are planned together. Returns how many they are, once all nodes are ready.
async fn launch(cx: &mut Cx<'_>) -> anyhow::Result<usize> {
    let namespace = cx.namespace();
    cx.apply(&manifests::namespace(&namespace)).await?;
    let mut pool = manifests::node_pool(&cx.pool(), 8);
    pool["spec"]["template"]["spec"]["startupTaints"] = json!([{"key": JOINING, "effect": "NoSchedule"}]);
    cx.apply(&pool).await?;
    cx.launches_as_foreseen(async |cx| {
        for (replicas, cpu) in LOAD {
            let (name, pool) = (format!("of-{cpu}"), cx.pool());
            cx.apply(&manifests::deployment(&namespace, &name, &pool, replicas, cpu)).await?;
        }
        Ok(())
    })
    .await?;
    let pods = usize::try_from(LOAD.iter().map(|(replicas, _)| replicas).sum::<u32>())?;
    cx.eventually("nodes are launched, registered and ready", LIMIT, async |world| {
        let (planned, nodes) = (planned(world).await?, world.fleet().await?.nodes);
        anyhow::ensure!(
            !planned.is_empty() && planned.values().all(Option::is_some),
            "one is not registered"
        );
        let ready = nodes.iter().filter(|node| fleet::is_true(node, "Ready")).count();
        anyhow::ensure!(ready == nodes.len(), "{ready} of {} nodes are ready", nodes.len());
        Ok(())
    })
    .await?;
    Ok(pods)
}

/// Lets pods on to a node once all that wait are nominated, and waits for those of this node.
async fn join(cx: &mut Cx<'_>, node: &str, planned: &BTreeMap<String, Option<String>>) -> anyhow::Result<()> {
    let namespace = cx.namespace();
    let waiting = async |world: &LaneWorld| -> anyhow::Result<Vec<Value>> {
        let pods = world.pods(&namespace).await?;
        Ok(pods.into_iter().filter(|pod| pod["spec"]["nodeName"].is_null()).collect())
    };
    cx.eventually(
        "each pod that waits is nominated to the node that was launched for it",
        LIMIT,
        async |world| {
            for pod in waiting(world).await? {
                let (name, found) = (fleet::name(&pod), pod["status"]["nominatedNodeName"].as_str());
                let expected = planned.get(&name).and_then(Option::as_deref);
                anyhow::ensure!(found == expected, "{name} is nominated to {found:?}, not to {expected:?}");
            }
            Ok(())
        },
    )
    .await?;
    cx.kubectl(&["taint", "node", node, &format!("{JOINING}-")]).await?;
    cx.eventually("the pods of a node that has joined are bound", LIMIT, async |world| {
        let of_node = |name: &String| planned.get(name).and_then(Option::as_deref) == Some(node);
        let left: Vec<String> = waiting(world).await?.iter().map(fleet::name).filter(of_node).collect();
        anyhow::ensure!(left.is_empty(), "{left:?} wait");
        Ok(())
    })
    .await
}

/// The pods that a NodeClaim was created for, each with the node of that, if it has registered.
async fn planned(world: &LaneWorld) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let mut planned = BTreeMap::new();
    for claim in world.fleet().await?.claims {
        let node = claim["status"]["nodeName"].as_str().filter(|_| fleet::is_true(&claim, "Registered"));
        let written = claim["metadata"]["annotations"]["fleetwright.dev/nominated-pods"].as_str();
        for entry in written.unwrap_or_default().split(',').filter(|entry| !entry.is_empty()) {
            let pod = entry.rsplit_once(':').map_or(entry, |(name, _)| name);
            let name = pod.rsplit_once('/').map_or(pod, |(_, name)| name);
            planned.insert(name.to_owned(), node.map(str::to_owned));
        }
    }
    Ok(planned)
}
