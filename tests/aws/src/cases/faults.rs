//! Faults: no capacity, throttling, lost answers, restarted processes, expired credentials.

use std::time::Duration;

use anyhow::Context as _;
use fleetwright_aws_emulator::capacity::Dry;
use fleetwright_core::cloud::LaunchError;
use fleetwright_core::model::labels::ON_DEMAND;
use jiff::SignedDuration;

use super::basics::{claims, launched};
use crate::case::Cx;
use crate::cluster::{Cluster, Seat, UID};

/// Whether an offering on demand is to be had.
async fn available(cluster: &Cluster, name: &str, zone: &str) -> anyhow::Result<bool> {
    let catalog = cluster.catalog().await?;
    let instance_type = catalog.get(name).with_context(|| format!("no {name}"))?;
    let own = instance_type.offerings.iter().find(|offering| {
        offering.capacity_type().is_some_and(|own| &**own == ON_DEMAND)
            && offering.zone().is_some_and(|own| &**own == zone)
    });
    Ok(own.context("no such offering")?.available)
}

pub(super) async fn capacity(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    let dry = |instance_type, zone| Dry { instance_type: Some(instance_type), zone, capacity_type: None };
    cx.proxy.rules(|rules| {
        rules.supply.dry = vec![dry("m5.large", Some("us-west-2a")), dry("m5.large", Some("us-west-2b"))]
    });
    let instances = launched(cluster.launch("one", 1, &claims(&["a"])).await)?;
    let kind = instances[0].labels.get("node.kubernetes.io/instance-type").map(|it| &**it);
    cx.equal("what is launched where the cheapest has run dry", &kind, &Some("m5.xlarge"))?;
    for zone in ["us-west-2a", "us-west-2b"] {
        cx.check(
            format!("m5.large in {zone} is not to be had"),
            !available(&cluster, "m5.large", zone).await?,
        )?;
        cx.check(format!("m5.xlarge in {zone} is"), available(&cluster, "m5.xlarge", zone).await?)?;
    }

    cx.proxy.rules(|rules| rules.supply.dry = vec![Dry::default()]);
    let before = cx.proxy.mark();
    let refused = cluster.launch("two", 1, &claims(&["b", "c"])).await;
    let typed = refused.iter().all(|answer| matches!(answer, Err(LaunchError::InsufficientCapacity(_))));
    cx.check(format!("no capacity is told by its type: {refused:?}"), typed)?;
    cx.equal("fleets that were tried", &cx.proxy.count("CreateFleet", before), &1)?;
    cx.equal("instances", &cx.born_of(UID).await?, &1)?;

    // What is known to have run dry is not asked for again, and nothing is left.
    let known = cx.proxy.mark();
    let refused = cluster.launch("three", 1, &claims(&["d"])).await;
    cx.check("no capacity, again", matches!(refused[0], Err(LaunchError::InsufficientCapacity(_))))?;
    cx.equal("fleets for what is known", &cx.proxy.count("CreateFleet", known), &0)?;

    cx.proxy.rules(|rules| rules.supply.dry.clear());
    cluster.pass(SignedDuration::from_mins(4));
    cx.check("it is to be had again after a while", available(&cluster, "m5.large", "us-west-2a").await?)?;
    launched(cluster.launch("four", 1, &claims(&["e"])).await)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &2)
}

pub(super) async fn throttling(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    cx.proxy.rules(|rules| rules.throttled = [("CreateFleet", 2)].into());
    let before = cx.proxy.mark();
    launched(cluster.launch("one", 1, &claims(&["a"])).await)?;
    cx.equal("calls until one passes", &cx.proxy.count("CreateFleet", before), &3)?;

    cx.proxy.rules(|rules| rules.throttled = [("CreateFleet", 1000)].into());
    let before = cx.proxy.mark();
    let refused = cluster.launch("two", 1, &claims(&["b", "c"])).await;
    let waits: Vec<Duration> = refused
        .iter()
        .filter_map(|answer| match answer {
            Err(LaunchError::RateLimited { after }) => Some(*after),
            _ => None,
        })
        .collect();
    cx.check(format!("both are told when to come again: {refused:?}"), waits.len() == 2)?;
    cx.check(format!("at different times: {waits:?}"), waits[0] != waits[1])?;
    let calls = cx.proxy.count("CreateFleet", before);
    cx.check(format!("{calls} calls before it is given up"), (2..=5).contains(&calls))?;

    cx.proxy.rules(|rules| rules.throttled.clear());
    launched(cluster.launch("two", 1, &claims(&["b", "c"])).await)?;
    cx.equal("instances", &cx.born_of(UID).await?, &3)?;

    // Of all calls every second one: a controller that starts, and launches.
    cx.proxy.rules(|rules| rules.throttled = [("*", 1)].into());
    let mut cluster = cluster.restarted().await?;
    cluster.edit(|class| class.spec.detailed_monitoring = Some(true))?;
    cluster.ready().await?;
    launched(cluster.launch("three", 1, &claims(&["d"])).await)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &4)
}

pub(super) async fn lost(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    cx.proxy.rules(|rules| rules.lost = [("CreateFleet", 1)].into());
    let before = cx.proxy.mark();
    launched(cluster.launch("one", 1, &claims(&["a"])).await)?;
    cx.equal("calls, the second with the token of the first", &cx.proxy.count("CreateFleet", before), &2)?;
    cx.equal("instances", &cx.born_of(UID).await?, &1)?;

    // The answer is lost permanently: the launch is repeated later, as the lifecycle does.
    cx.proxy.rules(|rules| rules.lost = [("CreateFleet", 1000)].into());
    let answers = cluster.launch("two", 1, &claims(&["b", "c"])).await;
    let unknown = answers.iter().all(|answer| matches!(answer, Err(LaunchError::Unknown(_))));
    cx.check(format!("it is not known what came of it: {answers:?}"), unknown)?;
    cx.equal("instances that were launched all the same", &cx.born_of(UID).await?, &3)?;
    cx.proxy.rules(|rules| rules.lost.clear());
    let again = cx.proxy.mark();
    let found = launched(cluster.launch("two", 1, &claims(&["b", "c"])).await)?;
    cx.equal("fleets of the repetition, with the old token", &cx.proxy.count("CreateFleet", again), &1)?;
    cx.check("each claim has an instance of its own", found[0].provider_id != found[1].provider_id)?;
    let told: Vec<Option<&str>> = found.iter().map(|instance| instance.claim.as_deref()).collect();
    cx.equal("the claims that they are told", &told, &vec![Some("b"), Some("c")])?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &3)?;

    // Another attempt of the same batch is another launch.
    launched(cluster.launch("two", 2, &claims(&["d"])).await)?;
    cx.equal("instances after another attempt", &cx.born_of(UID).await?, &4)
}

pub(super) async fn restart(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let claims = claims(&["a", "b", "c"]);
    let before = launched(cluster.launch("batch", 1, &claims).await)?;
    // One claim has the result of its instance; the process ends before the others have theirs.
    cluster.adopt(&claims[0], &before[0]);
    let cluster = cluster.restarted().await?;
    let mark = cx.proxy.mark();
    let after = launched(cluster.launch("batch", 1, &claims).await)?;
    let ids = |all: &[fleetwright_core::cloud::Instance]| {
        all.iter().map(|instance| instance.provider_id.clone()).collect::<Vec<_>>()
    };
    cx.equal("who has which instance", &ids(&after), &ids(&before))?;
    cx.equal("fleets", &cx.proxy.count("CreateFleet", mark), &0)?;
    cx.equal("instances", &cx.born_of(UID).await?, &3)
}

pub(super) async fn credentials(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    let good = cluster.class()?.status.context("no status")?;
    cx.proxy.rules(|rules| rules.expired = ["OURS".to_owned()].into());
    let refused = cluster.launch("one", 1, &claims(&["a"])).await;
    // Without credentials it is unknown whether anything was launched, so the attempt stays open.
    let told = matches!(&refused[0], Err(LaunchError::Unknown(why)) if why.contains("credentials"));
    cx.check(format!("the launch says why: {refused:?}"), told)?;
    let before = cx.proxy.mark();
    cluster.pass(SignedDuration::from_mins(20));
    let round = cluster.round("nodeclass").await?;
    let told: Vec<&str> = round.notices.iter().map(|notice| &*notice.message).collect();
    cx.check(
        format!("people hear of the credentials: {told:?}"),
        told.iter().any(|text| text.contains("credentials")),
    )?;
    cx.check(format!("and of no policy: {told:?}"), !told.iter().any(|text| text.contains("statement")))?;
    let status = cluster.class()?.status.context("the status is lost")?;
    cx.equal("images", &status.amis, &good.amis)?;
    cx.equal("subnets", &status.subnets, &good.subnets)?;
    cx.equal("the instance profile", &status.instance_profile, &good.instance_profile)?;
    let calls = cx.proxy.mark() - before;
    cx.check(
        format!("{calls} calls in vain: a token that is over is not tried again and again"),
        calls < 30,
    )?;
    let started = Cluster::start(&cx.proxy.url, Seat::ours(&cx.authority)).await.err();
    let why = started.map(|error| format!("{error:#}")).unwrap_or_default();
    cx.check(format!("a new process says why it does not start: {why:?}"), why.contains("not authorized"))?;

    cx.proxy.rules(|rules| rules.expired.clear());
    cluster.pass(SignedDuration::from_mins(20));
    cluster.ready().await?;
    launched(cluster.launch("one", 1, &claims(&["a"])).await)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &1)
}

pub(super) async fn denied(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut cluster = cx.ours().await?;
    cx.proxy.rules(|rules| rules.denied = ["GetProducts", "CreateTags"].into());
    let round = cluster.round("providers.pricing").await?;
    let told: Vec<&str> = round.notices.iter().map(|notice| &*notice.message).collect();
    cx.check(
        format!("the statement is named: {told:?}"),
        told.iter().any(|text| text.contains("AllowPricingReadActions")),
    )?;
    let off = cluster.provider.features_off();
    cx.check(format!("what stands still is known: {off:?}"), off.contains_key("pricing:GetProducts"))?;
    launched(cluster.launch("one", 1, &claims(&["a", "b"])).await)?;
    cx.equal("instances, whatever is off", &cx.born_of(UID).await?, &2)?;
    cx.proxy.rules(|rules| rules.denied = ["CreateFleet"].into());
    let refused = cluster.launch("two", 1, &claims(&["c"])).await;
    let told = matches!(&refused[0], Err(LaunchError::Unknown(why)) if why.contains("not authorized"));
    cx.check(format!("a launch that is not allowed says so: {refused:?}"), told)?;
    // What the process before this one may have launched is shown by now.
    cluster.pass(SignedDuration::from_mins(3));
    let refused = cluster.launch("two", 1, &claims(&["c"])).await;
    let told = matches!(&refused[0], Err(LaunchError::Failed { reason, .. }) if &**reason == "Unauthorized");
    cx.check(format!("and then it is a failure: {refused:?}"), told)?;
    // A dry run finds it before anything is launched.
    cluster.edit(|class| class.spec.detailed_monitoring = Some(true))?;
    for _ in 0..3 {
        cluster.round("nodeclass").await?;
        cluster.pass(SignedDuration::from_secs(6));
    }
    let found = cluster.condition("ValidationSucceeded");
    cx.equal("the dry run", &found, &"False CreateFleetAuthCheckFailed".to_owned())?;
    cx.proxy.rules(|rules| rules.denied.clear());
    cluster.pass(SignedDuration::from_mins(2));
    cluster.ready().await
}
