//! What both show of the same work in the same run: metric families, event reasons and log messages.
//!
//! Karpenter first, then the operator: scale-up, a pod that no instance type fits, nodes that become empty. What Karpenter shows and the
//! operator does not, or otherwise, is in `tests/e2e/karpenter/differences.tsv` with a reason; `--bless` records it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;

use super::{POD, in_its_place, ours_leads, scale};
use crate::e2e::case::Cx;
use crate::e2e::manifests;
use crate::e2e::operator::Operator;

use observed::{Difference, Observed};

mod observed;

const SERVED: Duration = Duration::from_secs(90);
/// Karpenter looks for empty nodes every 10 s, and validates after another 15 s.
const EMPTIED: Duration = Duration::from_secs(120);

const RECORD: &str = "tests/e2e/karpenter/differences.tsv";

pub(crate) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut karpenter = in_its_place(cx).await?;
    work(cx).await?;
    let theirs = observe(cx, &karpenter).await?;
    end(cx).await?;
    karpenter.stop().await?;

    cx.world.operator.set(&[("DISABLE_LEADER_ELECTION", "false"), ("HOSTNAME", POD)]);
    cx.world.operator.start()?;
    ours_leads(cx).await?;
    cx.world.operator.wait_ready().await?;
    work(cx).await?;
    let ours = observe(cx, &cx.world.operator).await?;
    let version = cx.world.get("/version").await?.unwrap_or_default();
    compare(cx, &theirs, &ours, version["gitVersion"].as_str().unwrap_or_default())
}

/// The work that both do.
async fn work(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    // 3 of 4 CPUs: one pod per node.
    cx.deploy(4, 3, "3").await?;
    cx.apply(&manifests::pod(&cx.namespace(), "huge", &cx.pool(), "3000")).await?;
    cx.eventually("three pods serve", SERVED, async |world| {
        let nodes = world.fleet().await?.nodes;
        let ready = nodes.iter().filter(|node| crate::e2e::fleet::is_true(node, "Ready")).count();
        anyhow::ensure!(ready == 3, "{ready} nodes are ready");
        Ok(())
    })
    .await?;
    cx.eventually("the pod that fits nowhere gets its event", SERVED, async |world| {
        let events = world.events("Pod", "huge").await?;
        let said = events.iter().any(|event| {
            event["reason"] == "FailedScheduling" && event["source"]["component"] == "karpenter"
        });
        anyhow::ensure!(said, "{} events", events.len());
        Ok(())
    })
    .await?;
    scale(cx, 1).await?;
    cx.eventually("two nodes are empty, and deleted", EMPTIED, async |world| {
        let fleet = world.fleet().await?;
        anyhow::ensure!(fleet.nodes.len() == 1 && fleet.claims.len() == 1, "{} nodes", fleet.nodes.len());
        // The last of what is written about a NodeClaim. A Node may have one of its own.
        let events = world.list("/api/v1/events").await?;
        let finalized = events.iter().filter(|event| event["reason"] == "Finalized").count();
        anyhow::ensure!(finalized >= 2, "{finalized} objects are finalized");
        Ok(())
    })
    .await
}

/// Everything that the work made is deleted, events with it, so that the next controller begins with nothing.
async fn end(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let namespace = cx.namespace();
    let inside =
        ["delete", "deployments,pods", "--all", "--grace-period=0", "--wait=false", "-n", &namespace];
    cx.kubectl(&inside).await?;
    cx.kubectl(&["delete", "nodepools,nodeclaims", "--all", "--wait=false"]).await?;
    cx.emptied(EMPTIED).await?;
    cx.kubectl(&["delete", "events", "--all", "-A"]).await.map(drop)
}

async fn observe(cx: &Cx<'_>, controller: &Operator) -> anyhow::Result<Observed> {
    let events = cx.world.list("/api/v1/events").await?;
    Ok(Observed::new(&controller.metrics().await?, &events, &controller.log()?))
}

/// Checks that every difference is a recorded one with a reason, or records them.
fn compare(cx: &mut Cx<'_>, theirs: &Observed, ours: &Observed, kubernetes: &str) -> anyhow::Result<()> {
    let sizes = theirs.sizes();
    cx.check(
        format!("Karpenter shows what the reference knows: {sizes:?}"),
        sizes[0] >= 60 && sizes[1] >= 8 && sizes[2] >= 8,
    )?;
    let found = theirs.differences(ours);
    let path = cx.world.root.join(RECORD);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let known = recorded(&text);
    if cx.bless {
        let text = record(&found, &known, (sizes, kubernetes));
        std::fs::write(&path, text)?;
    }
    let new: Vec<&Difference> = found
        .iter()
        .filter(|found| known.get(&found.item).is_none_or(|(what, _)| *what != found.what))
        .collect();
    cx.check(format!("{} differences are new: {new:#?}", new.len()), cx.bless || new.is_empty())?;
    let unexplained: Vec<&str> =
        known.iter().filter(|(_, (_, why))| why.is_empty()).map(|(item, _)| item.as_str()).collect();
    cx.check(format!("every difference has a reason; without: {unexplained:?}"), unexplained.is_empty())
}

/// What differs and why, by item.
fn recorded(text: &str) -> BTreeMap<String, (String, String)> {
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.filter_map(|row| {
        let mut columns = row.split('\t').map(str::to_owned);
        Some((columns.next()?, (columns.next()?, columns.next().unwrap_or_default())))
    })
    .collect()
}

#[expect(clippy::disallowed_methods, reason = "a record has the date on which it was made")]
fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

fn record(
    found: &BTreeSet<Difference>,
    known: &BTreeMap<String, (String, String)>,
    (sizes, kubernetes): ([usize; 3], &str),
) -> String {
    let [families, reasons, messages] = sizes;
    let today = today();
    let mut text = format!(
        "# What Karpenter v1.14.1 (kwok provider) shows and Fleetwright does not show alike, for the same work in the same run.\n\
         # Recorded by `cargo xtask e2e --tier karpenter --bless karpenter-contract` on {today}, Kubernetes {kubernetes}.\n\
         # Compared: {families} metric families, {reasons} events, {messages} log messages.\n\
         # Columns: item, difference, reason; separated by tabs.\n"
    );
    for Difference { item, what } in found {
        let why = known.get(item).map_or("", |(_, why)| why);
        text.push_str(&format!("{item}\t{what}\t{why}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_survive_a_new_record() {
        let known = recorded("# a\nmetric a\tis missing\tGo only\nmetric b\tis missing\t\n");
        assert_eq!(known["metric a"], ("is missing".to_owned(), "Go only".to_owned()));
        let found = [Difference { item: "metric a".into(), what: "is a gauge".into() }];
        let text = record(&found.into_iter().collect(), &known, ([1, 2, 3], "v1.35.4"));
        assert!(text.ends_with("metric a\tis a gauge\tGo only\n"), "{text}");
        assert!(text.contains("Compared: 1 metric families, 2 events, 3 log messages."), "{text}");
    }

    #[test]
    fn every_recorded_difference_has_a_reason() {
        let known = recorded(include_str!("../../../../e2e/karpenter/differences.tsv"));
        let without: Vec<_> = known.iter().filter(|(_, (_, why))| why.is_empty()).collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
