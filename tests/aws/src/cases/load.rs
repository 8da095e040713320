//! Calls of a steady hour, counted.

use jiff::SignedDuration;

use super::basics::launched;
use super::consistency::many;
use crate::case::Cx;

/// Nodes of the cluster.
const COUNT: usize = 100;

pub(super) async fn steady(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let claims = many(COUNT);
    let instances = launched(cluster.launch("one", 1, &claims).await)?;
    for (claim, instance) in claims.iter().zip(&instances) {
        cluster.adopt(claim, instance);
    }
    // Instances are named after their nodes a few at a time.
    for _ in 0..30 {
        let before = cx.proxy.mark();
        cluster.round("nodeclaim.tagging").await?;
        cluster.pass(SignedDuration::from_mins(1));
        if cx.proxy.count("CreateTags", before) == 0 {
            break;
        }
    }
    let before = cx.proxy.mark();
    for _ in 0..60 {
        for step in ["nodeclass", "nodeclaim.tagging", "interruption.instancestatus"] {
            cluster.round(step).await?;
        }
        cluster.pass(SignedDuration::from_mins(1));
    }
    let calls = cx.proxy.counts(before);
    let sum: usize = calls.values().sum();
    cx.figures.push(format!("{sum} calls of a steady hour with {COUNT} nodes: {calls:?}"));
    cx.check(format!("{sum} calls of a steady hour with {COUNT} nodes: {calls:?}"), sum <= 900)?;
    cx.equal("changes", &cx.proxy.mutations(before), &Vec::new())
}
