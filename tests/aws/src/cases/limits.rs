//! Token buckets, odd pages, wrong clocks.

use std::collections::BTreeSet;

use fleetwright_aws_emulator::throttle::Buckets;
use fleetwright_core::cloud::{CloudProvider as _, LaunchError, Termination};
use fleetwright_core::model::NodeClaim;
use futures::future::join_all;
use jiff::SignedDuration;

use super::basics::{claims, launched};
use super::consistency::many;
use crate::case::Cx;
use crate::cluster::UID;

pub(super) async fn buckets(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| rules.buckets = Some(Buckets::default()));
    let cluster = cx.ours().await?;
    let before = cx.proxy.mark();
    // One fleet each, as claims of different shapes are: our own bucket is as large as EC2's.
    let batches: Vec<(String, NodeClaim)> =
        many(40).into_iter().map(|claim| (format!("batch-{}", claim.name), claim)).collect();
    let calls = batches.iter().map(|(batch, claim)| cluster.launch(batch, 1, std::slice::from_ref(claim)));
    let answers = join_all(calls).await;
    let good = answers.iter().flatten().filter(|answer| answer.is_ok()).count();
    let errors: BTreeSet<String> = answers
        .iter()
        .flatten()
        .filter_map(|answer| answer.as_ref().err().map(ToString::to_string))
        .collect();
    cx.check(format!("{good} of 40 claims were launched: {errors:?}"), good == 40)?;
    let refused = cx.proxy.calls().into_iter().skip(before).filter(|call| call.status == 503).count();
    cx.equal("calls that EC2 throttled", &refused, &0)?;
    cx.equal("instances", &cx.born_of(UID).await?, &40)
}

pub(super) async fn terminations(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    const COUNT: usize = 120;
    let cluster = cx.ours().await?;
    cx.proxy.rules(|rules| rules.buckets = Some(Buckets::default()));
    let claims = many(COUNT);
    let instances = launched(cluster.launch("one", 1, &claims).await)?;
    let own: Vec<NodeClaim> = claims
        .iter()
        .zip(&instances)
        .map(|(claim, i)| NodeClaim { provider_id: Some(i.provider_id.clone()), ..claim.clone() })
        .collect();
    let before = cx.proxy.mark();
    let ends = own.iter().map(|claim| async {
        match &claim.provider_id {
            Some(id) => cluster.provider.terminate(claim, id).await,
            None => Ok(Termination::Gone),
        }
    });
    let ends = join_all(ends).await;
    let good = ends.iter().filter(|end| **end == Ok(Termination::Accepted)).count();
    cx.equal("instances that end", &good, &COUNT)?;
    let calls = cx.proxy.count("TerminateInstances", before);
    cx.check(format!("{calls} calls for {COUNT} ends"), calls <= 4)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &0)
}

pub(super) async fn odd_pages(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    launched(cluster.launch("one", 1, &many(23)).await)?;
    let whole: BTreeSet<_> = cluster.provider.list().await?.into_iter().map(|own| own.provider_id).collect();
    cx.equal("instances on one page", &whole.len(), &23)?;
    for size in [1, 7, 22, 23, 24] {
        // moto has a reservation for each instance of a fleet, or one for all: pages are of those.
        cx.proxy.rules(|rules| rules.pages = [("DescribeInstances", size), ("DescribeSubnets", size)].into());
        let paged: BTreeSet<_> =
            cluster.provider.list().await?.into_iter().map(|own| own.provider_id).collect();
        cx.check(format!("instances on pages of {size}"), paged == whole)?;
        let subnets = cluster.api.subnets(&[]).await?;
        let ids: BTreeSet<_> = subnets.iter().map(|subnet| subnet.id.clone()).collect();
        cx.check(
            format!("{} subnets on pages of {size}", ids.len()),
            ids.len() == subnets.len() && ids.len() >= 3,
        )?;
    }
    Ok(())
}

pub(super) async fn skew(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    launched(cluster.launch("one", 1, &claims(&["a"])).await)?;
    cx.proxy.rules(|rules| rules.skew = SignedDuration::from_mins(16));
    let refused = cluster.launch("two", 1, &claims(&["b"])).await;
    cx.check(
        format!("nothing is launched: {refused:?}"),
        matches!(&refused[0], Err(LaunchError::Unknown(_))),
    )?;
    cluster.pass(SignedDuration::from_mins(20));
    let round = cluster.round("nodeclass").await?;
    let told: Vec<&str> = round.notices.iter().map(|notice| &*notice.message).collect();
    cx.check(format!("the clock is named: {told:?}"), told.iter().any(|text| text.contains("clock")))?;
    // Four minutes are within what AWS accepts.
    cx.proxy.rules(|rules| rules.skew = SignedDuration::from_mins(4));
    cluster.pass(SignedDuration::from_mins(20));
    cluster.ready().await?;
    launched(cluster.launch("two", 1, &claims(&["b"])).await)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &2)
}
