//! `NOMINATE_PODS`: kube-scheduler binds pods to the nodes that were planned for them, whichever is ready first.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::permissions::{ROLE, put};
use crate::e2e::case::Cx;
use crate::e2e::world::LaneWorld;
use crate::e2e::{fleet, manifests};

/// Replicas and CPUs of the Deployments. On nodes of up to 8 CPUs they fill seven.
const LOAD: [(u32, &str); 4] = [(20, "500m"), (8, "1500m"), (6, "2500m"), (3, "3500m")];

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
    cx.deploy(8, 0, "500m").await?;
    for (replicas, cpu) in LOAD {
        let (namespace, name) = (cx.namespace(), format!("of-{cpu}"));
        cx.apply(&manifests::deployment(&namespace, &name, &cx.pool(), replicas, cpu)).await?;
    }
    let pods = usize::try_from(LOAD.iter().map(|(replicas, _)| replicas).sum::<u32>())?;
    cx.serving(pods, Duration::from_secs(120)).await?;
    let nodes: BTreeMap<String, Value> = cx
        .world
        .pods(&cx.namespace())
        .await?
        .iter()
        .map(|pod| (format!("{}/{}", cx.namespace(), fleet::name(pod)), pod["spec"]["nodeName"].clone()))
        .collect();
    let (mut planned, mut elsewhere) = (0, Vec::new());
    for claim in cx.world.fleet().await?.claims {
        let written = claim["metadata"]["annotations"]["fleetwright.dev/nominated-pods"].as_str();
        for entry in written.unwrap_or_default().split(',').filter(|entry| !entry.is_empty()) {
            let pod = entry.rsplit_once(':').map_or(entry, |(name, _)| name);
            planned += 1;
            if nodes.get(pod) != Some(&claim["status"]["nodeName"]) {
                elsewhere.push(format!("{pod} runs on {:?}", nodes.get(pod)));
            }
        }
    }
    // The others came with a later batch, and fitted on a node of an earlier one.
    cx.check(
        format!("{planned} of {pods} pods have a node that was launched for them"),
        planned * 4 >= pods * 3,
    )?;
    // kube-scheduler may try a pod in the moment between its last refusal and the next nomination. Without nominations three of four
    // pods run elsewhere.
    cx.check(
        format!("few of {planned} pods run on another node than planned: {elsewhere:?}"),
        elsewhere.len() * 5 <= planned,
    )
}
