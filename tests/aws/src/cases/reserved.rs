//! Capacity with an owner: reservations with counts, capacity blocks that start and end, placement groups with limits, EFA, zones that traffic is shifted
//! away from.

use std::collections::BTreeSet;

use anyhow::Context as _;
use fleetwright_aws_api::labels;
use fleetwright_aws_emulator::capacity::{PlacementGroup, Reservation};
use fleetwright_core::clock::Clock as _;
use fleetwright_core::cloud::{Instance, InterruptionKind};
use fleetwright_core::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED};
use fleetwright_core::model::{NodeClaim, Requirement};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::basics::launched;
use super::consistency::{many, names};
use crate::case::Cx;
use crate::cluster::{Cluster, Seat, UID, claim};

/// Changes the spec of a cluster's class, and waits until it is ready.
pub(super) async fn respec(cluster: &mut Cluster, field: &str, value: Value) -> anyhow::Result<()> {
    let mut spec = serde_json::to_value(cluster.class()?.spec)?;
    spec[field] = value;
    let spec = serde_json::from_value(spec)?;
    cluster.edit(|class| class.spec = spec)?;
    cluster.ready().await
}

/// Claims of m5.large in these capacity types.
fn of(capacity_types: &[&str], count: usize) -> Vec<NodeClaim> {
    let requirements = [(INSTANCE_TYPE, &["m5.large"][..]), (CAPACITY_TYPE, capacity_types)];
    names(count).iter().map(|name| claim(name, &requirements)).collect()
}

fn label<'a>(instance: &'a Instance, key: &str) -> Option<&'a str> {
    instance.labels.get(key).map(|value| &**value)
}

/// Reserved capacity of m5.large that a class selects, seen by the catalogue.
async fn with_reservation(cx: &Cx<'_>, reservation: Reservation) -> anyhow::Result<Cluster> {
    let mut cluster = cx.ours().await?;
    let id = reservation.id.clone();
    cx.proxy.rules(|rules| rules.supply.reservations = vec![reservation]);
    respec(&mut cluster, "capacityReservationSelectorTerms", json!([{"id": id}])).await?;
    Ok(cluster)
}

fn reservation(count: u32) -> Reservation {
    Reservation::new("cr-0123456789abcdef0", "m5.large", "us-west-2a", count)
}

pub(super) async fn used_first(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = with_reservation(cx, reservation(2)).await?;
    let instances = launched(cluster.launch("one", 1, &of(&[RESERVED, ON_DEMAND], 2)).await)?;
    for instance in &instances {
        cx.equal("its capacity type", &label(instance, CAPACITY_TYPE), &Some(RESERVED))?;
        let id = label(instance, labels::CAPACITY_RESERVATION_ID);
        cx.equal("its reservation", &id, &Some("cr-0123456789abcdef0"))?;
    }
    // It is full, and known to be.
    let instances = launched(cluster.launch("two", 1, &of(&[RESERVED, ON_DEMAND], 1)).await)?;
    cx.equal("what a third one costs by", &label(&instances[0], CAPACITY_TYPE), &Some(ON_DEMAND))?;
    cx.equal("instances", &cx.born_of(UID).await?, &3)
}

pub(super) async fn taken(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = with_reservation(cx, reservation(2)).await?;
    // Somebody else takes it between two looks.
    cx.proxy.rules(|rules| rules.supply.reservations[0].total = 0);
    let answers = cluster.launch("one", 1, &of(&[RESERVED], 1)).await;
    cx.check(
        format!("the reservation is full: {answers:?}"),
        answers[0].as_ref().is_err_and(|error| error.to_string().contains("ReservationCapacityExceeded")),
    )?;
    let before = cx.proxy.mark();
    let answers = cluster.launch("two", 1, &of(&[RESERVED], 1)).await;
    cx.check("and known to be", answers[0].is_err())?;
    cx.equal("fleets for what is known", &cx.proxy.count("CreateFleet", before), &0)?;
    launched(cluster.launch("three", 1, &of(&[RESERVED, ON_DEMAND], 1)).await)?;
    cx.equal("instances on demand", &cx.born_of(UID).await?, &1)
}

pub(super) async fn block(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let now = cx.proxy.clock.now();
    let (starts, ends) = (now + SignedDuration::from_hours(3), now + SignedDuration::from_hours(27));
    let mut cluster = with_reservation(cx, reservation(1).block(starts, ends)).await?;
    let answers = cluster.launch("early", 1, &of(&[RESERVED], 1)).await;
    cx.check(format!("before its start it is not used: {answers:?}"), answers[0].is_err())?;
    let catalog = cluster.catalog().await?;
    let offerings = catalog.get("m5.large").map(|own| own.offerings.as_slice()).unwrap_or_default();
    let waits = offerings.iter().find_map(|own| own.scheduled.as_ref()).context("nothing is scheduled")?;
    let known = (&*waits.name, waits.starts.as_second());
    cx.equal(
        "what it is and when it starts",
        &known,
        &("capacity block cr-0123456789abcdef0", starts.as_second()),
    )?;
    cluster.pass(SignedDuration::from_hours(3) + SignedDuration::from_mins(1));
    cluster.round("nodeclass").await?;
    let claims = of(&[RESERVED], 1);
    let instance = launched(cluster.launch("one", 1, &claims).await)?.remove(0);
    cx.equal("its kind", &label(&instance, labels::CAPACITY_RESERVATION_TYPE), &Some("capacity-block"))?;
    let adopted = NodeClaim { labels: instance.labels.clone(), ..claims[0].clone() };
    cluster.adopt(&adopted, &instance);
    let quiet = cluster.round("capacityreservation.expiration").await?;
    cx.equal("interruptions on the first day", &quiet.interruptions.len(), &0)?;
    // EC2 terminates half an hour before the end: the node is drained ten minutes before that.
    cluster.pass(SignedDuration::from_hours(23) + SignedDuration::from_mins(20));
    cluster.round("nodeclass").await?;
    let round = cluster.round("capacityreservation.expiration").await?;
    let kinds: Vec<InterruptionKind> = round.interruptions.iter().map(|own| own.kind).collect();
    cx.equal(
        "interruptions 39 minutes before the end",
        &kinds,
        &vec![InterruptionKind::ReservationExpiring],
    )?;
    cx.equal("instances then", &cx.born_of(UID).await?, &1)?;
    let answers = cluster.launch("late", 1, &of(&[RESERVED], 1)).await;
    cx.check(format!("nothing is launched into it any more: {answers:?}"), answers[0].is_err())?;
    cluster.pass(SignedDuration::from_mins(10));
    cluster.round("nodeclass").await?;
    cx.equal("instances 29 minutes before the end", &cx.born_of(UID).await?, &0)
}

/// A cluster whose class selects a placement group.
async fn with_group(cx: &Cx<'_>, strategy: &'static str, partitions: u32) -> anyhow::Result<Cluster> {
    let mut cluster = cx.ours().await?;
    let group =
        PlacementGroup { id: "pg-0123456789abcdef0".to_owned(), name: "g".to_owned(), strategy, partitions };
    cx.proxy.rules(|rules| rules.supply.groups = vec![group]);
    respec(&mut cluster, "placementGroupSelector", json!({"name": "g"})).await?;
    Ok(cluster)
}

/// Instances by zone.
async fn zones(cx: &Cx<'_>) -> anyhow::Result<Vec<String>> {
    let mut zones: Vec<String> = cx.account.instances().await?.into_values().map(|own| own.zone).collect();
    zones.sort();
    Ok(zones)
}

pub(super) async fn spread(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = with_group(cx, "spread", 0).await?;
    let answers = cluster.launch("one", 1, &of(&[ON_DEMAND], 16)).await;
    let good = answers.iter().filter(|answer| answer.is_ok()).count();
    cx.equal("claims that were launched: seven in each of two zones", &good, &14)?;
    let zones = zones(cx).await?;
    cx.equal("in the first", &zones.iter().filter(|zone| *zone == "us-west-2a").count(), &7)?;
    let before = cx.proxy.mark();
    let answers = cluster.launch("two", 1, &of(&[ON_DEMAND], 1)).await;
    cx.check(format!("the group is full: {answers:?}"), answers[0].is_err())?;
    cx.equal("fleets for what is known", &cx.proxy.count("CreateFleet", before), &0)
}

pub(super) async fn cluster_group(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = with_group(cx, "cluster", 0).await?;
    let types = [(INSTANCE_TYPE, &["c5n.18xlarge"][..]), (CAPACITY_TYPE, &[ON_DEMAND][..])];
    let claims: Vec<NodeClaim> = names(3).iter().map(|name| claim(name, &types)).collect();
    launched(cluster.launch("one", 1, &claims).await)?;
    let distinct: BTreeSet<String> = zones(cx).await?.into_iter().collect();
    cx.equal("zones of a cluster group", &distinct.len(), &1)
}

pub(super) async fn partitions(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = with_group(cx, "partition", 3).await?;
    let mut claims = of(&[ON_DEMAND], 1);
    claims[0].requirements.add(Requirement::is_in(labels::PLACEMENT_GROUP_PARTITION, ["2"]));
    launched(cluster.launch("one", 1, &claims).await)?;
    let listed = cluster.api.instances(&[], &[]).await?;
    let placement = listed.first().context("no instance")?.placement.clone();
    cx.equal("group and partition", &placement, &Some(("pg-0123456789abcdef0".to_owned(), Some(2))))
}

pub(super) async fn efa(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let cluster = cx.ours().await?;
    let mut wanted = claim("efa", &[(INSTANCE_TYPE, &["c5n.18xlarge"]), (CAPACITY_TYPE, &[ON_DEMAND])]);
    wanted.requests = wanted.requests.with("vpc.amazonaws.com/efa", 1);
    let instance = launched(cluster.launch("one", 1, &[wanted]).await)?.remove(0);
    cx.equal("EFA devices of the node", &instance.capacity.get(&"vpc.amazonaws.com/efa".into()), &1)?;
    let listed = cluster.api.instances(&[], &[]).await?;
    cx.equal("EFA interfaces of the instance", &listed.first().context("no instance")?.efa_interfaces, &1)?;
    launched(cluster.launch("two", 1, &many(1)).await)?;
    let without = cluster.api.instances(&[], &[]).await?.iter().filter(|own| own.efa_interfaces == 0).count();
    cx.equal("instances without", &without, &1)
}

/// A zone's id.
async fn zone_id(cluster: &Cluster, zone: &str) -> anyhow::Result<String> {
    let subnets = cluster.api.subnets(&[]).await?;
    let own = subnets.into_iter().find(|subnet| subnet.zone == zone).context("no subnet")?;
    Ok(own.zone_id)
}

async fn away(cx: &mut Cx<'_>, auto: bool) -> anyhow::Result<()> {
    let mut seat = Seat::ours(&cx.authority);
    seat.settings.zonal_shift = true;
    let mut cluster = Cluster::timed(&cx.proxy.url, seat, cx.proxy.clock.clone()).await?;
    cluster.ready().await?;
    let id = zone_id(&cluster, "us-west-2a").await?;
    cx.proxy.rules(|rules| if auto { rules.autoshifted.push(id) } else { rules.away.push(id) });
    cluster.pass(SignedDuration::from_mins(5));
    cluster.round("zonalshift").await?;
    launched(cluster.launch("one", 1, &many(3)).await)?;
    let distinct: BTreeSet<String> = zones(cx).await?.into_iter().collect();
    cx.equal("zones that are used", &distinct, &["us-west-2b".to_owned()].into())?;
    cx.proxy.rules(|rules| {
        rules.away.clear();
        rules.autoshifted.clear();
        // Now the other zone has nothing.
        let pools = ["m5.large", "m5.xlarge"]
            .map(|name| ((name.to_owned(), "us-west-2b".to_owned(), ON_DEMAND.to_owned()), 0));
        rules.supply.pools = pools.into();
    });
    cluster.pass(SignedDuration::from_mins(5));
    cluster.round("zonalshift").await?;
    launched(cluster.launch("two", 1, &many(1)).await)?;
    cx.check("the zone is used again", zones(cx).await?.contains(&"us-west-2a".to_owned()))
}

pub(super) async fn shift(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    away(cx, false).await
}

pub(super) async fn autoshift(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    away(cx, true).await
}
