//! A scenario's AWS region: setup, changes, and expectations about it and the operator.

use fleetwright_aws::calls::{InstanceInfo, PlacementGroup, ReservationInfo, ZonalShift};
use fleetwright_sim::simulator::Simulator;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Announcement, AwsShort, Expect, RegionStep, duration};
use crate::region::Region;

/// The time between the notice and the interruption.
const NOTICE: SignedDuration = SignedDuration::from_mins(2);

/// Sets up a region and the settings of its cluster.
pub(super) fn set_up(region: &mut Region, aws: &AwsShort, start: Timestamp) {
    for (image, percent) in &aws.memory {
        region.aws.set_memory(image, *percent);
    }
    region.settings.interruption_queue = aws.queue.then(|| "queue".to_owned());
    region.settings.zonal_shift = aws.zonal_shift;
    let reservations = aws.reservations.iter().map(|short| {
        let after = |text: &Option<String>| start.checked_add(text.as_deref().and_then(duration)?).ok();
        let (starts, ends) = (after(&short.starts_in), after(&short.block_for));
        ReservationInfo {
            id: short.id.clone(),
            zone: short.zone.clone(),
            instance_type: short.instance_type.clone(),
            owner: "123456789012".to_owned(),
            match_criteria: "targeted".to_owned(),
            kind: if ends.is_some() { "capacity-block" } else { "default" }.to_owned(),
            interruptible: false,
            starts,
            ends,
            available: short.count,
        }
    });
    region.aws.set_reservations(reservations.collect());
    let groups = aws.placement_group.iter().map(|short| PlacementGroup {
        id: format!("pg-{}", short.name),
        name: short.name.clone(),
        strategy: short.strategy.clone(),
        partitions: short.partitions,
    });
    region.aws.set_placement_groups(groups.collect());
}

/// Changes a region. Returns the lines of the report, or the error in the step.
pub(super) fn change(region: &Region, step: &RegionStep, now: Timestamp) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for (announcement, count) in &step.announce {
        let concerned = |info: &&InstanceInfo| match announcement {
            Announcement::Spot | Announcement::Rebalance => info.spot,
            Announcement::Reservation => info.reservation.is_some(),
            Announcement::Retirement | Announcement::Stopped | Announcement::Terminated => true,
        };
        let booted = region.booted();
        for info in booted.iter().map(|instance| &instance.instance).filter(concerned).take(*count) {
            region.aws.push_message(&message(*announcement, &info.id, now));
            if matches!(announcement, Announcement::Spot | Announcement::Reservation) {
                region.aws.reclaim(&info.id, NOTICE);
            }
            if *announcement == Announcement::Terminated {
                region.aws.reclaim(&info.id, SignedDuration::ZERO);
            }
            lines.push(format!("announce {announcement:?} of {} in {}", info.instance_type, info.zone));
        }
    }
    if let Some(shift) = &step.shift {
        let mut shifts = Vec::new();
        for (letter, text) in shift {
            let lasts =
                duration(text).ok_or_else(|| format!("shift: {text:?} is not a duration such as 90s"))?;
            // The region has its own zone ids.
            let subnets = region.aws.subnets_now();
            let of_zone = subnets.iter().find(|subnet| subnet.zone.ends_with(letter.as_str()));
            let zone_id = of_zone.ok_or_else(|| format!("shift: there is no zone {letter}"))?.zone_id.clone();
            lines.push(format!("traffic is shifted away from zone {letter} for {text}"));
            let expires = now.checked_add(lasts).ok();
            shifts.push(ZonalShift { zone_id, status: "APPLIED".to_owned(), expires });
        }
        if shifts.is_empty() {
            lines.push("zonal shifts ended".to_owned());
        }
        region.aws.set_shifts(shifts);
    }
    Ok(lines)
}

/// A message in EventBridge's format.
fn message(announcement: Announcement, id: &str, now: Timestamp) -> String {
    let (source, detail_type, detail) = match announcement {
        Announcement::Spot => (
            "aws.ec2",
            "EC2 Spot Instance Interruption Warning",
            json!({"instance-id": id, "instance-action": "terminate"}),
        ),
        Announcement::Rebalance => {
            ("aws.ec2", "EC2 Instance Rebalance Recommendation", json!({"instance-id": id}))
        }
        Announcement::Reservation => (
            "aws.ec2",
            "EC2 Capacity Reservation Instance Interruption Warning",
            json!({"instance-id": id, "instance-action": "terminate"}),
        ),
        Announcement::Retirement => (
            "aws.health",
            "AWS Health Event",
            json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": id}]}),
        ),
        Announcement::Stopped => (
            "aws.ec2",
            "EC2 Instance State-change Notification",
            json!({"instance-id": id, "state": "stopping"}),
        ),
        Announcement::Terminated => (
            "aws.ec2",
            "EC2 Instance State-change Notification",
            json!({"instance-id": id, "state": "terminated"}),
        ),
    };
    json!({
        "version": "0", "id": id, "account": "123456789012", "region": "us-west-2", "resources": [],
        "time": now.to_string(), "source": source, "detail-type": detail_type, "detail": detail,
    })
    .to_string()
}

/// Expectations that are not met.
pub(super) fn missing(simulator: &Simulator, region: Option<&Region>, expect: &Expect) -> Vec<String> {
    let mut missing = Vec::new();
    let mut check = |what: &str, expected: Option<String>, found: String| {
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            missing.push(format!("{what}: expected {expected}, found {found}"));
        }
    };
    let own = simulator.ground_truth().len();
    let all = region.map_or(0, |region| region.aws.booted().len());
    check("instances", expect.instances.map(|count| count.to_string()), own.to_string());
    check("all instances", expect.all_instances.map(|count| count.to_string()), all.to_string());
    let claims = simulator.server().list("karpenter.sh/v1", "NodeClaim", "");
    let image = |claim: &std::sync::Arc<Value>| {
        claim.pointer("/status/imageID").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut images: Vec<String> = claims.iter().map(image).collect();
    images.sort();
    let wanted = expect.images.clone().map(|mut wanted| {
        wanted.sort();
        format!("{wanted:?}")
    });
    check("images", wanted, format!("{images:?}"));
    if let Some(words) = &expect.refused {
        let refused = simulator.refused().unwrap_or("it runs");
        if !refused.contains(words.as_str()) {
            missing.push(format!("refused: expected {words:?}, found {refused:?}"));
        }
    }
    missing
}
