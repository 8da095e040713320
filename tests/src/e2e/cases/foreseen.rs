//! What the tools say of a cluster is what the controller does there: `plan` before it starts, `replay` of what it recorded, and `disrupt` when the
//! load has gone down.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::e2e::case::Cx;
use crate::e2e::foreseen::{launched_for, tool};
use crate::e2e::manifests;

/// Pods of all workloads.
const PODS: usize = 33;
const LIMIT: Duration = Duration::from_secs(120);

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.world.operator.stop().await?;
    let foreseen = cx.foresee_launches(async |cx| workloads(cx).await).await?;
    let planned = &foreseen.planned;
    cx.check(format!("several NodeClaims are planned: {planned:?}"), planned.len() > 2)?;
    let pods: usize = planned.iter().map(|claim| claim.3.len()).sum();
    cx.equal("pods of the plan", &pods, &PODS)?;

    let recordings = cx.world.folder.join("recordings");
    cx.world.operator.set(&[("RECORD_DIR", &recordings.display().to_string())]);
    cx.world.operator.start()?;
    cx.world.operator.wait_ready().await?;
    cx.launched_as(&foreseen).await?;
    cx.serving(PODS, LIMIT).await?;
    let launched = cx.stable(LIMIT).await?;
    let after = tool(cx.world, &["plan", "-o", "json"]).await?;
    cx.equal("NodeClaims that are planned afterwards", &after["nodeClaims"], &json!([]))?;

    // The end of the process ends the file.
    cx.world.operator.stop().await?;
    replayed(cx, &recordings, &launched.claims).await?;
    cx.world.operator.start()?;
    cx.world.operator.wait_ready().await?;
    consolidated(cx).await
}

/// Half of the pods of all sizes of nodes go, and the nodes of the rest are consolidated.
async fn consolidated(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let (namespace, pool) = (cx.namespace(), format!("{}-web", cx.pool()));
    let policy =
        json!({"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}}}).to_string();
    cx.disrupts_as_foreseen(async |cx| {
        cx.kubectl(&["scale", "deployment/web", "--replicas=9", "-n", &namespace]).await?;
        cx.serving(PODS - 15, LIMIT).await?;
        cx.kubectl(&["patch", "nodepool", &pool, "--type=merge", "-p", &policy]).await.map(drop)
    })
    .await?;
    cx.serving(PODS - 15, LIMIT).await?;
    // A replacement that joins during the clean-up would leave a Node without a NodeClaim for two minutes.
    cx.stable(LIMIT).await.map(drop)
}

/// Pods that fill nodes of several sizes, pods that keep apart by hostname, and pods that spread over zones. Each workload has a NodePool of its
/// own, so that they fit the planned nodes in whatever order kube-scheduler binds them.
async fn workloads(cx: &Cx<'_>) -> anyhow::Result<()> {
    let namespace = cx.namespace();
    cx.apply(&manifests::namespace(&namespace)).await?;
    let labels = |name: &str| json!({"matchLabels": {"app": name}});
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "kubernetes.io/hostname", "labelSelector": labels("apart")}]}}});
    let spread = json!({"topologySpreadConstraints": [{
        "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": labels("spread"),
    }]});
    for (name, cpus, replicas, cpu, constraints) in [
        ("web", json!(["4", "8", "16"]), 24, "700m", json!({})),
        ("apart", json!(["2", "4"]), 3, "1", apart),
        ("spread", json!(["4"]), 6, "3", spread),
    ] {
        let pool = format!("{}-{name}", cx.pool());
        let mut nodes = manifests::node_pool(&pool, 4);
        nodes["spec"]["template"]["spec"]["requirements"][3]["values"] = cpus;
        cx.apply(&nodes).await?;
        let mut workload = manifests::deployment(&namespace, name, &pool, replicas, cpu);
        let spec = workload["spec"]["template"]["spec"].as_object_mut().context("pods without a spec")?;
        spec.extend(constraints.as_object().cloned().unwrap_or_default());
        cx.apply(&workload).await?;
    }
    Ok(())
}

/// A replay of the recording creates the same NodeClaims, by the same decisions.
async fn replayed(cx: &mut Cx<'_>, recordings: &Path, claims: &[Value]) -> anyhow::Result<()> {
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for claim in claims {
        *types.entry(launched_for(claim)?.1).or_default() += 1;
    }
    // The simulated cloud takes longer to start instances than the one of the cases.
    let folder = recordings.display().to_string();
    let report = tool(cx.world, &["replay", &folder, "--until", "3m", "-o", "json"]).await?;
    let variant = &report["variants"][0];
    cx.equal("pods of the recording", &report["trace"]["pods"], &json!(PODS))?;
    cx.equal("NodeClaims of the replay", &variant["nodeClaimsCreated"], &json!(claims.len()))?;
    cx.equal("nodes of the replay", &variant["nodes"], &json!(types))?;
    cx.equal("pods without a node in the replay", &variant["podsUnbound"], &json!(0))?;
    let agreement = &variant["agreement"];
    cx.equal("recorded NodeClaims", &agreement["nodeClaims"], &json!(claims.len()))?;
    cx.equal("NodeClaims as recorded", &agreement["nodeClaimsAsRecorded"], &json!(claims.len()))?;
    cx.equal("plans as recorded", &agreement["plansAsRecorded"], &agreement["plans"])?;
    cx.equal("differences", &agreement["differences"], &json!([]))?;
    explained(cx, &folder, &claims[0]).await
}

/// The recorded decision of a NodeClaim is explained with the cluster as it was: its pods were pending, and get such a node.
async fn explained(cx: &mut Cx<'_>, recordings: &str, claim: &Value) -> anyhow::Result<()> {
    let decision = claim["metadata"]["annotations"]["fleetwright.dev/decision"].as_str();
    let decision = decision.context("a NodeClaim without the id of its decision")?;
    let args = ["explain", "decision", decision, "--recording", recordings, "-o", "json"];
    let report = tool(cx.world, &args).await?;
    cx.equal(
        "NodeClaim of the decision",
        &report["decision"]["choice"]["nodeClaim"],
        &claim["metadata"]["name"],
    )?;
    cx.equal("what its pod gets", &report["explained"]["state"], &json!("NewNode"))
}
