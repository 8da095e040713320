//! What `plan` and `disrupt` say of a cluster, and what the controller launches and disrupts there.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde_json::Value;

use super::fleet::{condition, name};
use super::history::{RecordedKind, Seen};
use super::world::LaneWorld;

/// Succeeds once `count` pods of a namespace exist, of which kube-scheduler has found no node for any: what `plan` and the controller count.
pub(crate) async fn unschedulable(world: &LaneWorld, namespace: &str, count: usize) -> anyhow::Result<()> {
    let pods = world.pods(namespace).await?;
    let tried = |pod: &&Value| {
        condition(pod, "PodScheduled").is_some_and(|condition| condition["reason"] == "Unschedulable")
    };
    let tried = pods.iter().filter(tried).count();
    anyhow::ensure!(
        pods.len() == count && tried == count,
        "{tried} unschedulable ones of {} pods",
        pods.len()
    );
    Ok(())
}

/// A NodeClaim by its NodePool, what is launched, and its pods.
pub(crate) type Foreseen = (String, String, String, Vec<String>);

pub(crate) fn sorted(mut all: Vec<Foreseen>) -> Vec<Foreseen> {
    all.sort();
    all
}

/// The NodeClaims of a plan, sorted.
pub(crate) fn planned(plan: &Value) -> anyhow::Result<Vec<Foreseen>> {
    let claims = plan["nodeClaims"].as_array().context("a plan without NodeClaims")?;
    let claim = |claim: &Value| {
        let offering = &claim["offering"];
        Some((
            claim["nodePool"].as_str()?.to_owned(),
            offering["instanceType"].as_str()?.to_owned(),
            offering["zone"].as_str()?.to_owned(),
            names(claim["pods"].as_array()?.iter().filter_map(Value::as_str)),
        ))
    };
    let found = claims.iter().map(|found| claim(found).with_context(|| format!("incomplete: {found}")));
    found.collect::<anyhow::Result<_>>().map(sorted)
}

/// A NodeClaim that was launched.
pub(crate) fn launched_for(claim: &Value) -> anyhow::Result<Foreseen> {
    let label = |key: &str| claim["metadata"]["labels"][key].as_str().map(str::to_owned);
    let pods = claim["metadata"]["annotations"]["fleetwright.dev/nominated-pods"].as_str();
    let found = || {
        let pods = pods?.split(',').filter_map(|pod| Some(pod.rsplit_once(':')?.0));
        Some((
            label("karpenter.sh/nodepool")?,
            label("node.kubernetes.io/instance-type")?,
            label("topology.kubernetes.io/zone")?,
            names(pods),
        ))
    };
    found().with_context(|| format!("incomplete: {claim}"))
}

/// A NodeClaim whose node goes first, and the reason of the command.
pub(crate) type ForeseenDisruption = (String, String);

/// The NodeClaims that the commands of a disruption report take.
pub(crate) fn disrupted(report: &Value) -> anyhow::Result<BTreeSet<ForeseenDisruption>> {
    let rows = report["nodes"].as_array().context("a report without nodes")?;
    let mut found = BTreeSet::new();
    for command in report["commands"].as_array().context("a report without commands")? {
        let reason = command["reason"].as_str().context("a command without a reason")?;
        for node in command["nodes"].as_array().context("a command without nodes")? {
            let row = rows.iter().find(|row| row["node"] == *node).context("a node without a row")?;
            found.insert((row["nodeClaim"].as_str().unwrap_or_default().to_owned(), reason.to_owned()));
        }
    }
    Ok(found)
}

/// The `count` NodeClaims whose disruption began first.
pub(crate) fn disrupted_first(record: &[Seen], count: usize) -> BTreeSet<ForeseenDisruption> {
    let mut found = BTreeSet::new();
    for seen in record.iter().filter(|seen| seen.kind == RecordedKind::NodeClaim) {
        let reason = condition(&seen.object, "DisruptionReason").filter(|found| found["status"] == "True");
        let Some(reason) = reason.and_then(|found| found["reason"].as_str()) else { continue };
        if found.len() < count {
            found.insert((name(&seen.object), reason.to_owned()));
        }
    }
    found
}

fn names<'a>(pods: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = pods.map(str::to_owned).collect();
    names.sort();
    names
}

/// What a tool writes to the standard output, as JSON.
pub(crate) async fn tool(world: &LaneWorld, args: &[&str]) -> anyhow::Result<Value> {
    let (status, text) = world.fleetwright(args).await?;
    anyhow::ensure!(status == Some(0), "{} ends with {status:?}: {text}", args.join(" "));
    let end = text.rfind('}').map_or(text.len(), |end| end + 1);
    serde_json::from_str(&text[..end]).with_context(|| format!("{} writes {text}", args.join(" ")))
}
