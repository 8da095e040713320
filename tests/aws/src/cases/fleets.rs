//! Fleets that EC2 fulfils in part, with errors of several kinds, and tokens.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::cloud::{Instance, LaunchError};
use fleetwright_core::model::labels::{INSTANCE_TYPE, ON_DEMAND, SPOT};
use fleetwright_core::model::{NodeClaim, Requirement};
use jiff::SignedDuration;

use super::basics::launched;
use super::consistency::{many, names};
use crate::case::Cx;
use crate::cluster::{Cluster, UID, claim};

const ZONES: [&str; 2] = ["us-west-2a", "us-west-2b"];

/// Limits pools of a market: type and instances left, in each zone with a subnet.
fn pools(cx: &Cx<'_>, market: &str, all: &[(&str, u32)]) {
    let zones = |(name, left): &(&str, u32)| {
        let name = (*name).to_owned();
        let left = *left;
        ZONES.map(|zone| ((name.clone(), zone.to_owned(), market.to_owned()), left))
    };
    cx.proxy.rules(|rules| rules.supply.pools = all.iter().flat_map(zones).collect());
}

/// Instances by type.
async fn types(cx: &Cx<'_>) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut found = BTreeMap::new();
    for instance in cx.account.instances().await?.into_values() {
        *found.entry(instance.instance_type).or_default() += 1;
    }
    Ok(found)
}

/// Claims of spot capacity.
fn spot(count: usize) -> Vec<NodeClaim> {
    let requirements: [(&str, &[&str]); 2] =
        [(INSTANCE_TYPE, &["m5.large", "m5.xlarge"]), ("karpenter.sh/capacity-type", &[SPOT])];
    names(count).iter().map(|name| claim(name, &requirements)).collect()
}

/// How many claims were launched, and the errors of the others.
fn divided(answers: &[Result<Instance, LaunchError>]) -> (usize, Vec<String>) {
    let errors = answers.iter().filter_map(|answer| answer.as_ref().err());
    (answers.iter().filter(|answer| answer.is_ok()).count(), errors.map(ToString::to_string).collect())
}

pub(super) async fn partial(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    pools(cx, ON_DEMAND, &[("m5.large", 3), ("m5.xlarge", 1)]);
    let answers = cluster.launch("one", 1, &many(10)).await;
    let (count, errors) = divided(&answers);
    cx.equal("claims that were launched: all that there was", &count, &8)?;
    cx.equal(
        "instances by type",
        &types(cx).await?,
        &[("m5.large".to_owned(), 6), ("m5.xlarge".to_owned(), 2)].into(),
    )?;
    let typed = answers.iter().filter(|one| matches!(one, Err(LaunchError::InsufficientCapacity(_)))).count();
    cx.check(format!("the others have no capacity: {errors:?}"), typed == 2)?;
    // The same attempt gives the same answer, without another call.
    let before = cx.proxy.mark();
    let again = divided(&cluster.launch("one", 1, &many(10)).await).0;
    cx.equal("launched by a repetition", &again, &8)?;
    cx.equal("fleets of the repetition", &cx.proxy.count("CreateFleet", before), &0)?;
    cx.equal("instances", &cx.born_of(UID).await?, &8)
}

pub(super) async fn mixed(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    pools(cx, ON_DEMAND, &[("m5.large", 1)]);
    // Two m5.large, then three m5.xlarge of four vCPUs each.
    cx.proxy.rules(|rules| rules.supply.vcpus = [(ON_DEMAND.to_owned(), 16)].into());
    let answers = cluster.launch("one", 1, &many(8)).await;
    let (count, errors) = divided(&answers);
    cx.equal("claims that were launched", &count, &5)?;
    cx.check(
        format!("both kinds of errors are told: {errors:?}"),
        errors.iter().all(|e| e.contains("VcpuLimitExceeded") && e.contains("InsufficientInstanceCapacity")),
    )?;
    cx.equal("instances", &cx.born_of(UID).await?, &5)
}

pub(super) async fn throttled(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    let buckets = || {
        let mut buckets = fleetwright_aws_emulator::throttle::Buckets::default();
        let now = fleetwright_core::clock::Clock::now(&*cx.proxy.clock);
        buckets.launches(996, now);
        buckets
    };
    let buckets = buckets();
    cx.proxy.rules(|rules| rules.buckets = Some(buckets));
    let answers = cluster.launch("one", 1, &many(10)).await;
    let (count, errors) = divided(&answers);
    cx.check(format!("{count} of 10 were launched"), (4..10).contains(&count))?;
    cx.check(
        format!("the others are throttled: {errors:?}"),
        errors.iter().all(|error| error.contains("RequestLimitExceeded")),
    )?;
    // The rest is the next attempt's, as one fleet.
    cluster.pass(SignedDuration::from_secs(30));
    let left: Vec<NodeClaim> = many(10)
        .into_iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.is_err())
        .map(|(claim, _)| claim)
        .collect();
    let before = cx.proxy.mark();
    launched(cluster.launch("one", 2, &left).await)?;
    cx.equal("fleets of the next attempt", &cx.proxy.count("CreateFleet", before), &1)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &10)
}

pub(super) async fn spot_quota(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    cx.proxy.rules(|rules| rules.supply.vcpus = [(SPOT.to_owned(), 0)].into());
    let answers = cluster.launch("one", 1, &spot(2)).await;
    let told = answers
        .iter()
        .all(|one| matches!(one, Err(LaunchError::InsufficientCapacity(why)) if why.contains("MaxSpotInstanceCountExceeded")));
    cx.check(format!("the quota is told: {answers:?}"), told)?;
    let known = cx.proxy.mark();
    let answers = cluster.launch("two", 1, &spot(1)).await;
    cx.check("and remembered", matches!(answers[0], Err(LaunchError::InsufficientCapacity(_))))?;
    cx.equal("fleets for what is known", &cx.proxy.count("CreateFleet", known), &0)?;
    launched(cluster.launch("three", 1, &many(1)).await)?;
    cx.equal("instances on demand", &cx.born_of(UID).await?, &1)
}

pub(super) async fn spot_pools(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    pools(cx, SPOT, &[("m5.large", 1)]);
    let instances = launched(cluster.launch("one", 1, &spot(4)).await)?;
    cx.equal("instances", &instances.len(), &4)?;
    let kinds: BTreeSet<&str> = instances
        .iter()
        .filter_map(|own| own.labels.get("karpenter.sh/capacity-type").map(|it| &**it))
        .collect();
    cx.equal("what they cost by", &kinds, &[SPOT].into())?;
    cx.equal("types: those with room for all", &types(cx).await?, &[("m5.xlarge".to_owned(), 4)].into())
}

pub(super) async fn unsold(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    let all = ZONES.map(|zone| ("m5.large".to_owned(), zone.to_owned()));
    cx.proxy.rules(|rules| rules.supply.unsold = all.into());
    launched(cluster.launch("one", 1, &many(1)).await)?;
    cx.equal("what is launched", &types(cx).await?, &[("m5.xlarge".to_owned(), 1)].into())?;
    let only: Vec<NodeClaim> = many(1)
        .into_iter()
        .map(|mut claim| {
            claim.requirements.replace(Requirement::is_in(INSTANCE_TYPE, ["m5.large"]));
            claim
        })
        .collect();
    let answers = cluster.launch("two", 1, &only).await;
    cx.check(format!("a type that no zone has is not launched: {answers:?}"), answers[0].is_err())
}

pub(super) async fn addresses(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    let subnets = cx.account.subnets().await?;
    let full = subnets["us-west-2a"].clone();
    cx.proxy.rules(|rules| rules.supply.full_subnets = [full].into());
    launched(cluster.launch("one", 1, &many(3)).await)?;
    let zones: BTreeSet<String> = cx.account.instances().await?.into_values().map(|own| own.zone).collect();
    cx.equal("zones: that with free addresses", &zones, &["us-west-2b".to_owned()].into())
}

/// Two processes make the same call at the same time, and see nothing of what the other one launches.
async fn in_flight(cx: &mut Cx<'_>, first: &Cluster) -> anyhow::Result<()> {
    let second = cx.ours().await?;
    cx.proxy.rules(|rules| rules.delays.instances = SignedDuration::from_secs(100));
    let (before, claims) = (cx.proxy.mark(), many(5));
    let (one, two) = futures::join!(first.launch("both", 1, &claims), second.launch("both", 1, &claims));
    let fleets = cx.proxy.count("CreateFleet", before);
    let ids = |all: Vec<Instance>| all.into_iter().map(|own| own.provider_id).collect::<Vec<_>>();
    cx.equal("instances of both processes", &ids(launched(one)?), &ids(launched(two)?))?;
    cx.equal("fleets and instances", &(fleets, cx.born_of(UID).await?), &(2, 5))?;
    cx.proxy.rules(|rules| rules.delays.instances = SignedDuration::ZERO);
    Ok(())
}

pub(super) async fn mismatch(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    in_flight(cx, &cluster).await?;
    cx.proxy.rules(|rules| rules.lost = [("CreateFleet", 1000)].into());
    let answers = cluster.launch("one", 1, &many(2)).await;
    cx.check("the answer is lost", answers.iter().all(|one| matches!(one, Err(LaunchError::Unknown(_)))))?;
    cx.proxy.rules(|rules| {
        rules.lost.clear();
        // The instances of the lost answer are not shown, so that the new process has to ask with the token.
        rules.delays.instances = SignedDuration::from_secs(100);
    });
    let mut cluster = cluster.restarted().await?;
    cluster.edit(|class| class.spec.detailed_monitoring = Some(true))?;
    cluster.ready().await?;
    let before = cx.proxy.mark();
    let answers = cluster.launch("one", 1, &many(2)).await;
    let fleets: Vec<u16> = cx
        .proxy
        .calls()
        .into_iter()
        .skip(before)
        .filter(|call| call.action == "CreateFleet" && !call.is_dry_run())
        .map(|call| call.status)
        .collect();
    cx.check(
        format!("EC2 refuses the token for another request ({fleets:?}): {answers:?}"),
        fleets == [400] && answers.iter().all(|one| matches!(one, Err(LaunchError::Unknown(_)))),
    )?;
    cluster.pass(SignedDuration::from_mins(2));
    let found = launched(cluster.launch("one", 1, &many(2)).await)?;
    cx.equal("claims with the instances of the lost answer", &found.len(), &2)?;
    cx.equal("instances in the end", &cx.born_of(UID).await?, &7)
}

pub(super) async fn template_deleted(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    launched(cluster.launch("one", 1, &many(1)).await)?;
    for name in cx.account.templates().await?.keys() {
        cx.account.ec2("DeleteLaunchTemplate", &[("LaunchTemplateName", name)]).await?;
    }
    launched(cluster.launch("two", 1, &many(2)).await)?;
    cx.equal("instances, though the template had been deleted", &cx.born_of(UID).await?, &3)
}

/// Prices of spot pools: type, zone, dollars an hour, and instances left.
const PRICED: [(&str, &str, &str, u32); 4] = [
    ("m5.large", "us-west-2a", "0.0500", 10),
    ("m5.large", "us-west-2b", "0.0300", 2),
    ("m5.xlarge", "us-west-2a", "0.0400", 10),
    ("m5.xlarge", "us-west-2b", "0.0900", 10),
];

pub(super) async fn spot_prices(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| {
        let own = |(name, zone, price, _): &(&str, &str, &str, u32)| {
            (((*name).to_owned(), (*zone).to_owned()), (*price).to_owned())
        };
        rules.supply.spot_prices = PRICED.iter().map(own).collect();
        let left = |(name, zone, _, left): &(&str, &str, &str, u32)| {
            (((*name).to_owned(), (*zone).to_owned(), SPOT.to_owned()), *left)
        };
        rules.supply.pools = PRICED.iter().map(left).collect();
        rules.prices =
            vec![("m5.large".to_owned(), "0.0960".to_owned()), ("m5.xlarge".to_owned(), "0.1920".to_owned())];
    });
    let mut cluster = cx.fresh().await?;
    cluster.round("providers.pricing").await?;
    cluster.ready().await?;
    let catalog = cluster.catalog().await?;
    for (name, zone, price, _) in PRICED {
        let of = catalog.get(name).into_iter().flat_map(|own| &own.offerings).find(|own| {
            own.zone().is_some_and(|own| &**own == zone)
                && own.capacity_type().is_some_and(|own| &**own == SPOT)
        });
        let found = of.map(|own| format!("{:.4}", own.price.dollars()));
        cx.equal(&format!("the price of {name} in {zone}"), &found.as_deref(), &Some(price))?;
    }
    let before = cx.proxy.mark();
    // Two fit in the cheapest pool, four do not.
    for (batch, count, name, zone) in
        [("two", 2, "m5.large", "us-west-2b"), ("four", 4, "m5.xlarge", "us-west-2a")]
    {
        let instances = launched(cluster.launch(batch, 1, &spot(count)).await)?;
        for own in instances {
            let label = |key: &str| own.labels.get(key).map(|value| value.to_string()).unwrap_or_default();
            let found = (label(INSTANCE_TYPE), label(fleetwright_core::model::labels::ZONE));
            cx.equal(&format!("type and zone of {count}"), &found, &(name.to_owned(), zone.to_owned()))?;
        }
    }
    // Karpenter and Fleetwright name no maximum: it would only add interruptions (`SpotMaxPriceTooLow`).
    let named = cx.proxy.calls().into_iter().skip(before).flat_map(|call| call.params.into_keys());
    cx.equal("maxima in requests", &named.filter(|key| key.contains("MaxPrice")).count(), &0)?;
    cx.equal("instances", &cx.born_of(UID).await?, &6)
}
