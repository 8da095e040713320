//! Load: a thousand nodes up and down under throttling and shortage, and a steady hour, with the calls counted.

use std::collections::BTreeSet;

use fleetwright_aws_emulator::throttle::Buckets;
use fleetwright_core::clock::Clock as _;
use fleetwright_core::cloud::{CloudProvider as _, Instance};
use fleetwright_core::model::NodeClaim;
use futures::StreamExt as _;
use jiff::SignedDuration;

use super::consistency::many;
use crate::case::Cx;
use crate::cluster::{Cluster, UID};

const COUNT: usize = 1000;
/// Instances that other tools of the account have just launched: EC2's bucket of 1,000, which gets two a second, has too few tokens for ours.
const OTHERS: u32 = 600;
/// NodeClaims of one batch.
const BATCH: usize = 100;
/// Most attempts of a batch.
const ATTEMPTS: u32 = 40;

pub(super) async fn thousand(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let now = cx.proxy.clock.now();
    cx.proxy.rules(|rules| {
        rules.buckets = Some(Buckets::default().after_launches_of_others(OTHERS, now));
        // Of the cheaper type there is not enough.
        let pools = ["us-west-2a", "us-west-2b"]
            .map(|zone| (("m5.large".to_owned(), zone.to_owned(), "on-demand".to_owned()), 150));
        rules.supply.pools = pools.into();
    });
    let before = cx.proxy.mark();
    let claims = many(COUNT);
    let mut placed: Vec<(NodeClaim, Instance)> = Vec::new();
    for (number, batch) in claims.chunks(BATCH).enumerate() {
        let (mut left, mut attempt, mut errors) = (batch.to_vec(), 1, BTreeSet::new());
        while !left.is_empty() {
            anyhow::ensure!(
                attempt <= ATTEMPTS,
                "{} claims of batch {number} are left: {errors:?}",
                left.len()
            );
            let answers = cluster.launch(&format!("batch-{number}"), attempt, &left).await;
            let mut missing = Vec::new();
            for (claim, answer) in left.into_iter().zip(answers) {
                match answer {
                    Ok(instance) => placed.push((claim, instance)),
                    Err(error) => {
                        errors.insert(error.to_string());
                        missing.push(claim);
                    }
                }
            }
            (left, attempt) = (missing, attempt + 1);
            cluster.pass(SignedDuration::from_secs(20));
        }
    }
    cx.equal("instances", &cx.born_of(UID).await?, &COUNT)?;
    let distinct: BTreeSet<_> = placed.iter().map(|(_, instance)| instance.provider_id.clone()).collect();
    cx.equal("claims with an instance of their own", &distinct.len(), &COUNT)?;
    was_throttled(cx)?;
    let up = cx.proxy.counts(before);
    let calls: usize = up.values().sum();
    cx.figures.push(format!("{calls} calls for {COUNT} launches: {up:?}"));
    cx.check(format!("{calls} calls for {COUNT} launches: {up:?}"), calls <= COUNT * 11 / 10 + 60)?;
    steady_hour(cx, &mut cluster, &placed).await?;
    all_end(cx, &cluster, placed).await
}

/// Checks that EC2's token buckets ran out, by the emulator's count.
pub(super) fn was_throttled(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let throttles = cx.proxy.rules(|rules| rules.throttles.clone());
    let text = format!("throttled calls, and instances of fleets: {throttles:?}");
    cx.figures.push(text.clone());
    cx.check(text, throttles.values().sum::<u32>() > 0)
}

async fn all_end(
    cx: &mut Cx<'_>,
    cluster: &Cluster,
    mut left: Vec<(NodeClaim, Instance)>,
) -> anyhow::Result<()> {
    let before = cx.proxy.mark();
    for _ in 0..ATTEMPTS {
        let ends = futures::stream::iter(
            left.iter().map(|(claim, instance)| cluster.provider.terminate(claim, &instance.provider_id)),
        );
        let ends: Vec<_> = ends.buffered(COUNT).collect().await;
        let again = left.iter().zip(&ends).filter(|(_, end)| end.is_err()).map(|(own, _)| own.clone());
        left = again.collect();
        if left.is_empty() {
            break;
        }
        cluster.pass(SignedDuration::from_secs(20));
    }
    cx.equal("claims that did not end", &left.len(), &0)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &0)?;
    let down = cx.proxy.counts(before);
    let calls: usize = down.values().sum();
    cx.figures.push(format!("{calls} calls for {COUNT} ends: {down:?}"));
    cx.check(format!("{calls} calls for {COUNT} ends: {down:?}"), calls <= COUNT / 10)
}

pub(super) async fn steady(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let claims = many(BATCH);
    let instances = super::basics::launched(cluster.launch("one", 1, &claims).await)?;
    let nodes: Vec<_> = claims.into_iter().zip(instances).collect();
    steady_hour(cx, &mut cluster, &nodes).await
}

/// Counts the calls of an hour in which nothing changes, once all instances are named after their nodes.
async fn steady_hour(
    cx: &mut Cx<'_>,
    cluster: &mut Cluster,
    nodes: &[(NodeClaim, Instance)],
) -> anyhow::Result<()> {
    for (claim, instance) in nodes {
        cluster.adopt(claim, instance);
    }
    // Instances are named a few at a time.
    for _ in 0..nodes.len() {
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
    let text = format!("{sum} calls of a steady hour with {} nodes: {calls:?}", nodes.len());
    cx.figures.push(text.clone());
    cx.check(text, sum <= 900)?;
    cx.equal("changes", &cx.proxy.mutations(before), &Vec::new())
}
