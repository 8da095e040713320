//! docs/migrate.md as it is written: from Karpenter to the operator and back, with the nodes that are there.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{POD, in_its_place, lead, ours_leads, scale};
use crate::e2e::case::Cx;
use crate::e2e::fleet::{self, Fleet};
use crate::e2e::history::{History, RecordedKind};
use crate::e2e::operator::Operator;

/// A node of the fake cloud takes two seconds; the rest is for a busy instance.
const SERVED: Duration = Duration::from_secs(90);

/// Where the operator leaves annotations and conditions.
const MARKED: [&str; 3] = [
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
];

/// Conditions that Karpenter does not have and that every NodeClaim of the operator gets.
const OWN_CONDITIONS: [&str; 3] = ["DisruptionBlocked", "PodsFit", "InitializedInTime"];

pub(crate) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut history = cx.watch().await?;
    let mut karpenter = in_its_place(cx).await?;
    // 3 of 4 CPUs: one pod per node.
    cx.deploy(4, 3, "3").await?;
    cx.serving(3, SERVED).await?;
    let of_karpenter = names(&cx.stable(SERVED).await?);
    cx.equal("NodeClaims of Karpenter", &of_karpenter.len(), &3)?;

    look(cx).await?;
    quiet(cx).await?;
    there(cx, &mut karpenter).await?;
    cx.launches_as_foreseen(async |cx| scale(cx, 5).await).await?;
    cx.serving(5, SERVED).await?;
    let of_both = names(&cx.stable(SERVED).await?);
    cx.check("Karpenter's NodeClaims are all there", of_karpenter.is_subset(&of_both))?;
    cx.equal("NodeClaims after two more pods", &of_both.len(), &5)?;
    marks(cx, true).await?;

    back(cx, &mut karpenter).await?;
    scale(cx, 6).await?;
    cx.serving(6, SERVED).await?;
    let after = names(&cx.stable(SERVED).await?);
    cx.check("the NodeClaims of both are all there", of_both.is_subset(&after))?;
    cx.equal("NodeClaims after one more pod", &after.len(), &6)?;
    clean(cx).await?;
    nothing_lost(cx, &mut history).await?;
    karpenter.stop().await.map(drop)
}

/// Step 1: the tools see no blocker, and no node that they would replace because of a hash.
async fn look(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let (status, text) = cx.world.fleetwright(&["compat", "-o", "json"]).await?;
    let start = text.find('{').unwrap_or_default();
    let document = text.get(start..).unwrap_or_default();
    let mut documents = serde_json::Deserializer::from_str(document).into_iter::<Value>();
    let report = documents.next().transpose()?.unwrap_or_default();
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    cx.check(format!("compat prints findings (status {status:?}): {text}"), !findings.is_empty())?;
    let severe: Vec<&Value> = findings
        .iter()
        .filter(|finding| finding["severity"] == "blocker" || finding["id"] == "C902")
        .collect();
    cx.check(format!("compat finds nothing in the way: {severe:?}"), severe.is_empty())?;
    for tool in ["plan", "disrupt"] {
        let (status, text) = cx.world.fleetwright(&[tool]).await?;
        cx.check(format!("{tool} answers: {status:?} {text}"), matches!(status, Some(0 | 3)))?;
    }
    Ok(())
}

/// Step 2: closed budgets.
async fn quiet(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let closed = json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}).to_string();
    cx.kubectl(&["patch", "nodepool", &cx.pool(), "--type=merge", "-p", &closed]).await.map(drop)
}

/// Step 3: a rolling update. Both run for a while, and one of them leads.
async fn there(cx: &mut Cx<'_>, karpenter: &mut Operator) -> anyhow::Result<()> {
    cx.world.operator.set(&[("DISABLE_LEADER_ELECTION", "false"), ("HOSTNAME", POD)]);
    cx.world.operator.start()?;
    cx.world.operator.wait_ready().await?;
    karpenter.stop().await?;
    ours_leads(cx).await?;
    // As long as it takes to find drift and empty nodes.
    cx.throughout("no NodeClaim is drifted or deleted", Duration::from_secs(15), async |world| {
        let claims = world.fleet().await?.claims;
        anyhow::ensure!(claims.len() == 3, "{} NodeClaims", claims.len());
        untouched(&claims)
    })
    .await
}

/// Back to Karpenter: nothing under way, then the other controller.
async fn back(cx: &mut Cx<'_>, karpenter: &mut Operator) -> anyhow::Result<()> {
    cx.kubectl(&["annotate", "nodepools", "--all", "fleetwright.dev/delete-protection-"]).await?;
    let claims = cx.world.fleet().await?.claims;
    cx.check("every NodeClaim is launched", claims.iter().all(|claim| fleet::is_true(claim, "Launched")))?;
    karpenter.start()?;
    karpenter.wait_ready().await?;
    cx.world.operator.stop().await?;
    lead(cx, karpenter).await?;
    cx.throughout("no NodeClaim is drifted or deleted", Duration::from_secs(15), async |world| {
        let claims = world.fleet().await?.claims;
        anyhow::ensure!(claims.len() == 5, "{} NodeClaims", claims.len());
        untouched(&claims)
    })
    .await
}

fn untouched(claims: &[Value]) -> anyhow::Result<()> {
    for claim in claims {
        let name = fleet::name(claim);
        anyhow::ensure!(claim["metadata"]["deletionTimestamp"].is_null(), "{name} is being deleted");
        anyhow::ensure!(!fleet::is_true(claim, "Drifted"), "{name} is drifted");
    }
    Ok(())
}

/// What the operator left: listed, then removed, and nothing else with it.
async fn clean(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let (status, text) = cx.world.fleetwright(&["compat", "clean"]).await?;
    cx.check(
        format!("leftovers are listed: {status:?} {text}"),
        text.contains("\n NodeClaim ") && text.contains("batch-id"),
    )?;
    marks(cx, true).await?;
    // An object that Karpenter changes at that moment is named, and the command is repeated.
    let mut said = String::new();
    for _ in 0..5 {
        let (status, text) = cx.world.fleetwright(&["compat", "clean", "--apply", "--all"]).await?;
        said = format!("{status:?} {text}");
        if status == Some(0) {
            break;
        }
    }
    cx.check(format!("they are removed: {said}"), said.starts_with("Some(0)"))?;
    marks(cx, false).await?;
    let (status, text) = cx.world.fleetwright(&["compat", "clean", "-o", "json"]).await?;
    cx.check(format!("nothing is left: {status:?} {text}"), !text.contains("\"object\""))
}

/// Checks whether objects carry what only the operator understands.
async fn marks(cx: &mut Cx<'_>, expected: bool) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for path in MARKED {
        for object in cx.world.list(path).await? {
            let annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            let keys = annotations.keys().filter(|key| key.starts_with("fleetwright.dev/"));
            found.extend(keys.map(|key| format!("{} {key}", fleet::name(&object))));
            let conditions = OWN_CONDITIONS.iter().filter(|kind| fleet::condition(&object, kind).is_some());
            found.extend(conditions.map(|kind| format!("{} {kind}", fleet::name(&object))));
        }
    }
    cx.check(
        format!("marks of the operator: expected {expected}, found {found:?}"),
        found.is_empty() != expected,
    )
}

/// From the first pod to the last, no NodeClaim and no Node was deleted, and nothing drifted.
async fn nothing_lost(cx: &mut Cx<'_>, history: &mut History) -> anyhow::Result<()> {
    let record = history.so_far().await?;
    let fleet: Vec<_> = record.iter().filter(|seen| seen.kind != RecordedKind::Pod).collect();
    let lost: Vec<String> = fleet
        .iter()
        .filter(|seen| seen.gone || !seen.object["metadata"]["deletionTimestamp"].is_null())
        .map(|seen| fleet::name(&seen.object))
        .collect();
    cx.equal("NodeClaims and Nodes that were deleted at any moment", &lost, &Vec::new())?;
    let drifted: Vec<String> = fleet
        .iter()
        .filter(|seen| seen.kind == RecordedKind::NodeClaim && fleet::is_true(&seen.object, "Drifted"))
        .map(|seen| fleet::name(&seen.object))
        .collect();
    cx.equal("NodeClaims that were drifted at any moment", &drifted, &Vec::new())?;
    let claims = fleet.iter().filter(|seen| seen.kind == RecordedKind::NodeClaim);
    let names: BTreeSet<String> = claims.map(|seen| fleet::name(&seen.object)).collect();
    cx.equal("NodeClaims that there ever were", &names.len(), &6)
}

fn names(fleet: &Fleet) -> BTreeSet<String> {
    fleet.claims.iter().map(fleet::name).collect()
}
